"""Source graphs, their nodes, and the graphs inside these."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from xdlc import ir
from xdlc.converter.emitter import RecordedNames
from xdlc.converter.values import AnyValue, Value
from xdlc.errors import ModelError, UnsupportedOp, XdlcError, nearest_names
from xdlc.ir.data import Array
from xdlc.options import spell
from xdlc.records import record

if TYPE_CHECKING:
    from xdlc.converter.session.context import ImportContext

CONTRADICTION = "correct the model, or export it again: the node contradicts itself"
"""Fix of an error whose cause may as well be a shape that the options state."""
_UNREAD = "remove the attribute if it has no effect, or rewrite the node"
_MOST_INTEGERS = 1 << 16
"""Most numbers of a shape, of axes, of sizes: no tensor has more axes or parts."""
_MOST_SHOWN = 16
"""Unread attributes that an error names."""
Labels = Sequence[int | str]
"""Dimensions as a model states them: numbers, and the symbols of dynamic ones."""


def bind_dims() -> str:
    """Return the fix where a dimension that a model leaves open has to be known."""
    return f"bind open dimensions with {spell('input_dims')}, {spell('define_symbol')} or {spell('batch')}"


def cut_before() -> str:
    """Return the fix that cuts the graph before a node."""
    return f"cut the graph before it with {spell('out_name')}"


class TypeName(str):
    """Name of a data type, as an attribute that UDOs may ignore."""


@record(eq=False)
class Node:
    """A node of the source, or a node that an importer adds for it.

    Attributes:
        type: Operator.
        names: Names of its inputs; empty for an omitted input.
        outputs: Names of its outputs; empty for an omitted output.
        attributes: Attribute values as Python objects: strings as str, tensors as lazy data, graphs as
            ``SourceGraph``, which are ``Body`` during the import of the node.
        own_name: Its name, or one made from its first output.
        domain: Operator domain; the default one is ``""``.
        opset: Version of the domain of a canonical operator; 0 for the operators of other frameworks.
        name: Name of the node of the source that it belongs to: its own, outside of functions.
        inputs: Values by position; None for an omitted input.  Sequences and optionals are among them only
            where the operator runs graphs or is on sequences or optionals itself.
        read: Names of the attributes that the importer has read.
        load: Reads the attributes at the moment of the import, before which only graphs are among them; with
            False, an attribute without a plain value is the message itself instead of an error.
        message: The ``NodeProto`` that the node comes from, or was made into.
        recorded: Names that xdlc recorded in the source for the op of this node, if any.
        stated: Dimensions that the source states of its outputs, None for dynamic ones, by position.
        is_applied: Whether a handler or an importer applied it, and the source has no such node.
        line: Line of the source's text in which it begins; 0 if the source is not text.
        defaults: Values of the attributes that the source omits, for ``attr``.
        module: Path of the module that it belongs to, like ``layer1/layer1.0``, if the file states it apart
            from the name; empty for the model itself; None: the file does not state it.
    """

    type: str
    names: Sequence[str]
    outputs: Sequence[str]
    attributes: dict[str, Any]
    own_name: str
    domain: str = ""
    opset: int = 0
    name: str = ""
    inputs: list[Value | None] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    load: Callable[[bool], dict[str, Any]] | None = None
    message: Any = None
    recorded: RecordedNames | None = None
    stated: Sequence[Sequence[int | None] | None] = ()
    is_applied: bool = False
    line: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict)
    module: str | None = None

    def __post_init__(self) -> None:
        self.name = self.name or self.own_name

    @property
    def full_type(self) -> str:
        """The operator, prefixed with its domain where that is not the default one."""
        return f"{self.domain}::{self.type}" if self.domain else self.type

    @property
    def is_canonical(self) -> bool:
        """Whether it is an ONNX operator, which needs no handler of its framework."""
        return bool(self.opset)

    def graphs(self) -> list[SourceGraph]:
        """Return the sub-graphs of the node, without nested ones."""
        graphs: list[SourceGraph] = []
        for value in self.attributes.values():
            if isinstance(value, SourceGraph):
                graphs.append(value)
            elif isinstance(value, list) and value and isinstance(value[0], SourceGraph):
                graphs += value
        return graphs

    def reads(self) -> list[str]:
        """Return the names that a node reads of the graph around it."""
        names = list(self.names)
        for graph in self.graphs():
            names += graph.reads()
        return names

    def all_reads(self) -> list[str]:
        """Return all names that a node and its inner graphs read."""
        names = list(self.names)
        for graph in self.graphs():
            names += graph.outputs
            for node in graph.nodes:
                names += node.all_reads()
        return names

    def input(self, index: int) -> Value | None:
        """Return an input; None if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def required(self, index: int) -> Value:
        """Return an input that must be present.

        Raises:
            ModelError: If it is omitted.
        """
        value = self.input(index)
        if value is None:
            raise self.invalid(f"input {index} of the node is missing")
        return value

    def operands(self, least: int = 0, most: float = math.inf) -> list[Value]:
        """Return the inputs, none of them missing.

        Raises:
            ModelError: If one is omitted, or there are fewer or more of them.
        """
        count = len(self.inputs)
        if not least <= count <= most:
            expected = f"at least {least}" if most == math.inf else f"{least} to {most}"
            raise self.invalid(
                f"the node has {count} input(s) instead of {least if most == least else expected}"
            )
        return [self.required(index) for index in range(count)]

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute, else the format's default, else ``default``.

        The attribute of a canonical operator is a number if ``default`` is one.

        Raises:
            ModelError: If it is not.
        """
        self.read.add(name)
        value = self.attributes.get(name, self.defaults.get(name, default))
        if self.opset and isinstance(default, int | float):
            kind = Integral if isinstance(default, int) and not self.is_applied else Real
            if not isinstance(value, kind):
                raise self.invalid(f"attribute {name} must be a number")
        return value

    def flag(self, name: str, default: int = 0) -> bool:
        """Return an attribute that is 0 or 1; engines read other numbers as either.

        Raises:
            ModelError: If it is something else.
        """
        value = self.attr(name, default)
        if value not in (0, 1):
            raise self.invalid(f"attribute {name} is {value} instead of 0 or 1")
        return bool(value)

    def graph(self, name: str) -> Body:
        """Return an attribute that is a graph.

        Raises:
            ModelError: If it is omitted, or something else.
        """
        value = self.attr(name)
        if not isinstance(value, Body):
            raise self.invalid(f"attribute {name} is {'missing' if value is None else 'no graph'}")
        return value

    def static(self, index: int, what: str) -> Array | None:
        """Return the elements of an input that must be constant, None if omitted.

        Raises:
            UnsupportedOp: If it is computed at run time.
        """
        value = self.input(index)
        if value is None:
            return None
        if not value.is_static:
            raise self.problem(
                f"{what} (input {index}, {value.tensor.name!r}) must be constant, but is computed",
                f"{bind_dims()}, or export the model with static shapes",
            )
        return value.numpy()

    def ints(self, index: int, attribute: str, what: str) -> list[int] | None:
        """Return integers from an attribute, or an input in newer opsets.

        Raises:
            ModelError: If there are more than ``_MOST_INTEGERS``.
        """
        given = self.attr(attribute)
        if given is not None:
            return [int(given)] if isinstance(given, int) else [int(item) for item in given]
        array = self.static(index, what)
        if array is not None and array.size > _MOST_INTEGERS:
            raise self.invalid(f"{what} (input {index}) has {array.size} numbers instead of 1")
        return None if array is None else [int(item) for item in array.reshape(-1)]

    def required_ints(self, index: int, attribute: str, what: str) -> list[int]:
        """Return integers like ``ints``; raise an error if they are missing.

        Raises:
            ModelError: If they are omitted.
        """
        numbers = self.ints(index, attribute, what)
        if numbers is None:
            raise self.invalid(f"{what} (input {index}) are missing")
        return numbers

    def check_types(self, *values: Value | None) -> None:
        """Refuse operands with types that engines do not combine.

        Floats of 16 and 32 bits count as one type.

        Raises:
            ModelError: If one is float64 or integer and another is not.
        """
        dtypes = {value.dtype for value in values if value is not None}
        if len(dtypes) > 1 and any(
            not dtype.is_fixed and not (dtype.is_float and dtype.bits <= 32) for dtype in dtypes
        ):
            names = " and ".join(sorted(dtype.name for dtype in dtypes))
            raise self.invalid(f"the inputs have types {names}, but must have one type")

    def axis(self, given: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises:
            ModelError: If there is no such axis.
        """
        if not -rank <= given < rank:
            raise self.invalid(f"axis {given} does not fit rank {rank}")
        return given % rank

    def check_read(self, ignores: frozenset[str] = frozenset()) -> None:
        """Refuse attributes that the importer has not read.

        Raises:
            UnsupportedOp: If there are any but those of ``ignores``.
            AssertionError: If a handler applied the operator with them, which is an error of the handler.
        """
        unread = self.attributes.keys() - self.read - ignores
        if unread and self.is_applied:
            raise AssertionError(f"{self.type} gets {sorted(unread)}, which nothing reads")
        if unread:
            more = " and others" if len(unread) > _MOST_SHOWN else ""
            shown = sorted(unread)[:_MOST_SHOWN]
            near = nearest_names(shown[0], self.read - self.attributes.keys(), most=1, cutoff=0.8)
            raise self.problem(
                f"attribute {', '.join(shown)}{more} is not supported by {self.type}",
                f"{near}; or {_UNREAD}" if near else _UNREAD,
            )

    def problem(self, text: str, fix: str | None = None) -> UnsupportedOp:
        """Return the error of a node that QNN cannot carry but the host may."""
        return UnsupportedOp(text, fix=fix, code="XD406")

    def invalid(self, text: str) -> ModelError:
        """Return the error of a node that contradicts itself: nobody can execute it."""
        return ModelError(text, fix=CONTRADICTION, code="XD302")


