"""Importer of ONNX files."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import DEFINE_SYMBOL, Frontend, reader, reads

FRONTEND = Frontend(
    framework="onnx",
    model="an ONNX model",
    tool="xconv-onnx-to-dlc",
    recognizes=reads(formats.ONNX),
    read=reader("onnx"),
    options=(DEFINE_SYMBOL,),
)
