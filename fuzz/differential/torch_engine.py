"""PyTorch: operators of aten, by torch itself; three doors into xdlc."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from fuzz.differential.frameworks import Framework, Refused, Undefined
from fuzz.differential.networks import Array, Network, Node

ERRORS = (RuntimeError, IndexError, ValueError, TypeError, OverflowError, AssertionError)
"""Errors with which torch refuses arguments."""


MOST = 10**5
"""Numbers of the results of an operator."""


def _largest(value: Any) -> float:
    if isinstance(value, list):
        return max((_largest(each) for each in value), default=0)
    return abs(value) if isinstance(value, int) else 0


def operator(op: str) -> Any:
    """Return an operator by its name and overload, as ``add.Tensor``."""
    import torch

    name, _, overload = op.partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")


def _argument(value: Any, tensors: Sequence[Any]) -> Any:
    """Return an argument from JSON: ``@1`` is a tensor, ``#int64`` a datatype."""
    import torch

    if isinstance(value, str) and value.startswith("@"):
        return tensors[int(value[1:])]
    if isinstance(value, str) and value.startswith("#"):
        return getattr(torch, value[1:])
    if isinstance(value, list):
        return [_argument(each, tensors) for each in value]
    return value


def call(node: Node, tensors: Sequence[Any]) -> list[Any]:
    """Return the results of an operator."""
    names = {each.name: each for each in operator(node.op)._schema.arguments}
    values = {key: _argument(value, tensors) for key, value in node.attributes.items()}
    placed = [key for key, each in names.items() if not each.kwarg_only]
    positional: list[Any] = []
    for key in placed:  # tracing keeps what is given by position
        if key not in values:
            break
        positional.append(values.pop(key))
    result = operator(node.op)(*positional, **values)
    return list(result) if isinstance(result, tuple | list) else [result]


def module_of(network: Network) -> Any:
    """Return a network as a module, whose arguments have the names of the inputs."""
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, each in network.constants.items():
                self.register_buffer(name, torch.from_numpy(each.array().copy()))

        def compute(self, values: dict[str, Any]) -> Any:
            values |= {name: getattr(self, name) for name in network.constants}
            for node in network.nodes:
                values |= zip(node.outputs, call(node, [values[name] for name in node.inputs]), strict=False)
            return tuple(values[name] for name in network.outputs)

    names = list(network.inputs)
    pairs = ", ".join(f"{name!r}: {name}" for name in names)
    scope: dict[str, Any] = {}
    exec(f"def forward(self, {', '.join(names)}):\n    return self.compute({{{pairs}}})\n", scope)
    Net.forward = scope["forward"]
    return Net().eval()


class Torch(Framework):
    """Modules that torch.export traces within ``xdlc.convert``."""

    name = "torch"

    def step(self, network: Network, node: Node, values: Sequence[Array | None]) -> list[Array]:
        """Return the results of one operator."""
        import torch

        if node.attributes.get("alpha") == -(1 << 63):
            raise Undefined("torch negates the least integer")
        tensors = [None if tensor is None else torch.from_numpy(np.array(tensor)) for tensor in values]
        if _largest(list(node.attributes.values())) > MOST:  # perhaps a size: without memory first
            with contextlib.suppress(*ERRORS), torch.no_grad():
                planned = call(node, [None if tensor is None else tensor.to("meta") for tensor in tensors])
                if sum(tensor.numel() for tensor in planned) > MOST:
                    raise Undefined("large")
        try:
            with torch.no_grad():
                results = call(node, tensors)
        except ERRORS as error:
            raise Refused(str(error).split("\n")[0][:300]) from error
        if not all(isinstance(tensor, torch.Tensor) for tensor in results):
            raise Undefined("no tensor")
        if any(
            tensor.is_complex() or tensor.dtype == torch.bfloat16 or tensor.layout != torch.strided
            for tensor in results
        ):
            raise Undefined("no type of numpy's real numbers")
        return [tensor.detach().contiguous().numpy().copy() for tensor in results]

    def step_of(self, node: Node, index: int, result: Array) -> float:
        """Return the rounding of exp(x) - 1 where that is computed so."""
        return 2.0**-23 if node.op.startswith(("elu.", "selu.")) else 0.0

    def named(self, network: Network, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by place: their names are the importer's."""
        return dict(zip(network.outputs, outputs.values(), strict=False))

    def convert(self, network: Network, folder: Path, feeds: dict[str, Array]) -> xdlc.Model:
        """Convert the module in memory."""
        return xdlc.convert(module_of(network), self.examples(feeds), notify=lambda _: None)

    def examples(self, feeds: Mapping[str, Array]) -> tuple[Any, ...]:
        """Return the inputs as tensors."""
        import torch

        return tuple(torch.from_numpy(np.array(each)) for each in feeds.values())


class Exported(Torch):
    """Files of torch.export."""

    name = "torch-pt2"

    def convert(self, network: Network, folder: Path, feeds: dict[str, Array]) -> xdlc.Model:
        """Convert the file of the exported program."""
        import torch

        path = folder / "network.pt2"
        try:
            torch.export.save(torch.export.export(module_of(network), self.examples(feeds)), path)
        except Exception as error:  # torch's own, of many types
            raise Undefined(f"torch.export fails, {type(error).__name__}") from error
        return xdlc.convert(path, notify=lambda _: None)


class Scripted(Torch):
    """Files of TorchScript."""

    name = "torch-script"

    def convert(self, network: Network, folder: Path, feeds: dict[str, Array]) -> xdlc.Model:
        """Convert the file of the traced module."""
        import torch

        path = folder / "network.pt"
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                torch.jit.trace(module_of(network), self.examples(feeds), check_trace=False).save(str(path))
        except ERRORS as error:
            raise Undefined(f"torch.jit.trace fails, {type(error).__name__}") from error
        shapes = {name: list(np.shape(each)) for name, each in feeds.items()}
        return xdlc.convert(path, shapes, notify=lambda _: None)


@cache
def engine(kind: type[Torch] = Torch) -> Torch:
    """Return the framework, with its engine loaded."""
    import torch

    torch.set_num_threads(1)
    return kind()
