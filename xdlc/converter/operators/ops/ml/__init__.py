"""Operators of ai.onnx.ml, one a module."""
