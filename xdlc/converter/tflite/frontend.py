"""Frontend of TFLite."""

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
    return found is formats.TFLITE


def _convert(path: Any, **options: Any) -> Model:
    from xdlc.converter.tflite.convert import convert

    return convert(path, **options)


def _uncovered(path: Any, **options: Any) -> tuple[list[UncoveredNode], list[XdlcError]]:
    from xdlc.converter.checking import uncovered

    return uncovered(_convert, path, **options)


FRONTEND = Frontend(
    framework="tflite",
    model="a TFLite model",
    tool="xconv-tflite-to-dlc",
    recognizes=_recognizes,
    convert=_convert,
    options=(
        FrontendOption(
            "signature_name",
            "text",
            "Signature of a TFLite model to convert, by its key.",
            spellings=("-sn",),
            metavar="KEY",
        ),
        FrontendOption(
            "partial_graph_input_name",
            "names",
            "Tensor that becomes an input: the graph is cut before it. Repeatable.",
            metavar="NAME",
        ),
        FrontendOption(
            "float",
            "switch",
            "Dequantize a quantized TFLite model: weights and activations become float32, without encodings.",
        ),
    ),
    uncovered=_uncovered,
)
