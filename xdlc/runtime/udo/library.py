"""Libraries with the interface SnpeUdo, and QNN op packages, in the worker."""

from __future__ import annotations

import ctypes
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from xdlc.errors import BackendError, UsageError
from xdlc.ir.dtype import BY_CODE, UNDEFINED
from xdlc.opdefs.op_view import TensorSpec
from xdlc.runtime import interfaces
from xdlc.runtime.interfaces import constants, ctype, overlay
from xdlc.runtime.udo.descriptor import MAX_RANK, OpForm, TensorForm
from xdlc.runtime.udo.memory import Memory
from xdlc.runtime.udo.native import CORES, CPU, Native, Reporter, has_snpe_types, static_addresses, text_at
from xdlc.runtime.udo.sources import MACHINE

_MACHINES = {3: "i386", 0x28: "arm", 0x3E: "x86_64", 0xA4: "hexagon", 0xB7: "aarch64", 0xF3: "riscv64"}
_PREFIX = "SnpeUdo_"
_SNPE_ERRORS = interfaces.names("SnpeUdo_ErrorType_t")
_QNN_ERRORS = interfaces.names("QnnOpPackage_Error_t")
_LINE = 2048
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


def exported(library: ctypes.CDLL, name: str, where: str, kind: str = "") -> Any:
    """Return a function that a library exports, of the type of a prototype.

    Args:
        kind: The prototype; default: that of the name.

    Raises:
        BackendError: If it does not.
    """
    try:
        return ctype(kind or name)((name, library))
    except AttributeError as error:
        fix = "pass a registration library of SNPE, or name the provider of a QNN op package: FILE:PROVIDER"
        if name == f"{_PREFIX}initRegLibrary" and hasattr(library, f"{_PREFIX}getImpInfo"):
            fix = "give the registration library, libUdo<Package>Reg.so, not the implementation library"
        raise BackendError(f"does not export {name}", where=where, fix=fix) from error


class Code(Protocol):
    """An operation that a library executes."""

    def bind(self, form: OpForm, inputs: dict[int, int], outputs: dict[int, int]) -> None:
        """Bind the addresses of inputs and outputs, by position."""

    def run(self) -> None:
        """Execute it and wait."""

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""

    def release(self) -> None:
        """Release what the library holds for it."""


