"""Frontend of PyTorch."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import DEFINE_SYMBOL, Frontend, FrontendOption, deferred, drafted, reads

_convert = deferred("xdlc.converter.pytorch.convert", "convert")
FRONTEND = Frontend(
    framework="pytorch",
    model="a PyTorch program",
    tool="xconv-pytorch-to-dlc",
    recognizes=reads(formats.TORCH_EXPORT),
    convert=_convert,
    options=(
        DEFINE_SYMBOL,
        FrontendOption(
            "state",
            "text",
            "What becomes of buffers and inputs that the network changes: inputs and outputs of the DLC "
            "(io), or constants with their first values (frozen).  [default: io]",
            metavar="FORM",
        ),
    ),
    uncovered=drafted(_convert),
)
