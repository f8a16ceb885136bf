"""Info structures of libraries, read within bounds."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, TypeVar

from xdlc.errors import BackendError
from xdlc.runtime.udo import structs

_Record = TypeVar("_Record", bound=ctypes.Structure)
MOST = 4096
"""Largest number of entries of a list in an info."""


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """Registration info of a library.

    Attributes:
        package: Op package.
        ops: Names of the cores that an operation runs on, by operation type.
        libraries: Names of files by core.
    """

    package: str
    ops: dict[str, tuple[str, ...]]
    libraries: dict[str, str]


def read_registration(address: int | None, where: str) -> PackageFacts:
    """Return the registration info at an address.

    Raises:
        BackendError: If it is not valid.
    """
    info = _record(structs.RegistrationInfo, address, "info", where)
    ops: dict[str, tuple[str, ...]] = {}
    for record in _records(structs.OpInfo, info.ops, info.num_ops, "operations", where):
        name = _text(record.type, "operation type", where)
        if name in ops:
            _refuse(f"lists the operation {name!r} twice", where)
        ops[name] = tuple(word for bit, word in structs.CORES.items() if record.cores & bit)
        if not ops[name] or record.cores & ~sum(structs.CORES):
            _refuse(f"states that {name!r} runs on cores {record.cores:#x}, which are unknown", where)
    if not ops:
        _refuse("lists no operations", where)
    libraries: dict[str, str] = {}
    found = _records(structs.LibraryInfo, info.libraries, info.num_libraries, "libraries", where)
    for record in found:
        core = _core(record.core, where)
        file = _text(record.file, f"file of the library for {core}", where)
        if libraries.setdefault(core, file) != file and core != "DSP":  # an old DSP has one for each op
            _refuse(f"names two implementation libraries for {core}", where)
    return PackageFacts(_text(info.package, "package", where), ops, libraries)


def read_implementation(address: int | None, where: str) -> tuple[str, int, tuple[str, ...]]:
    """Return package, core and operations of an implementation info.

    Raises:
        BackendError: If it is not valid.
    """
    info = _record(structs.ImplementationInfo, address, "info", where)
    pointers = _records(ctypes.c_void_p, info.types, info.num_types, "operations", where)
    types = tuple(_text(pointer.value, "operation type", where) for pointer in pointers)
    return _text(info.package, "package", where), int(info.core), types


def table(pointer: int | None, kind: type[_Record], optional: tuple[str, ...], where: str) -> _Record:
    """Return the table of functions at an address.

    Raises:
        BackendError: If it is missing, its version is another, or a function is missing.
    """
    if not pointer:
        _refuse(f"has no table of functions: its {_getter(kind)} returned NULL", where)
    major = ctypes.c_uint32.from_address(pointer or 0).value
    if major != structs.API_MAJOR:
        _refuse(
            f"is for version {major} of xdlc_udo.h, this is version {structs.API_MAJOR}",
            where,
            "build it with the xdlc_udo.h of this xdlc",
        )
    found = kind.from_address(pointer or 0)
    for name, *_ in kind._fields_[2:]:
        if name not in optional and not getattr(found, name):
            _refuse(f"has no function {name} in its table", where)
    return found


def _getter(kind: type[ctypes.Structure]) -> str:
    return f"xdlc_udo_get_{kind.__name__.lower()}"


def _core(bit: int, where: str) -> str:
    if bit not in structs.CORES:
        _refuse(f"names a library for core {bit:#x}, which is unknown", where)
    return structs.CORES[bit]


def _record(kind: type[_Record], address: int | None, what: str, where: str) -> _Record:
    if not address:
        _refuse(f"has no {what}: it is NULL", where)
    return kind.from_address(address or 0)


def _records(kind: Any, address: int | None, count: int, what: str, where: str) -> list[Any]:
    if count > MOST:
        _refuse(f"states {count} {what}, and there may be {MOST}", where)
    if count and not address:
        _refuse(f"states {count} {what}, but their list is NULL", where)
    size = ctypes.sizeof(kind)
    return [kind.from_address((address or 0) + index * size) for index in range(count)]


def _text(address: int | None, what: str, where: str) -> str:
    found = structs.text_at(address)
    if not found:
        _refuse(f"has no {what}: it is {'NULL' if found is None else 'empty'}", where)
    return found or ""


def _refuse(problem: str, where: str, fix: str = "correct the library's info") -> None:
    raise BackendError(problem, where=where, fix=fix)