class Registration:
    """A registration library of SnpeUdo.

    Attributes:
        ops: Names of the cores that an operation runs on, by operation type.

    Raises:
        XdlcError: If it is not valid, or fails.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, str(path)
        self._library = open_library(self.where, self.where)
        self._report = Reporter(self.where, _SNPE_ERRORS)
        self._is_both = hasattr(self._library, f"{_PREFIX}getImpInfo")
        self._call("initRegLibrary")
        self._implementation: Implementation | None = None
        self._op_package: OpPackage | None = None
        info = ctypes.c_void_p()
        self._call("getRegInfo", ctypes.addressof(info))
        self.package, self.ops, self._libraries = read_registration(info.value, self.where)

    @property
    def has_kernels(self) -> bool:
        """Whether an implementation for the CPU exists, in this or another library."""
        return self._is_both or "CPU" in self._libraries

    @property
    def _code(self) -> Path:
        """The implementation library: this one if it is both, else one beside it."""
        return self.path if self._is_both else self._beside(self._libraries["CPU"])

    def infers(self, type: str) -> bool:
        """Return whether it infers the shapes of an operation's outputs."""
        return hasattr(self._library, f"{type}ShapeInference")

    def infer(
        self, form: OpForm, memory: Memory, inputs: dict[int, int], *, aloud: bool = False
    ) -> list[TensorSpec] | None:
        """Return the outputs of an operation; None if the library cannot infer them.

        Args:
            inputs: Where elements of inputs are, by position.
            aloud: Whether to print why it cannot, which the caller shows.

        Raises:
            BackendError: If it fails, or returns no shape.
        """
        if not self.infers(form.type) or any(tensor.is_open for tensor in form.inputs):
            return None
        native = Native()
        ranked = tuple(_ranked(output, form) for output in form.outputs)
        config = native.config(replace(form, outputs=ranked), memory, inputs, MAX_RANK)
        report = Reporter(self.where, _QNN_ERRORS)
        for name in (f"{form.type}ShapeInference", f"{form.type}DataTypeInference"):
            if not hasattr(self._library, name):
                continue
            function = getattr(self._library, name)
            function.restype, function.argtypes = ctypes.c_uint64, (ctypes.c_void_p,)
            try:
                report.call(name, function, ctypes.addressof(config))
            except BackendError as error:
                if _QNN_ERRORS[constants()["QNN_OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE"]] not in error.problem:
                    raise
                if aloud:
                    print(f"fill {name}: {error.problem}", file=sys.stderr)
                return None
        return [self._spec(output, form, index) for index, output in enumerate(_outputs(config))]

    def _spec(self, output: Any, form: OpForm, index: int) -> TensorSpec:
        if output.rank > MAX_RANK:
            raise BackendError(
                f"{form.type}ShapeInference returned rank {output.rank} for output {index}",
                where=self.where,
                fix=f"use at most {MAX_RANK} axes",
            )
        dims = (ctypes.c_uint32 * output.rank).from_address(output.dimensions)
        return TensorSpec(tuple(dims), BY_CODE.get(output.dataType, UNDEFINED))

    def open(self, form: OpForm, memory: Memory) -> Code:
        """Return an operation, by SnpeUdo's functions if SnpeUdo has its data types.

        Raises:
            XdlcError: If the library does not take the operation.
        """
        if not has_snpe_types(form):
            if self._op_package is None:
                self._op_package = OpPackage(self._code, f"{self.package}InterfaceProvider")
            return self._op_package.open(form, memory)
        native = Native()
        definition = ctype("SnpeUdo_OpDefinition_t")()
        definition.udoCoreType, definition.operationType = CPU, native.text(form.type)
        definition.numOfStaticParams = len(form.params)
        definition.staticParams = ctypes.addressof(native.snpe_params(form.params, memory))
        definition.numOfInputs, definition.numOfOutputs = len(form.inputs), len(form.outputs)
        statics = static_addresses(form, memory)
        definition.inputs = ctypes.addressof(native.snpe_tensors(form.inputs, statics))
        definition.outputs = ctypes.addressof(native.snpe_tensors(form.outputs, {}))
        if not any(tensor.is_open for tensor in (*form.inputs, *form.outputs)):
            self._call("validateOperation", ctypes.addressof(definition))
        if self._implementation is None:
            self._implementation = Implementation(self._code, self.package)
        return SnpeOp(self._implementation, form, memory, self.where)

    def _call(self, name: str, *arguments: Any) -> None:
        self._report.call(name, exported(self._library, f"{_PREFIX}{name}", self.where), *arguments)

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
        """Terminate the implementations and the library.

        Raises:
            BackendError: If one of them fails.
        """
        parts = [part for part in (self._implementation, self._op_package) if part is not None]
        self._implementation = self._op_package = None
        try:
            for part in parts:
                part.close()
        finally:
            self._call("terminateRegLibrary")


def _ranked(output: TensorForm, form: OpForm) -> TensorForm:
    """Return an output of the rank of the first input if nothing is known of it."""
    first = next((tensor for tensor in form.inputs if not tensor.omitted), None)
    return output if output.dims or first is None else output.at((0,) * len(first.dims))


def _outputs(config: Any) -> list[Any]:
    op = overlay(config, "versions", ctype("Qnn_OpConfigV1_t"))
    kind = ctype("Qnn_Tensor_t")
    tensors = (kind * op.numOfOutputs).from_address(op.outputTensors) if op.numOfOutputs else ()
    return [overlay(tensor, "versions", ctype("Qnn_TensorV1_t")) for tensor in tensors]


