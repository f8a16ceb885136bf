"""Canonical operators: the ONNX operator set, onto which every importer maps its nodes."""
