"""ONNX importer: an ``.onnx`` file becomes a float (or already quantized) model of the IR.

A dry run is in :mod:`xdlc.converter.checking`, which a conversion need not load.
"""

from xdlc.converter.onnx.convert import convert

__all__ = ["convert"]