class Implementation:
    """An implementation library of SnpeUdo for the CPU.

    Args:
        package: The package that it has to be of.

    Attributes:
        types: The operations that it has.

    Raises:
        XdlcError: If it is not valid, or fails.
    """

    def __init__(self, path: Path, package: str) -> None:
        self.where = str(path)
        self._library = open_library(self.where, self.where)
        self._report = Reporter(self.where, _SNPE_ERRORS)
        self._callbacks = tuple(
            ctype(f"SnpeUdo_CpuInfrastructure_t.{name}")(function)
            for name, function in (("getData", lambda data: data), ("getDataSize", lambda data: 0))
        )
        self.infrastructure = ctype("SnpeUdo_CpuInfrastructure_t")(*self._callbacks)
        self.call("initImplLibrary", ctypes.addressof(self.infrastructure))
        info = ctypes.c_void_p()
        self.call("getImpInfo", ctypes.addressof(info))
        own, core, self.types = read_implementation(info.value, self.where)
        if own != package or core != CPU:
            word = CORES.get(core, f"core {core:#x}")
            raise BackendError(
                f"the library implements package {own!r} for {word}, but must implement {package!r} for CPU",
                where=self.where,
                fix="put the libraries of one package into one folder",
            )

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library.

        Raises:
            BackendError: If the function fails, or does not exist.
        """
        self._report.call(name, exported(self._library, f"{_PREFIX}{name}", self.where), *arguments)

    def close(self) -> None:
        """Terminate the library.

        Raises:
            BackendError: If it fails.
        """
        self.call("terminateImplLibrary")


class SnpeOp:
    """An operation behind SnpeUdo's functions.

    Args:
        memory: Its static data.
        where: The registration library, for errors.

    Raises:
        BackendError: If the library does not take it.
    """

    def __init__(self, code: Implementation, form: OpForm, memory: Memory, where: str) -> None:
        self._code = code
        if form.type not in code.types:
            raise BackendError(
                f"does not implement {form.type!r}, though {where} lists it for the CPU",
                where=code.where,
                fix="build both libraries from one configuration",
            )
        self._params, self._io = Native(), Native()
        self._operation: ctypes.c_void_p | None = None
        self._factory = ctypes.c_void_p()
        params = self._params.snpe_params(form.params, memory)
        self._infrastructure = ctypes.addressof(code.infrastructure)
        code.call(
            "createOpFactory",
            CPU,
            self._infrastructure,
            self._params.text(form.type),
            len(form.params),
            ctypes.addressof(params),
            ctypes.addressof(self._factory),
        )

    def bind(self, form: OpForm, inputs: dict[int, int], outputs: dict[int, int]) -> None:
        """Bind the addresses of inputs and outputs, by position."""
        native = Native()
        ins = ctypes.addressof(native.snpe_tensors(form.inputs, inputs))
        outs = ctypes.addressof(native.snpe_tensors(form.outputs, outputs))
        if self._operation is None:
            operation = ctypes.c_void_p()
            counts = len(form.inputs), len(form.outputs)
            self._code.call(
                "createOperation",
                self._factory,
                self._infrastructure,
                *(counts[0], ins, counts[1], outs),
                ctypes.addressof(operation),
            )
            self._operation = operation
        else:
            self._code.call("setOpIO", self._operation, ins, outs)
        self._io = native

    def run(self) -> None:
        """Execute it and wait."""
        notify = ctype("SnpeUdo_ExternalNotify_t")()
        self._code.call("executeOp", self._operation, True, 0, notify)

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""
        time = ctypes.c_uint32()
        self._code.call("profileOp", self._operation, ctypes.addressof(time))
        return time.value * 1000

    def release(self) -> None:
        """Release operation and factory."""
        operation, self._operation = self._operation, None
        try:
            if operation is not None:
                self._code.call("releaseOp", operation)
        finally:
            self._code.call("releaseOpFactory", self._factory)


class OpPackage:
    """A QNN op package for the CPU, of version 1.4 or 2.0 of the interface.

    Args:
        provider: Name of the function that provides the interface.

    Attributes:
        package: Its name.
        ops: The cores of its operations by type.

    Raises:
        XdlcError: If it is not valid, or fails.
    """

    def __init__(self, path: Path, provider: str) -> None:
        self.where = f"{path}:{provider}"
        self._report = Reporter(self.where, _QNN_ERRORS)
        library = open_library(str(path), self.where)
        table = ctype("QnnOpPackage_Interface_t")()
        function = exported(library, provider, self.where, "QnnOpPackage_InterfaceProvider_t")
        self._report.call(provider, function, ctypes.addressof(table))
        version = table.interfaceVersion
        if (version.major, version.minor) not in ((1, 4), (2, 0)):
            _refuse(
                f"the op package is for version {version.major}.{version.minor} of the interface",
                self.where,
                "build the package for version 1.4 or 2.0",
            )
        self._is_new = version.major == 2
        name = "V2_0" if self._is_new else "V1_4"
        self._table = overlay(table, "versions", ctype(f"QnnOpPackage_Implementation{name}_t"))
        self._handle = ctypes.c_void_p()
        self._log = ctype("QnnLog_Callback_t")(_log)
        level = constants()["QNN_LOG_LEVEL_ERROR"]
        if self._is_new:
            self._report.call(
                "create", self._table.create, None, self._log, level, ctypes.addressof(self._handle)
            )
        else:
            self._report.call("init", self._table.init, None)
            self._report.call("logInitialize", self._table.logInitialize, self._log, level)
        info = ctypes.c_void_p()
        self.call("getInfo", ctypes.addressof(info))
        record = _record(ctype("QnnOpPackage_Info_t"), info.value, "info", self.where)
        pointers = _records(
            ctypes.c_void_p, record.operationNames, record.numOperations, "operations", self.where
        )
        self.package = _text(record.packageName, "package", self.where)
        names = (_text(pointer.value, "operation type", self.where) for pointer in pointers)
        self.ops = dict.fromkeys(names, ("CPU",))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the package; version 2.0 passes its handle first.

        Raises:
            BackendError: If it fails.
        """
        function = getattr(self._table, name)
        if not function:
            _refuse(f"has no function {name} in its interface", self.where)
        handle = (self._handle,) if self._is_new else ()
        self._report.call(name, function, *handle, *arguments)

    def open(self, form: OpForm, memory: Memory) -> QnnOp:
        """Return an operation.

        Raises:
            BackendError: If the package does not take it.
        """
        if not any(tensor.is_open for tensor in (*form.inputs, *form.outputs)):
            native = Native()  # what the configuration points to lives in it
            self.call("validateOpConfig", native.config(form, memory, static_addresses(form, memory)))
        return QnnOp(self, form, memory)

    def execute(self, op: ctypes.c_void_p) -> None:
        """Execute the implementation of an operation."""
        record = ctype("QnnCpuOpPackage_OpImpl_t").from_address(op.value or 0)
        self._report.call("opImplFn", record.opImplFn, record.userData)

    def close(self) -> None:
        """Terminate the package.

        Raises:
            BackendError: If it fails.
        """
        if self._is_new:
            self.call("free")
        else:
            self.call("logTerminate")
            self.call("terminate")


