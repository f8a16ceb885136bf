"""Importer of Caffe nets."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, FrontendOption, reader, reads

FRONTEND = Frontend(
    framework="caffe",
    model="a Caffe net",
    tool="xconv-caffe-to-dlc",
    recognizes=reads(formats.CAFFE),
    read=reader("caffe"),
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
)