def upstream(names: Sequence[str], producer: Callable[[str], Node | None]) -> list[Node]:
    """Return the nodes that values depend on, each once, the last ones first.

    Args:
        producer: Returns the node that computes a value; None where the search ends.
    """
    nodes: dict[Node, None] = {}
    pending = list(names)
    while pending:
        node = producer(pending.pop())
        if node is not None and node not in nodes:
            nodes[node] = None
            pending += node.reads()
    return list(nodes)


class GraphInput(NamedTuple):
    """An input of a source graph.

    Attributes:
        dtype: Its data type; None if it is not a tensor that a DLC holds.
        dims: Its dimensions, symbols for dynamic ones; None if the source states none.
    """

    name: str
    dtype: ir.DType | None
    dims: Labels | None = None


class GraphState(NamedTuple):
    """A variable of a source graph, which becomes an input and an output.

    Attributes:
        read: Name of the input that holds its value before a run.
        written: Name of the value that it has after a run.
        initial: Its value before the first run: a number, or nested lists.
    """

    name: str
    read: str
    written: str
    initial: Any = 0


@record
class SourceGraph:
    """A graph in the form that a framework's reader returns.

    Attributes:
        inputs: Its inputs, those of states and those with a stored value among them.
        nodes: Its nodes in any order.
        constants: Stored tensors by name, lazy.
        problems: Errors by the name that has no value for it.
        aliases: Names of values by further names that the source has for them.
        output_dims: Dimensions that the source states of its outputs, by name.
    """

    inputs: Sequence[GraphInput]
    outputs: Sequence[str]
    nodes: Sequence[Node]
    constants: Mapping[str, ir.TensorData] = field(default_factory=dict)
    states: Sequence[GraphState] = ()
    problems: Mapping[str, XdlcError] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    output_dims: Mapping[str, Labels] = field(default_factory=dict)

    def all_nodes(self) -> Iterator[Node]:
        """Iterate over the nodes, including those of sub-graphs."""
        for node in self.nodes:
            yield node
            for graph in node.graphs():
                yield from graph.all_nodes()

    def reads(self) -> list[str]:
        """Return the names that the graph reads of the graphs around it."""
        bound = {"", *(entry.name for entry in self.inputs), *self.constants}
        for node in self.nodes:
            bound.update(node.outputs)
        names = dict.fromkeys(name for node in self.nodes for name in node.reads())
        return [name for name in (names | dict.fromkeys(self.outputs)) if name not in bound]


