"""Template context: packages, cores, operations and their operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import UINT8, UINT16, DType
from xdlc.opdefs.model import LAYOUTS, OpDef, TensorDef

CPU, GPU, DSP_LEGACY, DSP = "CPU", "GPU", "DSP_LEGACY", "DSP"
"""Groups of processors that share their templates; the legacy DSPs are v60, v65 and v66."""

_DSP = re.compile(r"DSP_V(\d{2})")
_FIRST_HTP = 68


@dataclass(frozen=True, slots=True, order=True)
class Core:
    """A processor.

    Attributes:
        order: Place among the others.
        name: ``CPU``, ``GPU``, ``DSP_V68``; folders are called so.
        group: Which templates it takes.
        kind: ``CPU``, ``GPU`` or ``DSP``.
        arch: Of a DSP: ``v68``.
        suffix: What names of libraries have for it: ``Cpu``, ``Gpu``, ``Dsp``.
    """

    order: int
    name: str
    group: str
    kind: str
    arch: str = ""

    @property
    def suffix(self) -> str:
        return self.kind.capitalize()

    @property
    def one_op_a_library(self) -> bool:
        """Whether a library for this core contains only one operation."""
        return self.group == DSP_LEGACY


def core_of(backend: str) -> Core | None:
    """Return the processor of a backend, or None if packages are not made for it.

    A DSP without a version is a v60, HTP without one is v68: the oldest of their kind.

    Example:
        >>> core_of("DSP_V66").group, core_of("HTP").name, core_of("LPAI")
        ('DSP_LEGACY', 'DSP_V68', None)
    """
    name = backend.upper()
    if name == "CPU":
        return Core(0, name, CPU, CPU)
    if name == "GPU":
        return Core(1, name, GPU, GPU)
    name = {"DSP": "DSP_V60", "HTP": "DSP_V68", "HTP_FP16": "DSP_V68"}.get(name, name)
    match = _DSP.fullmatch(name)
    if match is None:
        return None
    version = int(match[1])
    return Core(version, name, DSP if version >= _FIRST_HTP else DSP_LEGACY, "DSP", f"v{version}")


def cores_of(backend: str) -> tuple[Core, ...]:
    """Return the processors of a backend; ``DSP`` means old processors and HTP.

    Example:
        >>> [core.name for core in cores_of("DSP")], [core.name for core in cores_of("DSP_V73")]
        (['DSP_V60', 'DSP_V68'], ['DSP_V73'])
    """
    names = ("DSP_V60", "DSP_V68") if backend.upper() == "DSP" else (backend,)
    return tuple(core for core in map(core_of, names) if core is not None)


Allowed = Callable[[OpDef, TensorDef, str, Core], Sequence[DType]]
"""Data types of a place of an operation, of which it is input, output or param, on a core."""

MAX_RANK = 4
"""Of tensors on the HTP."""

_TAKEN = {
    DSP_LEGACY: {"ufixed8", "uint8", "float32"},
    DSP: {"ufixed8", "uint8", "ufixed16", "uint16", "float16", "float32"},
}
"""Data types of activations."""


def refusal(opdef: OpDef, core: Core) -> str:
    """Return why no library of a core can have an operation; empty if one can."""
    repeated = [tensor.name for tensor in (*opdef.inputs, *opdef.outputs) if tensor.repeated]
    if repeated and core.group in (DSP, DSP_LEGACY):
        return f"{repeated[0]!r} is repeated, but DSPs need a fixed number of inputs and outputs"
    return ""


def op_notices(opdef: OpDef, backends: Sequence[str], allowed: Allowed) -> Iterator[str]:
    """Yield notices on an operation of accelerators, without its name in front."""
    for name in backends:
        if name.upper() in ("DSP", "HTP", "HTP_FP16"):
            versions = " and ".join(core.arch for core in cores_of(name))
            yield (
                f": {name} has no version, so xdlc assumes {versions}; name the versions of your devices, "
                "like DSP_V73, or dsp_arch_types"
            )
    groups: dict[str, Core] = {}
    for core in sorted(core for name in backends for core in cores_of(name)):
        groups.setdefault(core.group, core)
    for core in groups.values():
        if not refusal(opdef, core):  # the notices of definitions report it
            yield from (f" on {core.name}: {text}" for text in _core_notices(opdef, core, allowed))
    if CPU in groups and groups.keys() & {DSP, DSP_LEGACY}:
        yield from _plain_integers(opdef, groups[CPU], allowed)


def _plain_integers(opdef: OpDef, core: Core, allowed: Allowed) -> Iterator[str]:
    """Yield a notice for integer activations whose types are quantized on a DSP."""
    sides = (("input", opdef.inputs), ("output", opdef.outputs))
    names = [
        tensor.name
        for kind, tensors in sides
        for tensor in tensors
        if not tensor.is_static
        and all(dtype in (UINT8, UINT16) for dtype in allowed(opdef, tensor, kind, core))
    ]
    if names:
        yield (
            f" on {core.name}: {', '.join(names)} are plain integers there; if the DSP's integers are "
            "quantized values, give the CPU FLOAT_32 with per_core_data_types or a supplement"
        )


def _core_notices(opdef: OpDef, core: Core, allowed: Allowed) -> Iterator[str]:
    if core.group == GPU:
        names = [param.name for param in opdef.params.values() if not param.is_scalar]
        if names:
            yield f"kernels do not get tensors as parameters ({', '.join(names)}): make them static inputs"
    if core.group not in _TAKEN:
        return
    for kind, tensors in (("input", opdef.inputs), ("output", opdef.outputs)):
        for tensor in tensors:
            if not tensor.is_static:
                yield from _types(kind, tensor, core, allowed(opdef, tensor, kind, core))
    if core.group != DSP:
        return
    tensors = (*opdef.inputs, *opdef.outputs)
    free = [tensor.name for tensor in tensors if tensor.rank is None and tensor.layout not in LAYOUTS]
    if free:
        yield (
            f"tensors have at most {MAX_RANK} axes, even if their definition allows any rank: "
            f"{', '.join(free)}"
        )
    for param in opdef.params.values():
        text = any(dtype.kind == "string" for dtype in allowed(opdef, param, "param", core))
        if not param.mandatory and (text or not param.is_scalar or param.default is None):
            what = "is a string" if text else "is a tensor" if not param.is_scalar else "has no default"
            yield f"parameter {param.name!r} {what}, so each model must set this parameter"


def _types(kind: str, tensor: TensorDef, core: Core, dtypes: Sequence[DType]) -> Iterator[str]:
    other = [dtype.name for dtype in dtypes if dtype.name not in _TAKEN[core.group]]
    if other:
        taken = ", ".join(sorted(_TAKEN[core.group] - {"uint8", "uint16"}))
        yield f"{kind} {tensor.name!r} is {' or '.join(other)}, but activations on this core are {taken}"


@dataclass(frozen=True, slots=True)
class Enumerator:
    """A value of an enumeration: its name, the identifier for it, and its number."""

    name: str
    id: str
    value: int


@dataclass(frozen=True, slots=True)
class Place:
    """An input, output or parameter.

    Attributes:
        kind: ``input``, ``output`` or ``param``.
        index: Position among its kind.
        name: Name in the configuration, any text.
        id: Identifier for it, unique among its kind in the operation.
        enum: Name of the C++ enumeration of an enumerated parameter; else empty.
        mandatory: Whether it must be there.
        repeated: Whether it is any number of tensors.
        static: Whether it is data of the model.
        rank: Number of axes; None for any. A parameter of rank 0 is a scalar.
        dim_texts: Texts of its dimensions.
        layout: ``NHWC`` and the like, or empty.
        default: Text that stands in for it, or None.
        initial: The default as a number, a text, or nested lists; an enumerator as its number.
        values: Values of an enumeration.
        types: Data types by core, as the configuration has them for it.
        notes: Description in the configuration, line by line.
    """

    kind: str
    index: int
    name: str
    id: str
    enum: str
    mandatory: bool
    repeated: bool
    static: bool
    rank: int | None
    dim_texts: tuple[str, ...]
    layout: str
    default: str | None
    initial: Any
    values: tuple[Enumerator, ...]
    types: Mapping[str, tuple[DType, ...]]
    notes: tuple[str, ...] = ()

    @property
    def is_scalar(self) -> bool:
        """Whether this is a scalar parameter."""
        return self.kind == "param" and self.rank == 0

    @property
    def is_string(self) -> bool:
        """Whether a data type is a string."""
        return any(dtype.kind == "string" for types in self.types.values() for dtype in types)

    def types_on(self, core: CoreView | Core) -> tuple[DType, ...]:
        """Return the data types on a core."""
        names = core.stands_for if isinstance(core, CoreView) else (core.name,)
        return tuple(dict.fromkeys(dtype for name in names for dtype in self.types.get(name, ())))


@dataclass(frozen=True, slots=True)
class OperationView:
    """An operation.

    Attributes:
        type: Its name, an identifier that may be a keyword.
        namespace: C++ namespace for it.
        inputs: By position.
        outputs: By position.
        params: In the order of the configuration.
        cores: Names of the cores that execute it.
        notes: Description in the configuration, line by line.
        states_shapes: Whether the configuration's texts state the outputs' shapes.
    """

    type: str
    namespace: str
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    params: tuple[Place, ...]
    cores: tuple[str, ...]
    notes: tuple[str, ...]
    states_shapes: bool

    @property
    def places(self) -> tuple[Place, ...]:
        """Inputs, outputs and parameters."""
        return (*self.inputs, *self.outputs, *self.params)


@dataclass(frozen=True, slots=True)
class Library:
    """An implementation library: name of its file, and types of its operations."""

    file: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoreView:
    """A core of a package.

    Attributes:
        core: The processor.
        package: Name of the package on it: with the backend's suffix, as QNN's interfaces have it.
        ops: The operations that it executes.
        libraries: Its implementation libraries.
        owner: Core whose folder has the source: DSPs of a group share that of the oldest of them.
        stands_for: Names of the cores that its source is for; empty if another has the source.
    """

    core: Core
    package: str
    ops: tuple[OperationView, ...]
    libraries: tuple[Library, ...]
    owner: str
    stands_for: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def kind(self) -> str:
        return self.core.kind

    @property
    def arch(self) -> str:
        return self.core.arch

    @property
    def group(self) -> str:
        return self.core.group


@dataclass(frozen=True, slots=True)
class PackageView:
    """A package.

    Attributes:
        name: Its name, an identifier that may be a keyword.
        namespace: C++ namespace for it.
        domain: Domain, any text.
        version: Version, any text.
        ops: Operations.
        cores: Cores that it has libraries for.
        config: File of the definition as OpDef XML, below ``config``.
    """

    name: str
    namespace: str
    domain: str
    version: str
    ops: tuple[OperationView, ...]
    cores: tuple[CoreView, ...]
    config: str

    @property
    def registration(self) -> str:
        """File of the registration library."""
        return f"libUdo{self.name}Reg.so"

    def core(self, name: str) -> CoreView | None:
        """Return the core of a name, or None."""
        return next((core for core in self.cores if core.name == name), None)

    @property
    def dsps(self) -> tuple[CoreView, ...]:
        """The DSPs."""
        return tuple(core for core in self.cores if core.kind == "DSP")
