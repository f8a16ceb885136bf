"""Importer of Caffe nets."""

from typing import Annotated, TypedDict

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, reader, reads
from xdlc.options import Option, PathLike


class CaffeOptions(TypedDict, total=False):
    """Options of Caffe nets."""

    weights: Annotated[
        PathLike | None,
        Option(
            "Read the weights of a Caffe net from this .caffemodel or HDF5 file. HDF5 needs the extra "
            "xdlc[caffe].",
            metavar="FILE",
            flags=("--weights", "-b", "--caffe-bin"),
        ),
    ]


FRONTEND = Frontend(
    framework="caffe",
    model="a Caffe net",
    tool="xconv-caffe-to-dlc",
    recognizes=reads(formats.CAFFE),
    read=reader("caffe"),
    options=CaffeOptions,
    spellings={"--input-network": ("-c", "--caffe-txt"), "--output-path": ("--dlc",)},
)