class Body(ABC):
    """A graph inside a node, which is imported into the scope at hand."""

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.inputs = inputs
        self.outputs = outputs

    @property
    def size(self) -> int:
        """Number of nodes after expansion."""
        return 1

    def input_rank(self, index: int) -> int:
        """Return the rank of a loop's iteration number (0) or condition (1)."""
        return 0

    def add_constants(self, context: ImportContext) -> None:  # noqa: B027 - most graphs have none
        """Bind values that do not depend on inputs; done once for all iterations."""

    @abstractmethod
    def add_nodes(self, context: ImportContext) -> None:
        """Import the other nodes; inputs are bound before, outputs must be bound after."""

    def only(self, positions: Sequence[int]) -> Self:
        """Return the graph with some of its outputs, which needs the nodes of these only."""
        part = copy.copy(self)
        part.outputs = [self.outputs[position] for position in positions]
        return part

    def reads(self) -> Sequence[str]:
        """Return the names that it reads from enclosing graphs, if known."""
        return ()

    def producer(self, name: str) -> Node | None:
        """Return the node that computes a value; None if unknown or if no node does."""
        return None

    def operands(self, name: str) -> Sequence[str] | None:
        """Return the names that a value is computed from; None if not computed here."""
        return self.inputs if name in self.outputs else None


class Computed(Body):
    """A graph that a function applies, without a counterpart in the source.

    Args:
        function: Returns the outputs for the inputs.
        size: Number of nodes that it expands to.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        function: Callable[[Sequence[AnyValue]], Sequence[AnyValue]],
        size: int = 1,
    ) -> None:
        super().__init__(inputs, outputs)
        self._function = function
        self._size = size

    @property
    def size(self) -> int:
        """Number of nodes after expansion."""
        return self._size

    def add_nodes(self, context: ImportContext) -> None:
        """Bind the results of the function."""
        results = self._function([context.values[name] for name in self.inputs])
        context.values.update(zip(self.outputs, results, strict=True))
