"""Importer of PyTorch: programs of torch.export, and TorchScript."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import DEFINE_SYMBOL, Frontend, FrontendOption, reader, reads

FRONTEND = Frontend(
    framework="pytorch",
    model="a PyTorch program",
    tool="xconv-pytorch-to-dlc",
    recognizes=reads(formats.TORCH_EXPORT, formats.TORCH_SCRIPT),
    read=reader("pytorch"),
    options=(
        DEFINE_SYMBOL,
        FrontendOption(
            "state",
            "text",
            "What becomes of buffers and inputs that the network changes: inputs and outputs of the DLC "
            "(io), or constants with their first values (frozen).  [default: io]",
            metavar="FORM",
        ),
        FrontendOption(
            "source_lines",
            "switch",
            "Record in the trace which line of the network's source makes each call: the DLC then holds "
            "paths of the machine that exported the program.",
        ),
        FrontendOption(
            "torch_exporter",
            "text",
            "How the network becomes a graph: it is read as it is (torch), or torch.onnx exports it in a "
            "process of its own, and the result is read (onnx), which needs --trust.  [default: torch]",
            metavar="NAME",
        ),
        FrontendOption("trust", "switch", "Let torch load the file, which executes code that it may hold."),
    ),
)
