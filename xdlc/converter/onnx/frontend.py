"""Frontend of ONNX."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import DEFINE_SYMBOL, Frontend, deferred, reads

_convert = deferred("xdlc.converter.onnx.convert", "convert")
FRONTEND = Frontend(
    framework="onnx",
    model="an ONNX model",
    tool="xconv-onnx-to-dlc",
    recognizes=reads(formats.ONNX),
    convert=_convert,
    options=(DEFINE_SYMBOL,),
    uncovered=deferred("xdlc.converter.onnx.uncovered", "uncovered"),
)
