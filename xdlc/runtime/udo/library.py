"""Registration libraries and their implementation libraries, in the worker."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from xdlc.errors import BackendError, UsageError
from xdlc.ir.dtype import BY_CODE
from xdlc.opdefs.op_view import TensorSpec
from xdlc.runtime.udo import structs
from xdlc.runtime.udo.descriptor import OpForm
from xdlc.runtime.udo.memory import Memory
from xdlc.runtime.udo.sources import MACHINE
from xdlc.runtime.udo.structs import Native, check, message_buffer, message_in, utf8

_REGISTRATION = "xdlc_udo_get_registration"
_MACHINES = {3: "i386", 0x28: "arm", 0x3E: "x86_64", 0xA4: "hexagon", 0xB7: "aarch64", 0xF3: "riscv64"}
_IMPLEMENTATION = "xdlc_udo_get_implementation"

_Record = TypeVar("_Record", bound=ctypes.Structure)
MOST = 4096
"""Largest number of entries of a list in an info."""


def open_library(path: str, where: str) -> ctypes.CDLL:
    """Load a shared library by its path.

    Raises:
        BackendError: If the system does not load it.
    """
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise BackendError(
            f"cannot be loaded: {_other_machine(path) or error}",
            where=where,
            fix="pass a registration library, libUdo<Package>Reg.so, built for this machine and Linux, or "
            "a Python file that ends in .py",
        ) from error


def _other_machine(path: str) -> str:
    """Return why the system refuses an ELF file of another processor."""
    head = b""
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(20)
    name = (
        _MACHINES.get(int.from_bytes(head[18:20], "little"), MACHINE) if head[:4] == b"\x7fELF" else MACHINE
    )
    if head[:2] == b"MZ":
        return "the library is for Windows, but this machine runs Linux"
    return "" if name == MACHINE else f"the library is for {name}, but this machine is {MACHINE}"


def exported(library: ctypes.CDLL, name: str, where: str) -> Any:
    """Return a function that a library exports.

    Raises:
        BackendError: If it does not.
    """
    try:
        return getattr(library, name)
    except AttributeError as error:
        fix = "build the library with xdlc_udo.h and XDLC_UDO_EXPORT"
        if name == _REGISTRATION and hasattr(library, _IMPLEMENTATION):
            fix = "give the registration library, libUdo<Package>Reg.so, not the implementation library"
        elif hasattr(library, "SnpeUdo_getVersion"):
            fix = "use a library from xdlc udo-package-generator, not a library for SNPE's own runtime"
        raise BackendError(f"does not export {name}", where=where, fix=fix) from error


def _table_of(path: Path, kind: type[ctypes.Structure], *optional: str) -> Any:
    """Return the table of functions of a library.

    Raises:
        BackendError: If it is missing, its version is another, or a function is missing.
    """
    where, name = str(path), f"xdlc_udo_get_{kind.__name__.lower()}"
    getter = exported(open_library(where, where), name, where)
    getter.restype = ctypes.c_void_p
    pointer = getter()
    if not pointer:
        _refuse(f"has no table of functions: its {name} returned NULL", where)
    major = ctypes.c_uint32.from_address(pointer).value
    if major != structs.API_MAJOR:
        _refuse(
            f"the library is for version {major} of xdlc_udo.h, but xdlc has version {structs.API_MAJOR}",
            where,
            "build the library with the xdlc_udo.h of this xdlc",
        )
    functions = kind.from_address(pointer)
    for field, *_ in kind._fields_[2:]:
        if field not in optional and not getattr(functions, field):
            _refuse(f"has no function {field} in its table", where)
    return functions


class Registration:
    """A registration library, which may contain the implementation too.

    Attributes:
        package: Op package.
        ops: Names of the cores that an operation runs on, by operation type.

    Raises:
        XdlcError: If it is not valid, or fails.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, str(path)
        self._table = _table_of(path, structs.Registration, "infer_outputs")
        check(self._table.initialize(), "initialize", "", self.where)
        self._implementation: Implementation | None = None
        info = ctypes.c_void_p()
        check(self._table.get_info(ctypes.byref(info)), "get_info", "", self.where)
        self.package, self.ops, self._libraries = read_registration(info.value, self.where)
        self._is_both = hasattr(open_library(self.where, self.where), _IMPLEMENTATION)

    @property
    def has_kernels(self) -> bool:
        """Whether an implementation for the CPU exists, in this or another library."""
        return self._is_both or "CPU" in self._libraries

    @property
    def infers(self) -> bool:
        """Whether it infers shapes of outputs."""
        return bool(self._table.infer_outputs)

    def validate(self, op: structs.Op) -> None:
        """Check that an operation can be executed.

        Raises:
            BackendError: If not.
        """
        message = message_buffer()
        status = self._table.validate(ctypes.byref(op), message, len(message))
        check(status, "validate", message_in(message), self.where)

    def infer(self, op: structs.Op, count: int, *, aloud: bool = False) -> list[TensorSpec] | None:
        """Return the outputs of an operation; None if the library cannot infer them.

        Args:
            count: How many outputs it has.
            aloud: Whether to print why it cannot, which the caller shows.

        Raises:
            BackendError: If it fails, or returns no shape.
        """
        if not self.infers:
            return None
        shapes, message = (structs.Shape * max(count, 1))(), message_buffer()
        status = self._table.infer_outputs(ctypes.byref(op), shapes, message, len(message))
        if status == structs.UNSUPPORTED:
            if aloud and message_in(message):
                print(message_in(message), file=sys.stderr)
            return None
        check(status, "infer_outputs", message_in(message), self.where)
        return [self._spec(shape, index) for index, shape in enumerate(shapes[:count])]

    def _spec(self, shape: structs.Shape, index: int) -> TensorSpec:
        if shape.rank > structs.MAX_RANK or shape.data_type not in BY_CODE:
            raise BackendError(
                f"infer_outputs returned rank {shape.rank}, type {shape.data_type:#x} for output {index}",
                where=self.where,
                fix=f"use at most {structs.MAX_RANK} axes and one of the types of xdlc_udo.h",
            )
        extents = shape.dims[: shape.rank]
        dims = tuple(None if extent == structs.OPEN_EXTENT else extent for extent in extents)
        return TensorSpec(dims, BY_CODE[shape.data_type])

    def implementation(self) -> Implementation:
        """Return the implementation for the CPU, loaded with the first call.

        Raises:
            XdlcError: If the kernel is missing, is not valid, or fails.
        """
        if self._implementation is None:
            path = self.path if self._is_both else self._beside(self._libraries["CPU"])
            self._implementation = Implementation(path, self.package)
        return self._implementation

    def _beside(self, name: str) -> Path:
        """Return the path of an implementation library in the same folder."""
        path = self.path.parent / name
        if Path(name).name != name or not path.is_file():
            raise UsageError(
                f"names the implementation library {name!r}, which is missing from its folder",
                where=self.where,
                fix="put the implementation library next to the registration library",
            )
        return path

    def close(self) -> None:
        """Terminate the implementation and the library.

        Raises:
            BackendError: If one of them fails.
        """
        held, self._implementation = self._implementation, None
        try:
            if held is not None:
                held.close()
        finally:
            check(self._table.terminate(), "terminate", "", self.where)


