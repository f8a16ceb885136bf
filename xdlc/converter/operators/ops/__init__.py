"""ONNX importers, found by name: each module registers its own."""
