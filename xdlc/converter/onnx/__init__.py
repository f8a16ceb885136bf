"""ONNX importer: an ``.onnx`` file becomes a float (or already quantized) model of the IR."""

from xdlc.converter.onnx.check import check
from xdlc.converter.onnx.convert import convert

__all__ = ["check", "convert"]
