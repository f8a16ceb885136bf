"""Operators of ai.onnx.ml, one family a module."""
