"""Importer of TFLite models."""