class QnnOp:
    """An operation of a QNN op package."""

    def __init__(self, package: OpPackage, form: OpForm, memory: Memory) -> None:
        self._package, self._params, self._io = package, Native(), Native()
        self._node = self._params.node(form, form.params, memory)
        self._op: ctypes.c_void_p | None = None
        self._elapsed = 0

    def bind(self, form: OpForm, inputs: dict[int, int], outputs: dict[int, int]) -> None:
        """Bind the addresses of inputs and outputs: anew, as graphs do."""
        native = Native()
        self.release()
        native.bind(self._node, form, inputs, outputs)
        operation = ctypes.c_void_p()
        self._package.call("createOpImpl", None, ctypes.addressof(self._node), ctypes.addressof(operation))
        if not operation:
            _refuse("createOpImpl made no operation", self._package.where, "correct the op package")
        self._op, self._io = operation, native

    def run(self) -> None:
        """Execute it and wait."""
        assert self._op is not None
        start = time.perf_counter_ns()
        self._package.execute(self._op)
        self._elapsed = time.perf_counter_ns() - start

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""
        return self._elapsed

    def release(self) -> None:
        """Release what the package holds for it."""
        op, self._op = self._op, None
        if op is not None:
            self._package.call("freeOpImpl", op)


_system = ctypes.CDLL(None)


