"""Importer of Caffe2 nets."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, FrontendOption, reader, reads

FRONTEND = Frontend(
    framework="caffe2",
    model="a Caffe2 net",
    tool="xconv-caffe2-to-dlc",
    recognizes=reads(formats.CAFFE2),
    read=reader("caffe2"),
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
)
