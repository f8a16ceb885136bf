"""Importer of PyTorch: programs of torch.export, and TorchScript."""

from typing import Annotated

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, reader, reads
from xdlc.options import Option
from xdlc.options.graphs import SymbolOptions


class PytorchOptions(SymbolOptions, total=False):
    """Options of programs and networks of PyTorch."""

    state: Annotated[
        str | None,
        Option(
            "Choose the form of buffers and inputs that the network changes. io: inputs and outputs of the "
            "DLC; frozen: constants with their initial values.",
            default_text="io",
            metavar="FORM",
        ),
    ]
    source_lines: Annotated[
        bool,
        Option(
            "Record the line of the network's source that makes each call. The DLC then holds paths of the "
            "machine that exported the program.",
            default=False,
        ),
    ]
    torch_exporter: Annotated[
        str | None,
        Option(
            "Choose how to read the network. torch: directly. onnx: through an ONNX export by torch.onnx in "
            "a child process; this needs {trust}.",
            default_text="torch",
            metavar="NAME",
        ),
    ]
    trust: Annotated[bool, Option("Let torch load the file. torch executes code in the file.", default=False)]


FRONTEND = Frontend(
    framework="pytorch",
    model="a PyTorch program",
    tool="xconv-pytorch-to-dlc",
    recognizes=reads(formats.TORCH_EXPORT, formats.TORCH_SCRIPT),
    read=reader("pytorch"),
    options=PytorchOptions,
)
