"""Operators of domain com.microsoft, which onnxruntime's own tools write."""
