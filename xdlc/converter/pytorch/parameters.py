"""Stored tensors of programs of torch.export, in all layouts of archives.

torch 2.9 and newer store a raw record for each storage and a configuration in JSON
(torch/_export/serde/schema.py, PayloadConfig); older ones an archive of ``torch.save`` as a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdlc import ir
from xdlc.converter.pytorch.archive import AGAIN, Archive
from xdlc.converter.pytorch.pickled import StoredTensor
from xdlc.converter.pytorch.tensors import EXPORTED, stored, unpickled
from xdlc.converter.pytorch.unpickling import unpickle
from xdlc.errors import ModelError, UnsupportedOp, XdlcError

WEIGHTS, CONSTANTS = "weights", "constants"
_PICKLED = {WEIGHTS: "serialized_state_dict", CONSTANTS: "serialized_constants"}
"""Records of archives of torch 2.6 and older."""


@dataclass(slots=True)
class Parameter:
    """A tensor that a program holds: a parameter, a buffer or a constant.

    Attributes:
        name: Its name in the state_dict.
        data: Its elements, or the error why they cannot be read.
        place: What is equal for tensors that are the same elements: storage, offset, type, shape, strides.
    """

    name: str
    data: ir.TensorData | XdlcError
    place: tuple[Any, ...] = ()


class Parameters:
    """The stored tensors of one program.

    Args:
        archive: The archive.
        model: Name of the program in it; None in archives that name none.

    Raises:
        ModelError: If a configuration or pickle is damaged.
    """

    def __init__(self, archive: Archive, model: str | None) -> None:
        self._archive = archive
        self._configured: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._pickled: dict[str, tuple[Archive, Any]] = {}
        for kind in (CONSTANTS, WEIGHTS):
            folder, old = f"data/{kind}/", _PICKLED[kind]
            for name in archive.names(f"{folder}{model}_{kind}_config.json"):
                for tensor, entry in archive.parsed(name)["config"].items():
                    self._configured[tensor] = f"{folder}{entry['path_name']}", entry
            for name in archive.names(old) if model is None else archive.names(f"{folder}{model}.pt"):
                self._unpickle(name)

    def _unpickle(self, name: str) -> None:
        """Add the tensors of a record that ``torch.save`` has made."""
        where = f"{self._archive.path}: record {name!r}"
        if not self._archive.record(name)[1]:
            return
        inner = self._archive.inner(name)
        held = unpickle(inner.read("data.pkl"), where)
        if not isinstance(held, dict):
            raise ModelError("is no state_dict", where=where, fix=AGAIN)
        self._pickled |= {tensor: (inner, value) for tensor, value in held.items()}

    def find(self, name: str) -> Parameter:
        """Return a tensor; its data are the reason if they cannot be read."""
        where = f"{self._archive.path}: tensor {name!r}"
        try:
            if name in self._configured:
                return self._of_record(name, where)
            if name in self._pickled:
                return self._of_pickle(name, where)
            return Parameter(name, ModelError("is not in the file", where=where, fix=AGAIN))
        except XdlcError as error:
            error.where = error.where or where
            return Parameter(name, error)

    def _of_record(self, name: str, where: str) -> Parameter:
        record, entry = self._configured[name]
        if entry["use_pickle"] or entry["tensor_meta"] is None:
            raise _object(where)
        meta = entry["tensor_meta"]
        sizes, strides = (tuple(_number(each) for each in meta[key]) for key in ("sizes", "strides"))
        offset, number = _number(meta["storage_offset"]), EXPORTED.get(meta["dtype"], -1)
        start, nbytes = self._archive.record(record) if all(sizes) else (0, 0)
        data = stored(self._archive.source, start, nbytes, number, sizes, strides, offset, where)
        return Parameter(name, data, (start, offset, number, sizes, strides))

    def _of_pickle(self, name: str, where: str) -> Parameter:
        archive, value = self._pickled[name]
        if not isinstance(value, StoredTensor) or value.quantizer:
            raise _object(where)
        return Parameter(name, unpickled(archive, "data/", value), value)


def _number(value: Mapping[str, Any]) -> int:
    number = value["as_int"]
    if type(number) is not int:
        raise TypeError(f"{number!r} is no integer")
    return number


def _object(where: str) -> XdlcError:
    return UnsupportedOp(
        "is stored as a Python object, which would have to be executed",
        where=where,
        fix="export a network whose parameters are plain tensors: those of torchao become such by "
        "torchao.utils.unwrap_tensor_subclass(model)",
    )
