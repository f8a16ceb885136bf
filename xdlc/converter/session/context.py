"""Import context: source, graph, values by name, problems and budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, Dims, StoredValue, Value
from xdlc.errors import ModelError, UnsupportedOp, XdlcError, each_problem
from xdlc.ir.names import FreeNames
from xdlc.records import record

if TYPE_CHECKING:
    from xdlc.converter.session.diagnostics import Diagnostics

DEPTH = 64
"""Most graphs and functions that may nest."""
UNROLLED_NODES = 1 << 14
"""Most nodes that unrolled loops of a model may expand to."""
SEQUENCE_ELEMENTS = 1 << 20
"""Most elements that the sequences of a model may list, each counted as often as it is listed."""
RETRIED_NODES = 1 << 12
"""Most nodes of branches that are imported a second time, as if dimensions were dynamic."""
REPORT = "if the model is valid, please report this error"
"""End of the fix of an error whose cause is not known."""


class Unresolved(Exception):
    """A value cannot be had, because of a problem that has been reported already."""


class Scope(dict[str, AnyValue]):
    """Values by name; unknown names are looked up in the scope around.

    Args:
        outer: The scope around it.
        capture: Makes a value of the outer scope one of this graph; default: it is that already.
    """

    def __init__(
        self, outer: Scope | None = None, capture: Callable[[str, AnyValue], AnyValue] | None = None
    ):
        super().__init__()
        self._outer = outer
        self._capture = capture

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (self._outer is not None and name in self._outer)

    def __missing__(self, name: str) -> AnyValue:
        if self._outer is None:
            raise KeyError(name)
        value = self._outer[name]
        if self._capture is not None:
            value = self[name] = self._capture(name, value)
        return value

    def tensor(self, name: str) -> Value:
        """Return a value that is a tensor.

        Raises:
            TypeError: If it is a sequence or an optional.
        """
        value = self[name]
        if not isinstance(value, Value):
            raise TypeError(f"{name!r} is not a tensor")
        return value


@record
class Allowance:
    """A limited number of things.

    Attributes:
        limit: How many there are.
        used: How many have been taken.
    """

    limit: int
    used: int = 0

    def take(self, count: int = 1) -> bool:
        """Return whether that many more may be used, and count them if so."""
        fits = self.used + count <= self.limit
        self.used += count if fits else 0
        return fits


@record
class Budget:
    """Limits of an import, so that a small file cannot request unlimited work.

    Attributes:
        unrolled_nodes: Nodes of iterations of loops, and of elements of sequences.
        sequence_elements: Elements of sequences.
        retried_nodes: Nodes of branches that are imported a second time.
    """

    unrolled_nodes: Allowance = field(default_factory=lambda: Allowance(UNROLLED_NODES))
    sequence_elements: Allowance = field(default_factory=lambda: Allowance(SEQUENCE_ELEMENTS))
    retried_nodes: Allowance = field(default_factory=lambda: Allowance(RETRIED_NODES))


@record
class Assumed:
    """Assumptions on the values of a loop, until an iteration breaks them.

    Attributes:
        shapes: Shape of each state; None if the rank is open.
        constant: Positions of the states that no iteration changes.
        condition: Whether the body decides when the loop ends.
    """

    shapes: list[Dims | None]
    constant: frozenset[int] = frozenset()
    condition: bool = False


@record(frozen=True)
class Source:
    """A source file as errors and records name it.

    Attributes:
        framework: Name of the framework, like ``onnx``; UDO definitions bind to it.
        graph: Name of the main graph.
        unit: What the framework calls a node, like ``layer``.
        has_opsets: Whether operators have versions.
        checker: Program that finds out whether a model is valid.
        channels: ``first`` or ``last``: where images of the framework have their channels.
    """

    framework: str
    path: str
    graph: str = "main"
    unit: str = "node"
    has_opsets: bool = False
    checker: str = "the tools of its framework"
    channels: str = "first"

    def describe(self, node: Node) -> str:
        """Return the source's own words for a node, like ``layer 'conv1' (Convolution)``."""
        version = f", opset {node.opset}" if self.has_opsets else ""
        line = f", line {node.line}" if node.line else ""
        return f"{self.unit} {node.own_name!r} ({node.type}{version}{line})"


