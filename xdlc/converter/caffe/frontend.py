"""Frontend of Caffe."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, FrontendOption, deferred, drafted, reads

_convert = deferred("xdlc.converter.caffe.convert", "convert")
FRONTEND = Frontend(
    framework="caffe",
    model="a Caffe net",
    tool="xconv-caffe-to-dlc",
    recognizes=reads(formats.CAFFE),
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
    uncovered=drafted(_convert),
)
