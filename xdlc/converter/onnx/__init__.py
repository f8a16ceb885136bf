"""ONNX importer: an ``.onnx`` file becomes a float (or already quantized) model of the IR."""
