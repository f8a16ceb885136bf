"""Small TorchScript archives, written in code, without torch."""

from __future__ import annotations

import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from tests.converter.pytorch.pickles import Made, pickled, tensor


def module(kind: str, **fields: Any) -> Made:
    """Return an object of a class of the code, with arrays as stored tensors."""
    return Made(f"__torch__.{kind}", fields)


class _Records:
    """Stored tensors of an archive."""

    def __init__(self, folder: str) -> None:
        self.arrays: list[np.ndarray] = []
        self._folder = folder

    def placed(self, value: Any) -> Any:
        """Return a value with references to records in the place of arrays."""
        if isinstance(value, np.ndarray):
            self.arrays.append(value)
            return tensor(str(len(self.arrays) - 1), value)
        if isinstance(value, Made):
            return Made(value.kind, self.placed(value.state))
        if isinstance(value, dict):
            return {key: self.placed(each) for key, each in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self.placed(each) for each in value)
        return value

    def write(self, archive: zipfile.ZipFile) -> None:
        """Write the records."""
        for index, array in enumerate(self.arrays):
            archive.writestr(f"net/{self._folder}/{index}", array.tobytes())


def script(
    folder: Path,
    code: str | Mapping[str, str],
    root: Made | None = None,
    constants: Sequence[Any] = (),
    *,
    traced: Sequence[np.ndarray] = (),
    records: Mapping[str, bytes] | None = None,
) -> Path:
    """Write an archive; return its path."""
    files = {"__torch__.py": code} if isinstance(code, str) else code
    data, fixed, shown = _Records("data"), _Records("constants"), _Records("traced_inputs")
    path = folder / "net.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", pickled(data.placed(root or module("Net"))))
        archive.writestr("net/constants.pkl", pickled(fixed.placed(tuple(constants))))
        if traced:
            archive.writestr("net/traced_inputs.pkl", pickled(shown.placed({"forward": list(traced)})))
        for name, text in files.items():
            entry = zipfile.ZipInfo(f"net/code/{name}")
            archive.writestr(entry, textwrap.dedent(text), zipfile.ZIP_DEFLATED)
        archive.writestr("net/version", "3\n")
        for name, content in (records or {}).items():
            archive.writestr(f"net/{name}", content)
        for each in (data, fixed, shown):
            each.write(archive)
    return path


def net(body: str, inputs: str = "x: Tensor") -> str:
    """Return the code of a network ``Net`` from the body of its method ``forward``."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"class Net(Module):\n  def forward(self: __torch__.Net,\n    {inputs}) -> Tensor:\n{lines}\n"


def outputs(path: Path, inputs: Mapping[str, np.ndarray], **options: Any) -> list[np.ndarray]:
    """Return what a network computes on the host."""
    dims = {name: list(array.shape) for name, array in inputs.items()}
    model = xdlc.convert(path, dims, **options)
    found = xdlc.run(model, {tensor.name: inputs[tensor.name] for tensor in model.main.inputs})
    return [found[tensor.name] for tensor in model.main.outputs]