@record(frozen=True)
class Frame:
    """Position of the import among graphs, functions and scopes.

    Attributes:
        builder: Adds to the graph under construction.
        unresolved: Names without a value, because of a problem that has been reported.
        unoffered: Place of the node that omits it, by the name of an output that QNN does not offer.
        around: Nodes whose graphs are being imported, from outside.
        callers: Nodes whose functions are being expanded, from outside.
        stands_in: Whether nodes that the source does not have are imported on behalf of one of its own.
        owner: That node, where the handler of a framework applies canonical operators.
        opens: Whether new graphs take the dimensions of captured values as dynamic.
    """

    builder: Builder
    values: Scope
    unresolved: set[str]
    unoffered: dict[str, str]
    around: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    stands_in: bool = False
    owner: Node | None = None
    opens: bool = False


class ImportContext:
    """State of one import.

    Importers and handlers read it and bind values by ``accept``; only ``entered`` changes the frame, for as
    long as a context is open.  Control flow adds graphs, the layout pre-pass adds to ``wanted``.

    Attributes:
        diagnostics: Collects problems, notices and the nodes.
        graphs: The graphs of the model so far, the main one first.
        free_graph_name: Returns a name that none of them has.
        wanted: Names of values that reach a channel-last op through ops of any layout.
        frame: Position of the import.
    """

    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        builder = Builder(ir.Graph(source.graph))
        self.source = source
        self.diagnostics = diagnostics
        self.budget = Budget()
        self.graphs = {builder.graph.name: builder.graph}
        self.free_graph_name = FreeNames(self.graphs, first=2)
        self.wanted: set[str] = set()
        self.frame = Frame(builder, Scope(), set(), {})

    @property
    def builder(self) -> Builder:
        """Adds to the graph under construction."""
        return self.frame.builder

    @property
    def values(self) -> Scope:
        """Values by name."""
        return self.frame.values

    @property
    def problems(self) -> list[XdlcError]:
        """Problems that prevent the conversion, so far."""
        return self.diagnostics.problems

    # ------------------------------------------------------------------ results and problems of a node

    def place(self, node: Node) -> str:
        """Return the place of a node, for errors."""
        frame = self.frame
        inside = "".join([f"in {caller}: " for caller in (*frame.around, *frame.callers)])
        return f"{self.source.path}: {inside}{self.source.describe(frame.owner or node)}"

    def path(self, node: Node) -> tuple[str, ...]:
        """Return the position of a node among the graphs and functions around it."""
        return (*self.frame.around, *self.frame.callers, node.name)

    def resolve_inputs(self, node: Node, where: str) -> bool:
        """Set the inputs of a node; return whether all have values.

        If one has none, the outputs have none either.
        """
        frame, needed = self.frame, [name for name in node.names if name]
        if not frame.unresolved.isdisjoint(needed):
            frame.unresolved.update(node.outputs)
            return False
        missing = next((name for name in needed if name not in frame.values), None)
        if missing is not None:
            self.invalidate(node, self.missing(missing, where))
            return False
        inputs: list[Any] = [frame.values[name] if name else None for name in node.names]
        node.inputs = inputs
        return True

    def begin(self, node: Node) -> None:
        """Let the builder work for a node, and read its attributes."""
        frame, builder = self.frame, self.frame.builder
        if not frame.callers and not frame.stands_in:
            builder.begin(node.own_name, node.recorded)
        node.name = builder.node
        builder.wants_channel_last = not self.wanted.isdisjoint(node.outputs)
        if node.load is not None:
            node.attributes = node.load(True)

    def accept(self, node: Node, results: Sequence[AnyValue], where: str) -> None:
        """Bind the outputs of a node; outputs without a result are marked as not offered."""
        frame = self.frame
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                is_named = isinstance(value, StoredValue) or (node.is_applied and frame.owner is not None)
                if isinstance(value, Value) and not is_named:
                    frame.builder.adopt(value, name)
                    self._name_result(value, name)
                frame.values[name] = value
        for name in node.outputs[len(results) :]:
            if name:
                frame.unoffered[name] = where

    def resolve_stated(self, node: Node) -> None:
        """Set dynamic dimensions of a node's outputs to those stated in the source."""
        for name, stated in zip(node.outputs, node.stated, strict=False):
            value = self.values.get(name)
            if stated is None or not isinstance(value, Value) or self.frame.around:
                continue
            tensor = value.tensor
            if tensor.producer is None or len(stated) != tensor.rank or value.rank != tensor.rank:
                continue
            sizes = [stated[axis] for axis in value.order]
            known = {axis for axis in tensor.dynamic_axes if sizes[axis] is not None}
            shape = [sizes[axis] if axis in known else size for axis, size in enumerate(tensor.shape)]
            tensor.shape = tuple(size for size in shape if size is not None)
            tensor.dynamic_axes = tuple(axis for axis in tensor.dynamic_axes if axis not in known)

    def _name_result(self, value: Value, name: str) -> None:
        """Rename the tensor that a node just made to the source's name."""
        tensor, graph = value.tensor, self.builder.graph
        op = tensor.producer
        if op is None or op.origin.nodes[-1:] != (self.builder.node,) or tensor.name not in graph.tensors:
            return
        if tensor.name.startswith(op.name) and name not in graph.tensors and not op.origin.reason:
            graph.rename(tensor, name)

    def invalidate(self, node: Node, problem: XdlcError) -> None:
        """Report the problem of a node, whose outputs have no value then."""
        owner = self.frame.owner
        problem.node = self.builder.node if self.frame.callers or owner is not None else node.own_name
        problem.op, problem.line = (owner or node).type, (owner or node).line
        self.problems.append(problem)
        self.frame.unresolved.update(node.outputs)

    @contextmanager
    def reporting(self, node: Node, where: str) -> Iterator[None]:
        """Report errors raised in the context as problems of a node."""
        try:
            yield
        except Unresolved:
            self.frame.unresolved.update(node.outputs)
        except XdlcError as found:
            for problem in each_problem(found):
                problem.where = problem.where or where
                self.invalidate(node, problem)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError) as error:
            fix = f"check the model with {self.source.checker}; {REPORT}"
            misfit = ModelError(f"the inputs do not fit the operator: {error}", where=where, fix=fix)
            self.invalidate(node, misfit)

    def missing(self, name: str, where: str) -> XdlcError:
        """Return the problem of a place that reads a name without a value."""
        if name in self.frame.unoffered:
            return UnsupportedOp(
                f"a node reads output {name!r} of this node, which QNN does not compute",
                where=self.frame.unoffered[name],
                fix="export the model for inference, without the ops that read this output",
            )
        return ModelError(
            f"the node reads {name!r}, which nothing produces",
            where=where,
            fix="export the model again",
            code="XD306",
        )

    def bind_constant(self, name: str, data: Callable[[], ir.TensorData]) -> None:
        """Bind a name to stored data, or report why they cannot be read."""
        try:
            self.values[name] = self.builder.const(data(), name)
        except XdlcError as problem:
            self.problems.append(problem)
            self.frame.unresolved.add(name)
        except TypeError as error:
            self.problems.append(UnsupportedOp(str(error), where=f"{self.source.path}: tensor {name!r}"))
            self.frame.unresolved.add(name)

    def bind_constants(self, constants: Mapping[str, ir.TensorData]) -> None:
        """Bind names to stored data, or report why they cannot be read."""
        for name in constants:
            self.bind_constant(name, partial(constants.__getitem__, name))

    def checkpoint(self) -> Callable[[], list[XdlcError]]:
        """Return a function that removes problems and graphs added since now.

        It returns the problems.
        """
        problems, graphs = len(self.problems), len(self.graphs)

        def forget() -> list[XdlcError]:
            forgotten = self.problems[problems:]
            del self.problems[problems:]
            for name in list(self.graphs)[graphs:]:
                del self.graphs[name]
                self.free_graph_name.release(name)
            return forgotten

        return forget

    # ------------------------------------------------------------------ frames

    @contextmanager
    def entered(self, **changes: Any) -> Iterator[None]:
        """Work in a changed frame, and restore the frame and the builder's node."""
        saved, node = self.frame, self.frame.builder.node
        self.frame = replace(saved, **changes)
        try:
            yield
        finally:
            self.frame = saved
            if saved.builder.node != node:
                saved.builder.node = node

    def scope(self, values: Scope, builder: Builder | None = None) -> AbstractContextManager[None]:
        """Bind names in a scope of their own, and add to another graph if given."""
        frame = self.frame
        return self.entered(
            values=values,
            builder=builder or frame.builder,
            unresolved=set(frame.unresolved),
            unoffered=dict(frame.unoffered),
        )

    def inside(self, node: Node) -> AbstractContextManager[None]:
        """Import the graphs of a node while the context is open.

        Raises:
            ModelError: If they nest too deep.
        """
        if len(self.frame.around) + len(self.frame.callers) >= DEPTH:
            raise ModelError(
                f"graphs and functions nest more than {DEPTH} levels deep",
                fix="inline the functions of the model",
            )
        node = self.frame.owner or node
        return self.entered(around=(*self.frame.around, f"{node.type} {node.own_name!r}"))

    def function(self, node: Node) -> AbstractContextManager[None]:
        """Import the body of the function that a node calls while the context is open."""
        return self.entered(callers=(*self.frame.callers, f"{node.type} {node.own_name!r}"))
