"""What converters, quantizer and runtime know of operations that users define.

A converter is handed a :class:`CustomOps`, in which each :class:`CustomOp` ties operators of source
models to one definition.  Where they come from, a configuration or a plugin, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from xdlc.errors import UsageError
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import DType

if TYPE_CHECKING:
    from xdlc.opdefs.model import Collection, OpDef

Value = Any
"""A plain value of a parameter: int, float, bool, str, numpy.ndarray, or a list of one of the first four."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is known of a tensor before a graph runs.

    Attributes:
        shape: Extents, None for one that is open.
        dtype: Data type.
        name: Its name, if it has one.
        layout: ``NHWC``, ``NCHW``, ``NHCW``, or empty.
        data: Elements of a static tensor.
    """

    shape: tuple[int | None, ...]
    dtype: DType
    name: str = ""
    layout: str = ""
    data: TensorData | None = None


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
class OpView:
    """An op of a user's package, as shape functions and kernel builders see it.

    Attributes:
        package: Op package.
        type: Operation type.
        name: Name of the op.
        inputs: Inputs in the order and layout of the definition; None for one left out.
        outputs: How many outputs there are, or what is known of them.
        params: Parameters by name, as plain values; an enumeration under the name of its value.
    """

    package: str
    type: str
    name: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    params: Mapping[str, Value] = field(default_factory=dict)


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
class CustomOp:
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
class CustomOps:
    """All ops of users that a conversion knows.

    Attributes:
        ops: The ops; those with hooks go before those of configurations.
        collections: The configurations that they come from, by package; they are stored in the DLC.
        shapes: Shape functions by package and type, given beside the configurations.
    """

    ops: tuple[CustomOp, ...] = ()
    collections: Mapping[str, Collection] = field(default_factory=dict)
    shapes: Mapping[tuple[str, str], ShapeFunction] = field(default_factory=dict)

    def candidates(self, framework: str, type: str, domain: str = "") -> tuple[CustomOp, ...]:
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

    def replacements(self) -> dict[str, CustomOp]:
        """Return the ops that replace a native one, by its type.

        Raises:
            UsageError: If two replace the same.
        """
        found: dict[str, CustomOp] = {}
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
