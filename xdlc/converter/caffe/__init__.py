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
            "Read the weights of a Caffe net: a .caffemodel, or an HDF5 file, which needs the extra caffe.",
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
