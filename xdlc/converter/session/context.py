"""Where the import of a model stands: the graph under construction, and what names stand for there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx import sparse
from xdlc.converter.onnx.nodes import name_of
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.control_flow.sub_graph import SubGraph
from xdlc.converter.operators.functions import DEPTH
from xdlc.converter.session.budget import Budget
from xdlc.converter.session.diagnostics import Findings
from xdlc.converter.session.scope import Scope
from xdlc.converter.values import AnyValue, Value
from xdlc.errors import ModelError, UnsupportedOp, XdlcError


class State:
    """What the parts of an import share.

    Attributes:
        file: The opened model.
        findings: Takes the problems, all of them, and the nodes.
        budget: What the import may use up.
        builder: Adds to the graph under construction.
        graphs: The graphs of the model so far, the main one first.
        values: What names stand for.
        poisoned: Names that stand for nothing, because of a problem that has been reported.
        absent: Where the node stands that leaves it out, by the name of an output that QNN does not offer.
        wanted: Names of values that reach a channel-last op through ops of any order.
        opsets: Operator versions by domain.
        around: Nodes whose graphs are being imported, from outside.
        callers: Nodes whose functions are being expanded, from outside.
        stands_in: Whether nodes that the source does not have are imported on behalf of one of its own.
        is_udo: Whether a node becomes an op that the user defines, as far as its operator tells.
        opening: Whether new graphs take the extents of what they capture as open.
    """

    def __init__(self, file: OnnxFile, findings: Findings) -> None:
        self.file = file
        self.findings = findings
        self.budget = Budget()
        self.builder = Builder(ir.Graph(file.proto.graph.name or "main"))
        self.graphs = {self.builder.graph.name: self.builder.graph}
        self.values = Scope()
        self.poisoned: set[str] = set()
        self.absent: dict[str, str] = {}
        self.wanted: set[str] = set()
        self.opsets: Mapping[str, int] = file.opsets
        self.around: list[str] = []
        self.callers: list[str] = []
        self.stands_in = False
        self.opening = False
        self.is_udo: Callable[[Any], bool] = lambda proto: False

    @property
    def problems(self) -> list[XdlcError]:
        """Everything that keeps the model from being converted, so far."""
        return self.findings.problems

    # ------------------------------------------------------------------ what a node comes to

    def place(self, proto: Any, opset: int) -> str:
        """Return where a node stands, for errors."""
        inside = "".join(f"in {caller}: " for caller in (*self.around, *self.callers))
        return f"{self.file.path}: {inside}node {name_of(proto)!r} ({proto.op_type}, opset {opset})"

    def accept(self, proto: Any, results: Sequence[AnyValue], where: str) -> None:
        """Give the outputs of a node values; those that are left over are absent."""
        for name, value in zip(proto.output, results, strict=False):
            if name:
                if isinstance(value, Value):
                    self.builder.adopt(value, name)
                    self._name_result(value, name)
                self.values[name] = value
        self.absent.update((name, where) for name in proto.output[len(results) :] if name)

    def _name_result(self, value: Value, name: str) -> None:
        """Give the tensor that a node just made the name that the source has for it."""
        tensor, graph = value.tensor, self.builder.graph
        op = tensor.producer
        if op is None or op.origin.nodes[-1:] != (self.builder.node,) or tensor.name not in graph.tensors:
            return
        if tensor.name.startswith(op.name) and name not in graph.tensors and not op.origin.reason:
            graph.rename(tensor, name)

    def poison(self, proto: Any, problem: XdlcError) -> None:
        """Report the problem of a node; its outputs stand for nothing."""
        problem.node = self.builder.node if self.callers else name_of(proto)
        problem.op = proto.op_type
        self.problems.append(problem)
        self.poisoned.update(proto.output)

    def missing(self, name: str, where: str) -> XdlcError:
        """Return the problem of a place that reads a name which stands for nothing."""
        if name in self.absent:
            return UnsupportedOp(
                f"its output {name!r} is used, which QNN does not offer",
                where=self.absent[name],
                fix="export the model for inference, without the ops that read it",
            )
        return ModelError(
            f"reads {name!r}, which nothing produces", where=where, fix="export the model again"
        )

    def attempt(self) -> Callable[[], list[XdlcError]]:
        """Return a function that forgets the problems and graphs since now, and returns the problems."""
        problems, graphs = len(self.problems), len(self.graphs)

        def forget() -> list[XdlcError]:
            forgotten = self.problems[problems:]
            del self.problems[problems:]
            for name in list(self.graphs)[graphs:]:
                del self.graphs[name]
            return forgotten

        return forget

    # ------------------------------------------------------------------ stored tensors

    def add_initializers(self, graph: Any) -> None:
        """Give the initializers of a ``GraphProto`` values."""
        for proto in graph.initializer:
            self._add_initializer(proto.name, partial(self.file.data, proto))
        for proto in graph.sparse_initializer:
            self._add_initializer(proto.values.name, partial(self._dense, proto))

    def _add_initializer(self, name: str, data: Callable[[], ir.TensorData]) -> None:
        try:
            self.values[name] = self.builder.const(data(), name)
        except XdlcError as problem:
            self.problems.append(problem)
            self.poisoned.add(name)
        except TypeError as error:
            self.problems.append(UnsupportedOp(str(error), where=f"{self.file.path}: tensor {name!r}"))
            self.poisoned.add(name)

    def attribute(self, attribute: Any) -> Any:
        """Return the value of an ``AttributeProto`` as a Python object, a tensor as lazy data."""
        value = protobuf.attribute_value(attribute)
        if attribute.type == protobuf.TENSOR_ATTRIBUTE:
            return self.file.data(value)
        return self._dense(value) if attribute.type == protobuf.SPARSE_ATTRIBUTE else value

    def _dense(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``SparseTensorProto``, which counts with its size."""
        data = sparse.dense(self.file, tensor)
        if not self.budget.dense_bytes.take(data.nbytes):
            raise sparse.too_large(f"{self.file.path}: sparse tensor {tensor.values.name!r}")
        return data

    # ------------------------------------------------------------------ other places for a while

    @contextmanager
    def sub_graph(self, name: str) -> Iterator[SubGraph]:
        """Import into a new graph while the context is open; what it reads from outside is captured."""
        sub = SubGraph(name, opened=self.opening)
        sub.builder.node = self.builder.node
        saved = self.builder, self.values, self.poisoned, self.absent
        self.builder, self.values = sub.builder, Scope(self.values, sub.capture)
        self.poisoned, self.absent = set(self.poisoned), dict(self.absent)
        try:
            yield sub
        finally:
            self.builder, self.values, self.poisoned, self.absent = saved

    @contextmanager
    def scope(self, values: Scope) -> Iterator[None]:
        """Let names stand for ``values`` while the context is open, and for what they did again behind it."""
        saved = self.values, self.poisoned, self.absent, self.builder.node
        self.values, self.poisoned, self.absent = values, set(self.poisoned), dict(self.absent)
        try:
            yield
        finally:
            self.values, self.poisoned, self.absent, self.builder.node = saved

    @contextmanager
    def inside(self, proto: Any) -> Iterator[None]:
        """Import the graphs of a node while the context is open.

        Raises:
            ModelError: If they nest too deep.
        """
        if len(self.around) + len(self.callers) >= DEPTH:
            raise ModelError(f"graphs and functions nest more than {DEPTH} deep", fix="simplify the model")
        self.around.append(f"{proto.op_type} {name_of(proto)!r}")
        try:
            yield
        finally:
            self.around.pop()

    @contextmanager
    def function(self, proto: Any, opsets: Mapping[str, int]) -> Iterator[None]:
        """Import the body of the function that a node calls while the context is open.

        Args:
            proto: The node.
            opsets: Operator versions that the function states.
        """
        saved, self.opsets = self.opsets, {**self.opsets, **opsets}
        self.callers.append(f"{proto.op_type} {name_of(proto)!r}")
        try:
            yield
        finally:
            self.callers.pop()
            self.opsets = saved

    @contextmanager
    def standing_in(self, opsets: Mapping[str, int] | None = None) -> Iterator[None]:
        """Import nodes that the source does not have, for the current one, while the context is open."""
        saved = self.opsets, self.stands_in
        self.opsets, self.stands_in = {**self.opsets, **(opsets or {})}, True
        try:
            yield
        finally:
            self.opsets, self.stands_in = saved
