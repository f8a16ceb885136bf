"""Frontend of ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, FrontendOption

if TYPE_CHECKING:
    from xdlc.errors import XdlcError
    from xdlc.ir import Model
    from xdlc.opdefs.source_match import UncoveredNode


def _recognizes(_path: Path, found: formats.Format | None) -> bool:
    return found is formats.ONNX


def _convert(path: Any, **options: Any) -> Model:
    from xdlc.converter.onnx.convert import convert

    return convert(path, **options)


def _uncovered(path: Any, **options: Any) -> tuple[list[UncoveredNode], list[XdlcError]]:
    from xdlc.converter.onnx.uncovered import uncovered

    return uncovered(path, **options)


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
    uncovered=_uncovered,
)
