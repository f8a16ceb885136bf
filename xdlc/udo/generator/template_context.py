"""Template context: packages, cores, operations and their operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import DType
from xdlc.udo.generator.cores import Core

Rule = tuple[str, ...]
"""Statements of C++ that set the shapes of the outputs."""


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
        """Whether it is a parameter that is one value."""
        return self.kind == "param" and self.rank == 0

    @property
    def is_string(self) -> bool:
        """Whether it is a text."""
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
        shapes: Statements of the outputs' shapes, if the configuration's texts state them; else None.
    """

    type: str
    namespace: str
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    params: tuple[Place, ...]
    cores: tuple[str, ...]
    notes: tuple[str, ...]
    shapes: Rule | None

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
