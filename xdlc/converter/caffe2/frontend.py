"""Frontend of Caffe2."""

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
    return found is formats.CAFFE2


def _convert(path: Any, **options: Any) -> Model:
    from xdlc.converter.caffe2.convert import convert

    return convert(path, **options)


def _uncovered(path: Any, **options: Any) -> tuple[list[UncoveredNode], list[XdlcError]]:
    from xdlc.converter.checking import uncovered

    return uncovered(_convert, path, **options)


FRONTEND = Frontend(
    framework="caffe2",
    model="a Caffe2 net",
    tool="xconv-caffe2-to-dlc",
    recognizes=_recognizes,
    convert=_convert,
    options=(
        FrontendOption(
            "weights",
            "file",
            "Init net of a Caffe2 predict net: init_net.pb, which fills its weights.",
            ("-e", "--exec_net", "--init_net"),
            "FILE",
        ),
    ),
    spellings={"--input_network": ("-p", "--predict_net"), "--output_path": ("--dlc",)},
    uncovered=_uncovered,
)
