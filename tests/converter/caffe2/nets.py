"""Small Caffe2 nets, written in code: messages of caffe2.proto by field number."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from tests.support import protobuf
from tests.support.protobuf import varint
from xdlc import ir

FILLS = {
    "float32": "GivenTensorFill",
    "float64": "GivenTensorDoubleFill",
    "int32": "GivenTensorIntFill",
    "int64": "GivenTensorInt64Fill",
    "bool": "GivenTensorBoolFill",
    "uint8": "GivenTensorByteStringToUInt8Fill",
}
"""Operators that fill a tensor with stated values, by data type."""


def field(number: int, value: Any) -> bytes:
    """Return a field: an integer as varint, a float as 32 bits, else bytes."""
    if isinstance(value, (float, np.floating)):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    is_integer = isinstance(value, (bool, int, np.integer, np.bool_))
    return protobuf.field(number, int(value) if is_integer else value)


class Net(bytes):
    """A serialized net, as an argument."""


def argument(name: str, value: Any, *, packed: bool = False) -> bytes:
    """Return an ``Argument``: a number, text, bytes, an array, a list or a net."""
    head = field(1, name)
    if isinstance(value, Net):
        return head + field(8, value)
    if isinstance(value, float):
        return head + field(2, value)
    if isinstance(value, (bool, int)):
        return head + field(3, value)
    if isinstance(value, (str, bytes)):
        return head + field(4, value)
    items = list(np.asarray(value).reshape(-1)) if isinstance(value, np.ndarray) else list(value)
    if packed:
        return head + field(5, np.asarray(items, "<f4").tobytes())
    number = 7 if items and isinstance(items[0], (str, bytes)) else 6
    number = 5 if items and isinstance(items[0], (float, np.floating)) else number
    return head + b"".join(field(number, item) for item in items)


def operator(type: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **args: Any) -> bytes:
    """Return an ``OperatorDef``."""
    names = [field(1, one) for one in inputs] + [field(2, one) for one in outputs]
    held = [field(5, argument(key, value)) for key, value in args.items()]
    return b"".join([*names, field(3, name) if name else b"", field(4, type), *held])


def fill(name: str, array: np.ndarray[Any, Any], *, packed: bool = False) -> bytes:
    """Return the operator that fills a tensor with values."""
    values: Any = array.tobytes() if array.dtype == np.uint8 else array
    if array.dtype == np.float64:
        values = array.astype(np.float32)
    args = [argument("shape", list(array.shape)), argument("values", values, packed=packed)]
    head = field(2, name) + field(4, FILLS[array.dtype.name])
    return head + b"".join(field(5, one) for one in args)


def net(
    ops: Sequence[bytes], inputs: Iterable[str] = (), outputs: Sequence[str] = (), name: str = "n"
) -> Net:
    """Return a ``NetDef``."""
    parts = [field(1, name)] if name else []
    parts += [field(2, one) for one in ops]
    parts += [field(7, one) for one in inputs] + [field(8, one) for one in outputs]
    return Net(b"".join(parts))


class TinyNet:
    """A predict net and its init net under construction."""

    def __init__(self) -> None:
        self.ops: list[bytes] = []
        self.fills: list[bytes] = []
        self.filled: list[str] = []

    def fill(self, name: str, array: Any, *, packed: bool = False) -> str:
        """Add a tensor to the init net; return its name."""
        self.fills.append(fill(name, np.asarray(array), packed=packed))
        self.filled.append(name)
        return name

    def op(self, type: str, inputs: Sequence[str], outputs: Sequence[str], **args: Any) -> TinyNet:
        """Add an operator to the predict net, with its arguments as keywords."""
        self.ops.append(operator(type, inputs, outputs, **args))
        return self

    def again(self, index: int, name: str, value: Any) -> TinyNet:
        """Add an argument to an operator of the predict net."""
        self.ops[index] += field(5, argument(name, value))
        return self

    def init(self, type: str, outputs: Sequence[str], inputs: Sequence[str] = (), **args: Any) -> TinyNet:
        """Add an operator to the init net."""
        self.fills.append(operator(type, inputs, outputs, **args))
        self.filled += outputs
        return self

    def write(
        self, folder: Path, inputs: Sequence[str] = ("data",), outputs: Sequence[str] = ("y",)
    ) -> tuple[Path, Path]:
        """Write both nets; return their paths."""
        predict, init = folder / "predict_net.pb", folder / "init_net.pb"
        predict.write_bytes(net(self.ops, dict.fromkeys([*inputs, *self.filled]), outputs))
        init.write_bytes(net(self.fills, name="init"))
        return predict, init

    def convert(
        self,
        folder: Path,
        dims: Mapping[str, Sequence[int]] | None,
        outputs: Sequence[str] = ("y",),
        **options: Any,
    ) -> ir.Model:
        """Write both nets and return the model; ``dims`` are the inputs with their shapes."""
        predict, init = self.write(folder, list(dims or {"data": []}), outputs)
        return xdlc.convert(predict, dims, weights=init, **options)

    def run(
        self, folder: Path, inputs: Mapping[str, np.ndarray[Any, Any]], outputs: Sequence[str] = ("y",)
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Write both nets, convert them and return the outputs for inputs."""
        model = self.convert(folder, {name: array.shape for name, array in inputs.items()}, outputs)
        return xdlc.run(model, inputs)
