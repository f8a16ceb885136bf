"""Records of a DLC about UDOs: their definitions, and kernels for them.

A record ``xdlc.udo.<package>`` is the OpDef XML of the ops of a package that the model has.

A record ``xdlc.kernel.<package>.<type>.<n>`` is a JSON text with package and type, the names of the ops that
the kernel is for, and the fields of :class:`xdlc.opdefs.source_match.Kernel`; arrays are objects of their
type, shape and elements (base64, little endian).  The binary is a record of its own,
``xdlc.kernel_binary.<SHA-256>``, so that kernels share it that differ in their arguments alone.

A file may come from anyone: everything is checked when it is read, and nothing of it is executed here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xdlc.errors import ContainerError, XdlcError, each_problem, raise_all
from xdlc.ir import Model, Op, TensorData, raw_data
from xdlc.ir.dtype import BY_NAME, INT64
from xdlc.ir.graph import is_udo
from xdlc.json_fields import json_value
from xdlc.opdefs import check_collection, parse_collection, write_collection
from xdlc.opdefs.collections import reduced
from xdlc.opdefs.loader import MAX_XML_BYTES
from xdlc.opdefs.model import Collection, OpDef
from xdlc.opdefs.source_match import Kernel

DEFINITIONS = "xdlc.udo."


def definitions(model: Model) -> dict[str, Collection]:
    """Return the UDO packages of a model, by name.

    Raises:
        ContainerError: If a record is damaged, or of another package than its name.
    """
    found: dict[str, Collection] = {}
    for record, data in model.records.items():
        if record.startswith(DEFINITIONS):
            package = record.removeprefix(DEFINITIONS)
            found[package] = _definitions(_read(data, record, MAX_XML_BYTES), record, package)
    return found


def _read(data: TensorData, record: str, most: int) -> bytes:
    """Return the bytes of a record of a limited size."""
    if data.nbytes > most:
        problem = f"has {data.nbytes} bytes, of at most {most}"
        raise ContainerError(problem, where=f"record {record!r}", fix=_FIX)
    return bytes(data.content())


@lru_cache(maxsize=64)
def _definitions(content: bytes, record: str, package: str) -> Collection:
    where = f"record {record!r}"
    try:
        collection = parse_collection(content, where)
    except XdlcError as error:
        problems = [f"{each.where}: {each.problem}".removeprefix(where) for each in each_problem(error)]
        raise ContainerError(
            f"holds no valid definitions: {'; '.join(problems).lstrip(': ')}",
            where=where,
            fix=_FIX,
        ) from error
    if collection.package != package:
        raise ContainerError(f"is of package {collection.package!r}", where=where, fix=_FIX)
    return collection


def definition(model: Model, op: Op) -> OpDef | None:
    """Return the definition of a UDO in its model, or None.

    Raises:
        ContainerError: If the record of its package is damaged.
    """
    record = f"{DEFINITIONS}{op.package}"
    data = model.records.get(record)
    if data is None or not is_udo(op):
        return None
    collection = _definitions(_read(data, record, MAX_XML_BYTES), record, op.package)
    return next((entry for entry in collection.opdefs if entry.name == op.type), None)


def add_definitions(model: Model, collections: Mapping[str, Collection]) -> None:
    """Store the definitions of the UDOs of a model.

    Packages and ops that the model does not use are omitted; a package that is stored already is replaced.

    Raises:
        ModelError: If definitions break a rule, so that they could not be read again; a ProblemList of all.
    """
    used: dict[str, set[str]] = {}
    for graph in model.graphs.values():
        for op in graph.ops:
            if is_udo(op):
                used.setdefault(op.package, set()).add(op.type)
    for package, types in sorted(used.items()):
        collection = collections.get(package)
        if collection is not None:
            stored = reduced(collection, types)
            raise_all(check_collection(stored), where=f"package {package!r}")
            content = write_collection(stored).encode("utf-8")
            model.records[f"{DEFINITIONS}{package}"] = raw_data(content)


KERNELS = "xdlc.kernel."
BINARIES = "xdlc.kernel_binary."
_FORMAT = 2
_DIGEST = re.compile("[0-9a-f]{64}")
_LARGEST_TEXT = 1 << 24
_LARGEST_BINARIES = 1 << 27  # of all kernels of a model
_MOST_AXES = 16
_LETTERS = frozenset("isfo")
_TEXTS = ("package", "type", "name", "entry", "arguments", "machine", "tool")
_FIX = "convert the source model again"


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """A kernel that a model carries.

    Attributes:
        package: Package of the ops that it is for.
        type: Their type.
        ops: Their names.
        kernel: The kernel.
        record: Name of its record.
        digest: SHA-256 of its binary; kernels that have the same share one record of it.
    """

    package: str
    type: str
    ops: tuple[str, ...]
    kernel: Kernel
    record: str
    digest: str


def add_kernel(model: Model, package: str, type: str, ops: Iterable[str], kernel: Kernel) -> str:
    """Store a kernel for ops, and return the name of its record; a binary that is there is not stored again.

    Raises:
        ContainerError: If it has no form as a record.
    """
    prefix = f"{KERNELS}{package}.{type}."
    number = 0
    while f"{prefix}{number}" in model.records:
        number += 1
    record = f"{prefix}{number}"
    digest = hashlib.sha256(kernel.binary).hexdigest()
    head = {"format": _FORMAT, "package": package, "type": type, "ops": list(ops), "binary": digest}
    content, binary = _json(head | _fields(kernel), kernel), raw_data(kernel.binary)
    text = _read(raw_data(content), record, _LARGEST_TEXT)
    _parsed(text, record, _Binaries({f"{BINARIES}{digest}": binary}))  # what is written can be read
    model.records[f"{BINARIES}{digest}"] = binary
    model.records[record] = raw_data(content)
    return record


def kernels(model: Model, damaged: dict[str, ContainerError] | None = None) -> list[StoredKernel]:
    """Return the kernels that a model carries, in the order of their records.

    Args:
        model: The model.
        damaged: Gets the errors of kernels that cannot be read, by their records; without it they are raised.

    Raises:
        ContainerError: If one is damaged.
    """
    found, binaries = [], _Binaries(model.records)
    for record, data in model.records.items():
        if not record.startswith(KERNELS):
            continue
        try:
            found.append(_parsed(_read(data, record, _LARGEST_TEXT), record, binaries))
        except ContainerError as error:
            if damaged is None:
                raise
            damaged[record] = error
    return found


def same_kernel(kernel: Kernel) -> tuple[bytes, bytes]:
    """Return a key that is equal for interchangeable kernels."""
    return _json(_fields(kernel), kernel), kernel.binary


def _fields(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "entry": kernel.entry,
        "arguments": kernel.arguments,
        "values": [_stored_value(value) for value in kernel.values],
        "machine": kernel.machine,
        "tool": kernel.tool,
    }


def _json(fields: Mapping[str, Any], kernel: Kernel) -> bytes:
    try:
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise ContainerError(
            f"has no form as JSON: {error}",
            where=f"kernel {kernel.name!r}",
            fix="give numbers, strings and arrays as arguments",
        ) from error


def _stored_value(value: Any) -> Any:
    """Return an argument as JSON holds it: an array with its type, everything else as it is."""
    if not hasattr(value, "dtype") or not value.shape:
        return value.item() if hasattr(value, "item") else value
    if value.dtype.name not in BY_NAME and value.dtype.name != "bool":
        raise ContainerError(f"has an argument of type {value.dtype}", fix="give arrays of plain numbers")
    little = value.astype(value.dtype.newbyteorder("<"), order="C", copy=False)
    return {
        "dtype": value.dtype.name,
        "shape": list(value.shape),
        "data": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def _value(stored: Any) -> Any:
    """Return an argument of a kernel.

    Raises:
        ValueError: If it is none.
    """
    import numpy

    if not isinstance(stored, dict):
        if not isinstance(stored, int | float | str):
            raise ValueError(f"a {type(stored).__name__}")
        if isinstance(stored, int) and not INT64.limits[0] <= stored <= INT64.limits[1]:
            raise ValueError("an integer that 64 bits do not hold")
        return stored
    name, shape, data = (stored.get(key) for key in ("dtype", "shape", "data"))
    known = BY_NAME.get("bool8" if name == "bool" else name) if isinstance(name, str) else None
    dtype = known.numpy if known is not None and known.bits >= 8 and not known.is_fixed else None
    if dtype is None or not isinstance(data, str) or not isinstance(shape, list) or len(shape) > _MOST_AXES:
        raise ValueError("an array without type, shape and data")
    if not all(type(dim) is int and 0 <= dim <= _LARGEST_TEXT for dim in shape):
        raise ValueError(f"an array of shape {shape}")
    content = base64.b64decode(data, validate=True)
    if math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"an array {name}{shape} of {len(content)} bytes")
    return numpy.frombuffer(content, dtype.newbyteorder("<")).reshape(shape)


class _Binaries:
    """The binaries of a model; each is read once, however many kernels share it."""

    def __init__(self, records: Mapping[str, TensorData]) -> None:
        self._records = records
        self._read: dict[str, tuple[bytes, str]] = {}
        self._left = _LARGEST_BINARIES

    def find(self, digest: str) -> tuple[bytes, str]:
        """Return the binary that is stored under a digest, and its own digest; nothing if there is none."""
        if digest not in self._read:
            record = f"{BINARIES}{digest}"
            data = self._records.get(record)
            binary = b"" if data is None else _read(data, record, self._left)
            self._left -= len(binary)
            self._read[digest] = binary, hashlib.sha256(binary).hexdigest()
        return self._read[digest]


def _parsed(content: bytes, record: str, binaries: _Binaries) -> StoredKernel:
    where = f"record {record!r}"

    def require(holds: bool, problem: str) -> None:
        if not holds:
            raise ContainerError(problem, where=where, fix=_FIX)

    try:
        head = json_value(content.decode("utf-8"))
    except ValueError as error:
        raise ContainerError(f"is no JSON: {error}", where=where, fix=_FIX) from error
    require(isinstance(head, dict), "is no JSON object")
    require(head.get("format") == _FORMAT, f"is of format {head.get('format')!r}, {_FORMAT} is known")
    for key in _TEXTS:
        require(isinstance(head.get(key), str), f"its {key!r} is no text")
    prefix = f"{KERNELS}{head['package']}.{head['type']}."
    named = record.startswith(prefix) and record.removeprefix(prefix).isdecimal()
    require(named, f"is of {head['package']}::{head['type']}, which its name is not")
    ops, values, letters = head.get("ops"), head.get("values"), head["arguments"]
    require(isinstance(ops, list) and all(isinstance(op, str) for op in ops), "its 'ops' are no names")
    require(isinstance(values, list), "its 'values' are no list")
    require(len(letters) == len(values), f"has {len(letters)} arguments, but {len(values)} values")
    require(_LETTERS.issuperset(letters), f"its arguments {letters!r} are not all of i, s, f and o")
    try:
        arguments = tuple(map(_value, values))
    except ValueError as error:
        raise ContainerError(f"has an argument that is none: {error}", where=where, fix=_FIX) from error
    digest = head.get("binary")
    require(isinstance(digest, str) and bool(_DIGEST.fullmatch(digest)), "its 'binary' is no SHA-256")
    binary, found = binaries.find(digest)
    held = f"its binary, record {BINARIES + digest!r},"
    require(bool(binary), f"{held} is missing or empty")
    require(found == digest, f"{held} has the SHA-256 {found}")
    texts = (head["name"], head["entry"], letters, arguments, head["machine"], head["tool"])
    return StoredKernel(head["package"], head["type"], tuple(ops), Kernel(*texts, binary), record, digest)


def is_about_udo(name: str) -> bool:
    """Return whether a record is one of those that this package reads and writes."""
    return name.startswith((DEFINITIONS, KERNELS, BINARIES))
