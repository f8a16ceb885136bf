"""Frontend of TensorFlow."""

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
    return found in (formats.GRAPH_DEF, formats.META_GRAPH, formats.SAVED_MODEL)


def _convert(path: Any, **options: Any) -> Model:
    from xdlc.converter.tensorflow.convert import convert

    return convert(path, **options)


def _uncovered(path: Any, **options: Any) -> tuple[list[UncoveredNode], list[XdlcError]]:
    from xdlc.converter.checking import uncovered

    return uncovered(_convert, path, **options)


FRONTEND = Frontend(
    framework="tensorflow",
    model="a TensorFlow model",
    tool="xconv-tensorflow-to-dlc",
    recognizes=_recognizes,
    convert=_convert,
    options=(
        FrontendOption(
            "out_node",
            "names",
            "Node at which the graph ends instead of the model's outputs; NODE:K is output K of one. "
            "Repeatable.",
            metavar="NODE",
        ),
        FrontendOption(
            "saved_model_tag",
            "text",
            "Tags of the SavedModel's graph, separated by commas.  [default: serve]",
            metavar="TAG",
        ),
        FrontendOption(
            "saved_model_signature_key",
            "text",
            "Signature whose inputs and outputs the DLC gets.  [default: serving_default]",
            metavar="KEY",
        ),
        FrontendOption(
            "show_unconsumed_nodes", "switch", "List the nodes of the graph that no output needs."
        ),
    ),
    uncovered=_uncovered,
)
