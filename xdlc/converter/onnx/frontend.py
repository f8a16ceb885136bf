"""Frontend of ONNX."""

from __future__ import annotations

from pathlib import Path

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, FrontendOption, deferred


def _recognizes(_path: Path, found: formats.Format | None) -> bool:
    return found is formats.ONNX


_convert = deferred("xdlc.converter.onnx.convert", "convert")
FRONTEND = Frontend(
    framework="onnx",
    model="an ONNX model",
    tool="xconv-onnx-to-dlc",
    recognizes=_recognizes,
    convert=_convert,
    options=(
        FrontendOption(
            "define_symbol",
            "sizes",
            "Value of a symbolic dimension. Repeatable.",
            spellings=("-s",),
            metavar="SYMBOL N",
        ),
    ),
    uncovered=deferred("xdlc.converter.onnx.uncovered", "uncovered"),
)
