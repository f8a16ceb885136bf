"""Importer of Caffe2 nets."""

from typing import Annotated, TypedDict

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, reader, reads
from xdlc.options import Option, PathLike


class Caffe2Options(TypedDict, total=False):
    """Options of Caffe2 nets."""

    weights: Annotated[
        PathLike | None,
        Option(
            "Read the weights of a Caffe2 predict net from this init net, init_net.pb.",
            metavar="FILE",
            flags=("--weights", "-e", "--exec-net", "--init-net"),
        ),
    ]


FRONTEND = Frontend(
    framework="caffe2",
    model="a Caffe2 net",
    tool="xconv-caffe2-to-dlc",
    recognizes=reads(formats.CAFFE2),
    read=reader("caffe2"),
    options=Caffe2Options,
    spellings={"--input-network": ("-p", "--predict-net"), "--output-path": ("--dlc",)},
)
