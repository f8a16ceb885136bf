"""Canonical operators: the ONNX operator set, which all importers apply."""
