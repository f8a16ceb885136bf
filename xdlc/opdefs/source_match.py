"""Nodes of source models, and the UDOs that match them.

A converter is passed a :class:`UdoSet`, in which each :class:`Udo` binds operators of source models to one
definition, be its origin a configuration or a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from xdlc.errors import UsageError
from xdlc.ir.dtype import DType
from xdlc.ir.tensor import Param
from xdlc.opdefs.op_view import OpView, TensorSpec, Value
from xdlc.records import record

if TYPE_CHECKING:
    from xdlc.opdefs.model import Collection, OpDef


@record(frozen=True)
class SourceNode:
    """A node of a source model, in the source's axis order.

    Attributes:
        framework: ``onnx`` and the like.
        domain: Domain of the operator; empty for ONNX's own.
        inputs: Types of its inputs; None for a missing one.
        outputs: Names of its outputs; empty for a missing one.
        attributes: Attributes by name: int, float, str, lists of them, or ``TensorData``; those of messages
            inside messages by path, like ``my_param.alpha``.
        optional: Names of attributes without meaning at inference.
        line: Line in the model where that is a text, from 1; 0 else.
    """

    framework: str
    type: str
    domain: str
    name: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    optional: frozenset[str] = frozenset()
    line: int = 0

    @property
    def place(self) -> str:
        """The node, for messages."""
        return f"node {self.name!r}{f' (line {self.line})' if self.line else ''}"


def attributes_named(name: str, attributes: Iterable[str]) -> list[str]:
    """Return the attribute with a name, or all paths that end with it.

    The dots of a path may be underscores, as names of parameters have none.

    Example:
        >>> attributes_named("alpha", ["my_param.alpha", "beta"]), attributes_named("a_b", ["p.a.b", "p.b"])
        (['my_param.alpha'], ['p.a.b'])
    """
    found = [path for path in attributes if name in path_ends(path)]
    return [name] if name in found else found


def path_ends(path: str) -> list[str]:
    """Return the ends of a path, with dots and with underscores, the longest first."""
    parts = path.split(".")
    return [mark.join(parts[at:]) for at in range(len(parts)) for mark in "._"]


@record(frozen=True)
class Kernel:
    """A compiled kernel of the host and its call.

    Attributes:
        entry: Exported function of a ``QnnCpuOpPackage_Node_t``.
        arguments: Letter of each argument: ``i`` integer, ``f`` real, ``s`` string, ``o`` tensor.
        machine: Platform, like ``linux-x86_64``.
    """

    name: str
    entry: str
    arguments: str
    values: tuple[Value, ...]
    machine: str
    tool: str
    binary: bytes


@record(frozen=True)
class Udo:
    """A definition of another package than QNN's, and its source operators.

    A plugin defines an op by the functions ``accepts`` and so on; a configuration has none of them.

    Attributes:
        definition: The op; ``definition.package`` is its package.
        types: Source operators; default: the one of the definition's name.
        frameworks: Source frameworks; empty for all.
        domain: Domain of the source operators; None for any.
        source: Origin of the definition, for messages: a file and line, or a plugin.
        installed: Notices of an installed plugin that no option names, for its first match; empty for
            one that an option names, which is also warned about where it matches no node.
        lines: ``file:line`` of the parts of its definition, for messages, by the keys of
            ``xml_elements.keys`` from the op on, after ``("table", backend)`` for those of a supplement.
        accepts: Returns whether the op matches a node of one of its operators.
        parse_params: Returns the op's parameters for a node.
        infer_shape_and_type: Returns the outputs of the op; None if they are not known.
        build_kernel: Returns a kernel for the host, or None.
    """

    definition: OpDef
    types: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    domain: str | None = None
    source: str = ""
    installed: tuple[str, ...] = ()
    lines: Mapping[tuple[str | int, ...], str] = field(default_factory=dict, compare=False, repr=False)
    accepts: Callable[[SourceNode], bool] | None = None
    parse_params: Callable[[SourceNode], dict[str, Param]] | None = None
    infer_shape_and_type: ShapeFunction | None = None
    build_kernel: Callable[[OpView], Kernel | None] | None = None

    @property
    def source_types(self) -> tuple[str, ...]:
        """The source operators."""
        return self.types or (self.definition.name,)

    @property
    def full_name(self) -> str:
        """The package and type of the op, for messages."""
        return f"{self.definition.package}::{self.definition.name}"

    @property
    def is_plugin(self) -> bool:
        """Whether functions define the op."""
        return self.parse_params is not None


ShapeFunction = Callable[[OpView], "Sequence[TensorSpec] | None"]
"""Returns the output shapes and types of a UDO, or None if they are not known."""


@record(frozen=True)
class UdoSet:
    """The UDOs of a conversion.

    Attributes:
        ops: The ops; those of plugins go before those of configurations.
        collections: Their packages by name, which the DLC stores.
        shapes: Shape functions by package and type, supplied beside the configurations.
    """

    ops: tuple[Udo, ...] = ()
    collections: Mapping[str, Collection] = field(default_factory=dict)
    shapes: Mapping[tuple[str, str], ShapeFunction] = field(default_factory=dict)

    def candidates(self, framework: str, type: str, domain: str = "") -> tuple[Udo, ...]:
        """Return the ops that match an operator of a source model, first those of plugins.

        Of ``module.layer``, a type of Caffe, the layer is enough where no op names more; of an operator of
        TensorFlow in TFLite, ``FlexName``, the name.  Ops that replace a native one are excluded: they have
        its type, not the source's.
        """
        known = {each for op in self.ops for each in op.source_types}
        names = [*path_ends(type), *([type.removeprefix("Flex")] if framework == "tflite" else [])]
        named = next((each for each in names if each in known), type)
        matches = [
            op
            for op in self.ops
            if named in op.source_types
            and not op.definition.use_default_translation
            and (not op.frameworks or framework in op.frameworks)
            and (op.domain is None or op.domain == domain)
        ]
        return tuple(sorted(matches, key=lambda op: not op.is_plugin))

    def replacements(self) -> dict[str, Udo]:
        """Return the ops that replace a native one, by its type.

        Raises:
            UsageError: If two replace the same.
        """
        by_op: dict[str, Udo] = {}
        for op in self.ops:
            if op.definition.use_default_translation:
                first = by_op.setdefault(op.definition.name, op)
                if first is not op:
                    raise UsageError(
                        f"packages {first.definition.package} and {op.definition.package} both replace "
                        f"{op.definition.name}",
                        fix="set UseDefaultTranslation in only one package",
                    )
        return by_op


@record(frozen=True)
class Declared:
    """What a source states of a value, the model as a rule.

    Attributes:
        shape: Dimensions in the source's axis order, None for a dynamic one; None if the rank is unknown.
        dtype: Data type; None if unknown.
        read: Whether something reads the value; False for an omitted output.
        is_outdated: Whether the source states a shape for inputs of other shapes than they have.
        name: Its name in the source; may be empty.
        is_static: Whether it is data of the model.
        odd: Kind of a value that is not a tensor, like ``a sequence``; empty for tensors.
    """

    shape: tuple[int | None, ...] | None = None
    dtype: DType | None = None
    read: bool = True
    is_outdated: bool = False
    name: str = ""
    is_static: bool = False
    odd: str = ""


@record(frozen=True)
class UncoveredNode:
    """A node whose operator has neither an importer nor a UDO.

    Attributes:
        domain: Domain of the operator; empty for the framework's own.
        inputs: Inputs by position; None for a missing one.
        outputs: Outputs by position; None for a missing one.
        attributes: Attributes by name: int, float, str, lists of them, or ``TensorData``.
    """

    type: str
    domain: str
    name: str
    where: str
    inputs: tuple[Declared | None, ...]
    outputs: tuple[Declared | None, ...]
    attributes: Mapping[str, Any]

    @property
    def operator(self) -> str:
        """The operator, prefixed with its domain if it has one."""
        return f"{self.domain}::{self.type}" if self.domain else self.type
