"""ONNX importers, one family of operators a module; each registers its own."""
