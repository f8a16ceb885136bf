"""What converters, quantizer and runtime know of operations that users define.

A converter is handed a :class:`UdoSet`, in which each :class:`Udo` ties operators of source
models to one definition.  Where they come from, a configuration or a plugin, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from xdlc.errors import UsageError
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import DType
from xdlc.opdefs.op_view import OpView, TensorSpec, Value

if TYPE_CHECKING:
    from xdlc.opdefs.model import Collection, OpDef


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A node of a source model as it stands there, in the source's axis order.

    Attributes:
        framework: ``onnx`` and the like.
        type: Operator.
        domain: Domain of the operator; empty for ONNX's own.
        name: Name of the node.
        inputs: What is known of its inputs; None for one left out.
        outputs: Names of its outputs; empty for one left out.
        attributes: Attributes by name: int, float, str, lists of them, or ``TensorData``.
    """

    framework: str
    type: str
    domain: str
    name: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel of the host with what a runtime has to know to call it.

    Attributes:
        name: Name of the kernel.
        entry: Exported function, of type ``xdlc_udo_kernel``.
        arguments: Letter of each argument: ``i`` integer, ``f`` real, ``s`` string, ``o`` tensor.
        values: The arguments.
        machine: What it runs on, like ``linux-x86_64``.
        tool: Compiler, with its version.
        binary: The shared library.
    """

    name: str
    entry: str
    arguments: str
    values: tuple[Value, ...]
    machine: str
    tool: str
    binary: bytes


class Hooks(Protocol):
    """What an object brings that defines an op by code."""

    def accepts(self, node: SourceNode) -> bool:
        """Return whether the op stands for this node, whose operator is one of its own."""

    def parse_params(self, node: SourceNode) -> Mapping[str, Value]:
        """Return the op's parameters for a node."""

    def infer_shape_and_type(self, op: OpView) -> Sequence[TensorSpec] | None:
        """Return what the op gives, or None where that is not known."""

    def build_kernel(self, op: OpView) -> Kernel | None:
        """Return a kernel for the host, or None if there is none."""

    def stored_inputs(self, op: OpView) -> Mapping[int, TensorData]:
        """Return the static inputs, by position, that the op stores in a form of its own.

        Their parameters tell of the form; ``op`` has them as the source has them.
        """


@dataclass(frozen=True, slots=True)
class Udo:
    """An op of a user's package, and the source operators that it stands for.

    Attributes:
        definition: The op; ``definition.package`` is its package.
        types: Source operators; default: the one of the definition's name.
        frameworks: Source frameworks; empty for all.
        domain: Domain of the source operators; None for any.
        hooks: The object that defines it by code, if one does.
        source: Where the definition comes from, for messages: a file and line, or a plugin.
        installed: What to tell of a plugin that the user has not named, once it stands for an op; empty for
            what the user named, of which is told too where it stands for nothing.
        lines: ``file:line`` of the parts of its definition, for messages, by the keys of ``elements.keys``
            from the op on; ``("table", backend, ...)`` goes before those of a supplement.
    """

    definition: OpDef
    types: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    domain: str | None = None
    hooks: Hooks | None = None
    source: str = ""
    installed: tuple[str, ...] = ()
    lines: Mapping[tuple[str | int, ...], str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def source_types(self) -> tuple[str, ...]:
        """The source operators."""
        return self.types or (self.definition.name,)


class ShapeFunction(Protocol):
    """Gives what an op gives."""

    def __call__(self, op: OpView) -> Sequence[TensorSpec] | None:
        """Return the outputs, or None where they are not known."""


@dataclass(frozen=True, slots=True)
class UdoSet:
    """All ops of users that a conversion knows.

    Attributes:
        ops: The ops; those with hooks go before those of configurations.
        collections: The configurations that they come from, by package; they are stored in the DLC.
        shapes: Shape functions by package and type, given beside the configurations.
    """

    ops: tuple[Udo, ...] = ()
    collections: Mapping[str, Collection] = field(default_factory=dict)
    shapes: Mapping[tuple[str, str], ShapeFunction] = field(default_factory=dict)

    def candidates(self, framework: str, type: str, domain: str = "") -> tuple[Udo, ...]:
        """Return the ops that stand for an operator of a source model, those with hooks first.

        Ops that replace a native one are not among them: they have its type, not the source's.
        """
        found = [
            op
            for op in self.ops
            if type in op.source_types
            and not op.definition.use_default_translation
            and (not op.frameworks or framework in op.frameworks)
            and (op.domain is None or op.domain == domain)
        ]
        return tuple(sorted(found, key=lambda op: op.hooks is None))

    def replacements(self) -> dict[str, Udo]:
        """Return the ops that replace a native one, by its type.

        Raises:
            UsageError: If two replace the same.
        """
        found: dict[str, Udo] = {}
        for op in self.ops:
            if op.definition.use_default_translation:
                other = found.setdefault(op.definition.name, op)
                if other is not op:
                    raise UsageError(
                        f"packages {other.definition.package} and {op.definition.package} both replace "
                        f"{op.definition.name}",
                        fix="leave UseDefaultTranslation to one of them",
                    )
        return found


@dataclass(frozen=True, slots=True)
class Operand:
    """An input or output.

    Attributes:
        name: Its name in the source; values that stay nameless have none.
        shape: Extents in the source's axis order, None for one that is open; None if even the rank is.
        dtype: Data type; None if nothing states it.
        is_static: Whether the model holds its elements.
        odd: What it is if it is no tensor that a model can hold, like ``a sequence``; else empty.
    """

    name: str
    shape: tuple[int | None, ...] | None = None
    dtype: DType | None = None
    is_static: bool = False
    odd: str = ""


@dataclass(frozen=True, slots=True)
class UncoveredNode:
    """A node whose operator has no mapping.

    Attributes:
        type: Operator.
        domain: Domain of the operator; empty for the framework's own.
        name: Name of the node.
        where: File and node, for messages.
        inputs: Inputs by position; None for one left out.
        outputs: Outputs by position; None for one left out.
        attributes: Attributes by name: int, float, str, lists of them, or ``TensorData``.
    """

    type: str
    domain: str
    name: str
    where: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand | None, ...]
    attributes: Mapping[str, Any]

    @property
    def operator(self) -> str:
        """The operator, with its domain in front where it has one."""
        return f"{self.domain}::{self.type}" if self.domain else self.type
