"""Pickles as torch writes them, without torch."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int8": "QInt8Storage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}


class Global(str):
    """A class or function: ``torch._utils._rebuild_tensor_v2``."""


class Call(NamedTuple):
    """The result of a function."""

    function: str
    arguments: tuple[Any, ...]


class Made(NamedTuple):
    """An object of a class with a state."""

    kind: str
    state: Any


class Stored(NamedTuple):
    """A storage."""

    kind: str
    key: str
    count: int


class _Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]  # the one in Python: it can be extended
    def save(self, value: Any, *_: Any, **__: Any) -> None:
        if isinstance(value, Global):
            module, _, name = value.rpartition(".")
            self.write(f"c{module}\n{name}\n".encode())
        elif isinstance(value, Stored):
            self.save(("storage", Global(f"torch.{value.kind}"), value.key, "cpu", value.count))
            self.write(pickle.BINPERSID)
        elif isinstance(value, Call):
            self.save(Global(value.function))
            self.save(tuple(value.arguments))
            self.write(pickle.REDUCE)
        elif isinstance(value, Made):
            self.save(Global(value.kind))
            self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)
            self.save(value.state)
            self.write(pickle.BUILD)
        else:
            super().save(value)

    def memoize(self, _: Any) -> None:
        """Write no value as a reference to another: identities mean nothing here."""


def pickled(value: Any) -> bytes:
    """Return the pickle of a value."""
    file = io.BytesIO()
    _Pickler(file, 2).dump(value)
    return file.getvalue()


def tensor(key: str, array: np.ndarray, quantizer: Sequence[Any] = ()) -> Call:
    """Return a contiguous tensor of a record's elements, quantized if asked."""
    strides = tuple(stride // array.itemsize for stride in np.zeros(array.shape, array.dtype).strides)
    storage = Stored(_STORAGES[array.dtype.name], key, array.size)
    hooks = Call("collections.OrderedDict", ())
    if quantizer:
        arguments = (storage, 0, array.shape, strides, tuple(quantizer), False, hooks)
        return Call("torch._utils._rebuild_qtensor", arguments)
    return Call("torch._utils._rebuild_tensor_v2", (storage, 0, array.shape, strides, False, hooks))
