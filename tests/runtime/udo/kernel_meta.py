"""Files of compiled kernels for models that tests build."""

from __future__ import annotations

from pathlib import Path

from xdlc.ir import Model
from xdlc.opdefs.source_match import Kernel
from xdlc.runtime.udo.kernel_files import FOLDER, Call, kernel_files, params_of, shapes_of


def call(model: Model, kernel: Kernel, *names: str) -> Call:
    """Return a call of a kernel by ops of a model, shaped as the first one."""
    op = next(op for graph in model.graphs.values() for op in graph.ops if op.name in names)
    return Call(op.package, op.type, names, shapes_of(op), params_of(op), kernel)


def written(folder: Path, *calls: Call) -> Path:
    """Write the files of kernels, and return their folder."""
    for name, content in kernel_files(calls).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return folder / FOLDER