def _log(format: int | None, level: int, time: int, values: int | None) -> None:
    buffer = ctypes.create_string_buffer(_LINE)
    _system.vsnprintf(buffer, ctypes.c_size_t(_LINE), ctypes.c_void_p(format), ctypes.c_void_p(values))
    print(text_at(ctypes.addressof(buffer), _LINE), file=sys.stderr, flush=True)


def read_registration(
    address: int | None, where: str
) -> tuple[str, dict[str, tuple[str, ...]], dict[str, str]]:
    """Return package, cores by operation, and files of libraries by core.

    Raises:
        BackendError: If it is not valid.
    """
    info = _record(ctype("SnpeUdo_RegInfo_t"), address, "info", where)
    ops: dict[str, tuple[str, ...]] = {}
    kind = ctype("SnpeUdo_OperationInfo_t")
    for record in _records(kind, info.operationsInfo, info.numOfOperations, "operations", where):
        name = _text(record.operationType, "operation type", where)
        if name in ops:
            _refuse(f"lists the operation {name!r} twice", where)
        ops[name] = tuple(word for bit, word in CORES.items() if record.supportedByCores & bit)
        if not ops[name] or record.supportedByCores & ~sum(CORES):
            _refuse(
                f"states that {name!r} runs on cores {record.supportedByCores:#x}, which are unknown", where
            )
    if not ops:
        _refuse("lists no operations", where)
    libraries: dict[str, str] = {}
    kind = ctype("SnpeUdo_LibraryInfo_t")
    for record in _records(kind, info.implementationLib, info.numOfImplementationLib, "libraries", where):
        if record.udoCoreType not in CORES:
            _refuse(f"names a library for core {record.udoCoreType:#x}, which is unknown", where)
        core = CORES[record.udoCoreType]
        file = _text(record.libraryName, f"file of the library for {core}", where)
        if libraries.setdefault(core, file) != file and core != "DSP":  # an old DSP has one for each op
            _refuse(f"names two implementation libraries for {core}", where)
    return _text(info.packageName, "package", where), ops, libraries


def read_implementation(address: int | None, where: str) -> tuple[str, int, tuple[str, ...]]:
    """Return package, core and operations of an implementation info.

    Raises:
        BackendError: If it is not valid.
    """
    info = _record(ctype("SnpeUdo_ImpInfo_t"), address, "info", where)
    types = tuple(_text(info.operationsString, "operations", where, MOST * 128).split())
    return _text(info.packageName, "package", where), int(info.udoCoreType), types


def _record(kind: Any, address: int | None, what: str, where: str) -> Any:
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


def _text(address: int | None, what: str, where: str, limit: int = 1024) -> str:
    text = text_at(address, limit)
    if not text:
        _refuse(f"has no {what}: it is {'NULL' if text is None else 'empty'}", where)
    return text


def _refuse(problem: str, where: str, fix: str = "correct the library's info") -> NoReturn:
    raise BackendError(problem, where=where, fix=fix)
