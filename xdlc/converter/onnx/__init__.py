"""Importer of ONNX files."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, reader, reads
from xdlc.options.graphs import SymbolOptions

FRONTEND = Frontend(
    framework="onnx",
    model="an ONNX model",
    tool="xconv-onnx-to-dlc",
    recognizes=reads(formats.ONNX),
    read=reader("onnx"),
    options=SymbolOptions,
)
