"""Frontend of Caffe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, FrontendOption

if TYPE_CHECKING:
    from xdlc.errors import XdlcError
    from xdlc.ir import Model
    from xdlc.opdefs.source_match import UncoveredNode


def _recognizes(path: Path, found: formats.Format | None) -> bool:
    return found is formats.CAFFE or (found is None and path.suffix == ".prototxt")


def _convert(path: Any, **options: Any) -> Model:
    from xdlc.converter.caffe.convert import convert

    return convert(path, **options)


def _uncovered(path: Any, **options: Any) -> tuple[list[UncoveredNode], list[XdlcError]]:
    from xdlc.converter.checking import uncovered

    return uncovered(_convert, path, **options)


FRONTEND = Frontend(
    framework="caffe",
    model="a Caffe net",
    tool="xconv-caffe-to-dlc",
    recognizes=_recognizes,
    convert=_convert,
    options=(
        FrontendOption(
            "weights",
            "file",
            "Weights of the net: a .caffemodel, or an HDF5 file (needs the extra caffe).",
            ("-b", "--caffe_bin"),
            "FILE",
        ),
    ),
    spellings={"--input_network": ("-c", "--caffe_txt"), "--output_path": ("--dlc",)},
    uncovered=_uncovered,
)