class Implementation:
    """An implementation library for the CPU.

    Args:
        package: The package that it has to be of.

    Attributes:
        table: Its functions.
        types: The operations that it has.

    Raises:
        XdlcError: If it is not valid, or fails.
    """

    def __init__(self, path: Path, package: str) -> None:
        self.where = str(path)
        self.table = _table_of(path, structs.Implementation)
        self._infrastructure = structs.Infrastructure(structs.Log(_log))
        self.check(self.table.initialize(ctypes.byref(self._infrastructure)), "initialize")
        info = ctypes.c_void_p()
        self.check(self.table.get_info(ctypes.byref(info)), "get_info")
        own, core, self.types = read_implementation(info.value, self.where)
        if own != package or core != structs.CPU:
            word = structs.CORES.get(core, f"core {core:#x}")
            raise BackendError(
                f"the library implements package {own!r} for {word}, but must implement {package!r} for CPU",
                where=self.where,
                fix="put the libraries of one package into one folder",
            )

    def check(self, status: int, doing: str) -> None:
        """Raise an error if a function of the library returned a failure.

        Raises:
            BackendError: If it failed.
        """
        if status:
            check(status, doing, structs.text_at(self.table.last_message()) or "", self.where)

    def close(self) -> None:
        """Terminate the library.

        Raises:
            BackendError: If it fails.
        """
        self.check(self.table.terminate(), "terminate")


