"""NCHW: channels second."""

from __future__ import annotations

from xdlc.udo.plugin.formats.base import Plain


class Nchw(Plain):
    """Channels second, as ONNX and Caffe have them."""

    name = "NCHW"
    layout = "NCHW"
