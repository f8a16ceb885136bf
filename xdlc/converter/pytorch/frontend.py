"""Frontend of PyTorch."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, deferred, drafted, reads

_convert = deferred("xdlc.converter.pytorch.convert", "convert")
FRONTEND = Frontend(
    framework="pytorch",
    model="a PyTorch program",
    tool="xconv-pytorch-to-dlc",
    recognizes=reads(formats.TORCH_EXPORT),
    convert=_convert,
    uncovered=drafted(_convert),
)