def _log(text: int | None) -> None:
    print(structs.text_at(text) or "", file=sys.stderr, flush=True)


class LibraryOp:
    """An operation that a library executes.

    Args:
        memory: Its static data.

    Raises:
        BackendError: If the library does not take it.
    """

    def __init__(self, library: Registration, form: OpForm, memory: Memory) -> None:
        library.validate(Native().op(form, memory))
        self._code = library.implementation()
        if form.type not in self._code.types:
            raise BackendError(
                f"does not implement {form.type!r}, though {library.where} lists it for the CPU",
                where=self._code.where,
                fix="build both libraries from one configuration",
            )
        self._params, self._io = Native(), Native()
        self._operation: ctypes.c_void_p | None = None
        self._factory = ctypes.c_void_p()
        params = self._params.params(form.params, memory)
        status = self._code.table.create_factory(
            structs.CPU, utf8(form.type), len(form.params), params, ctypes.byref(self._factory)
        )
        self._code.check(status, "create_factory")

    def bind(self, form: OpForm, inputs: dict[int, int], outputs: dict[int, int]) -> None:
        """Bind the addresses of inputs and outputs, by position."""
        native = Native()
        io = (
            len(form.inputs),
            native.tensors(form.inputs, inputs),
            len(form.outputs),
            native.tensors(form.outputs, outputs),
        )
        if self._operation is None:
            made = ctypes.c_void_p()
            status = self._code.table.create_operation(self._factory, *io, ctypes.byref(made))
            self._code.check(status, "create_operation")
            self._operation = made
        else:
            self._code.check(self._code.table.set_io(self._operation, *io), "set_io")
        self._io = native

    def run(self) -> None:
        """Execute it and wait."""
        self._code.check(self._code.table.execute(self._operation, 0, None, None), "execute")

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""
        found = ctypes.c_uint64()
        self._code.check(self._code.table.profile(self._operation, ctypes.byref(found)), "profile")
        return found.value

    def release(self) -> None:
        """Release operation and factory."""
        operation, self._operation = self._operation, None
        try:
            if operation is not None:
                self._code.check(self._code.table.release_operation(operation), "release_operation")
        finally:
            self._code.check(self._code.table.release_factory(self._factory), "release_factory")


def read_registration(
    address: int | None, where: str
) -> tuple[str, dict[str, tuple[str, ...]], dict[str, str]]:
    """Return package, cores by operation, and files of libraries by core.

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
        if record.core not in structs.CORES:
            _refuse(f"names a library for core {record.core:#x}, which is unknown", where)
        core = structs.CORES[record.core]
        file = _text(record.file, f"file of the library for {core}", where)
        if libraries.setdefault(core, file) != file and core != "DSP":  # an old DSP has one for each op
            _refuse(f"names two implementation libraries for {core}", where)
    return _text(info.package, "package", where), ops, libraries


def read_implementation(address: int | None, where: str) -> tuple[str, int, tuple[str, ...]]:
    """Return package, core and operations of an implementation info.

    Raises:
        BackendError: If it is not valid.
    """
    info = _record(structs.ImplementationInfo, address, "info", where)
    pointers = _records(ctypes.c_void_p, info.types, info.num_types, "operations", where)
    types = tuple(_text(pointer.value, "operation type", where) for pointer in pointers)
    return _text(info.package, "package", where), int(info.core), types


def _record(kind: type[_Record], address: int | None, what: str, where: str) -> _Record:
    if not address:
        _refuse(f"has no {what}: it is NULL", where)
    return kind.from_address(address)


def _records(kind: Any, address: int | None, count: int, what: str, where: str) -> list[Any]:
    if count > MOST:
        _refuse(f"the library states {count} {what}; xdlc supports at most {MOST}", where)
    if count and not address:
        _refuse(f"the library states {count} {what}, but the list of {what} is NULL", where)
    size = ctypes.sizeof(kind)
    return [kind.from_address((address or 0) + index * size) for index in range(count)]


def _text(address: int | None, what: str, where: str) -> str:
    text = structs.text_at(address)
    if not text:
        _refuse(f"has no {what}: it is {'NULL' if text is None else 'empty'}", where)
    return text


def _refuse(problem: str, where: str, fix: str = "correct the library's info") -> NoReturn:
    raise BackendError(problem, where=where, fix=fix)
