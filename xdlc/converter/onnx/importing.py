"""Imports an ONNX graph node by node and collects every problem on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx import control_flow, functions, host_only, protobuf, sequences, sparse, upgrades
from xdlc.converter.onnx.budget import Budget
from xdlc.converter.onnx.control_flow.sub_graph import SubGraph
from xdlc.converter.onnx.control_flow.while_loop import Assumed
from xdlc.converter.onnx.expansion import Expansion
from xdlc.converter.onnx.findings import (
    COPY,
    INNER,
    KNOWN,
    LAYOUTS,
    LISTED,
    REFUSED,
    UNUSED,
    Findings,
    SourceNode,
)
from xdlc.converter.onnx.folding import Folding, foldable
from xdlc.converter.onnx.hints import hint_of
from xdlc.converter.onnx.inference import Inference
from xdlc.converter.onnx.nodes import (
    domain_of,
    full_type,
    inner_nodes,
    name_of,
    plain_domain,
    read_names,
)
from xdlc.converter.onnx.ordering import ordered
from xdlc.converter.onnx.registry import ANY, CHANNEL_LAST, Entry, Node, find, load_all
from xdlc.converter.onnx.scope import Scope, Unsettled
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.values import AnyValue, Value, channel_last, identity, open_tensor
from xdlc.errors import ModelError, UnsupportedOp, UsageError, XdlcError, nearest_names
from xdlc.runtime.host_kernels import HOST_OPSET


def import_model(
    file: OnnxFile,
    input_shapes: Mapping[str, Sequence[int | None]],
    out_names: Sequence[str] | None,
    findings: Findings,
    unroll_loops: int,
) -> ir.Model:
    """Return the IR of a model, or what could be imported of it: the main graph, then those that it runs.

    Args:
        file: The opened model.
        input_shapes: Shape of every graph input, None for open extents.
        out_names: Values to end at; default: the model's outputs.
        findings: Takes the problems, all of them, and the nodes.
        unroll_loops: Most iterations of a loop that are put one after the other.

    Raises:
        ModelError: If the model is no graph: two nodes produce a value, or one needs its own result.
    """
    return _Import(file, input_shapes, out_names, findings, unroll_loops).run()


class _Import:
    def __init__(
        self,
        file: OnnxFile,
        input_shapes: Mapping[str, Sequence[int | None]],
        out_names: Sequence[str] | None,
        findings: Findings,
        unroll_loops: int,
    ) -> None:
        self.file = file
        self.findings = findings
        self.source = file.proto.graph
        self.out_names = list(out_names or [output.name for output in self.source.output])
        self.builder = Builder(ir.Graph(self.source.name or "main"))
        self.graphs = {self.builder.graph.name: self.builder.graph}
        self.values = Scope()
        self.poisoned: set[str] = set()
        self.absent: dict[str, str] = {}
        self.wanted: set[str] = set()
        self.problems = findings.problems
        self.opsets: Mapping[str, int] = file.opsets
        self.input_shapes = input_shapes
        self.inference = Inference(file, input_shapes)
        self.functions = {
            (plain_domain(function.domain), function.name, function.overload): function
            for function in file.proto.functions
        }
        self.expansion = Expansion(file.proto)
        self.read = set(self.out_names)
        self.callers: list[str] = []
        self.unroll_loops = unroll_loops
        self.budget = Budget()
        self.expanded = 0
        self.assumptions: dict[tuple[str, ...], Assumed] = {}
        self.around: list[str] = []
        self.applied = 0
        self.applying = False
        self.opening = False

    def run(self) -> ir.Model:
        where = str(self.file.path)
        nodes = ordered(self.source, self.out_names, where)
        for node in nodes:
            self.read.update(read_names(node))
        self._initializers(self.source)
        self.folding = Folding(self.file.nbytes)
        self.wanted = self._wants_channel_last(nodes)
        self._inputs()
        for node in nodes:
            self._import(node)
        for name in self.out_names:
            if name in self.absent:
                self.problems.append(self._missing(name, where))
            elif name in self.values and not isinstance(self.values[name], Value):
                self.problems.append(
                    UnsupportedOp(
                        f"output {name!r} is a sequence or an optional, but a DLC holds tensors only",
                        where=where,
                        fix="give the model an output for each tensor, or end it earlier by --out_name",
                    )
                )
                self.poisoned.add(name)
            elif name not in self.values and name not in self.poisoned:
                known = [output for node in nodes for output in node.output]
                self.problems.append(
                    UsageError(
                        f"there is no value {name!r}", where=where, fix=nearest_names(name, known) or None
                    )
                )
        self._note(nodes)
        for name in self.out_names:
            if name in self.values and name not in self.poisoned:
                self._output(name)
        return ir.Model(self.graphs)

    def _note(self, nodes: Sequence[Any]) -> None:
        """Put what is known of each node into the findings."""
        needed = {id(node) for node in nodes}
        ends = set(self.out_names)
        listed = self.findings.nodes
        for node in self.source.node:
            name, outputs = name_of(node), [output for output in node.output if output]
            if not ends.isdisjoint(outputs):
                self.findings.makers.update((output, name) for output in outputs if output in ends)
            reason = None if id(node) in needed else UNUSED
            if reason is None and self.poisoned.issuperset(outputs):
                reason = REFUSED
            elif reason is None and all(self._is_known_value(output) for output in outputs):
                reason = KNOWN
            elif reason is None and not any(isinstance(self.values.get(each), Value) for each in outputs):
                reason = LISTED
            listed.append(SourceNode(name, full_type(node), reason))
            if node.attribute:
                listed += (SourceNode(name_of(each), full_type(each), INNER) for each in inner_nodes(node))

    def _is_known_value(self, name: str) -> bool:
        value = self.values.get(name)
        return value is not None and value.is_static

    # ------------------------------------------------------------------ before the nodes

    def _initializers(self, graph: Any) -> None:
        for proto in graph.initializer:
            self._initializer(proto.name, partial(self.file.data, proto))
        for proto in graph.sparse_initializer:
            self._initializer(proto.values.name, partial(self._dense, proto))

    def _initializer(self, name: str, data: Callable[[], ir.TensorData]) -> None:
        try:
            self.values[name] = self.builder.const(data(), name)
        except XdlcError as problem:
            self.problems.append(problem)
            self.poisoned.add(name)
        except TypeError as error:
            self.problems.append(UnsupportedOp(str(error), where=f"{self.file.path}: tensor {name!r}"))
            self.poisoned.add(name)

    def _dense(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``SparseTensorProto``, which counts with its size."""
        data = sparse.dense(self.file, tensor)
        if not self.budget.dense_bytes.take(data.nbytes):
            raise sparse.too_large(f"{self.file.path}: sparse tensor {tensor.values.name!r}")
        return data

    def _inputs(self) -> None:
        for entry in self.source.input:
            if entry.name in self.values or entry.name in self.poisoned:
                continue  # an initializer with a declared type
            elem = entry.type.tensor_type.elem_type
            try:
                if not entry.type.HasField("tensor_type"):
                    kind = str(entry.type.WhichOneof("value")).removesuffix("_type").replace("_", " ")
                    raise TypeError(f"it is of type {kind}, but a DLC holds tensors only")
                dtype = ir.dtype.from_numpy(protobuf.numpy_dtype(elem))
            except (TypeError, KeyError) as error:
                self.poisoned.add(entry.name)
                self.problems.append(
                    UnsupportedOp(
                        f"input {entry.name!r} cannot be a DLC input: {error or f'data type {elem}'}",
                        where=str(self.file.path),
                        fix="export the model with tensor inputs of plain numbers",
                    )
                )
                continue
            tensor = self.builder.graph.add_input(
                open_tensor(entry.name, self.input_shapes[entry.name], dtype)
            )
            value = Value(tensor, identity(tensor.rank))
            if not tensor.rank:
                self.builder.node = entry.name
                value.scalar = tensor
                value.tensor = self.builder.emit(
                    "Reshape", [tensor], (1,), dtype, why="backends refuse rank 0"
                )
            if entry.name in self.wanted and tensor.rank >= 3 and not value.is_dynamic:
                self.builder.node = entry.name
                order = channel_last(tensor.rank)
                lying = self.builder.physical(
                    value, order, why=f"input {entry.name!r} is channel-first, the graph works channel-last"
                )
                value = Value(lying, order, {identity(tensor.rank): tensor})
                self._note_layout(entry.name, value)
            self.values[entry.name] = value

    def _note_layout(self, name: str, value: Value) -> None:
        """Note the meaning of the axes of an input or output whose axis 1 is known to be the channels."""
        if value.rank in LAYOUTS and value.order == channel_last(value.rank):
            self.findings.layouts[name] = LAYOUTS[value.rank]

    def _wants_channel_last(self, nodes: Sequence[Any]) -> set[str]:
        """Return the values that reach a channel-last op through ops that take any order."""
        load_all()
        wanted: set[str] = set()
        for node in reversed(nodes):
            entry = find(domain_of(node), node.op_type, self.file.opsets.get(domain_of(node), 1))
            takes_any = sequences.find(node.op_type, domain_of(node)) is not None
            if entry is not None:
                takes_any = entry.layout == ANY
                if entry.layout == CHANNEL_LAST:
                    wanted.add(node.input[0])
            if takes_any and any(name in wanted for name in node.output):
                wanted.update(name for name in node.input if name)
        return wanted

    # ------------------------------------------------------------------ nodes

    def _import(self, proto: Any) -> None:
        domain = domain_of(proto)
        opset = self.opsets.get(domain, 1)
        where = self._place(proto, opset)
        needed = [name for name in proto.input if name]
        if any(name in self.poisoned for name in needed):
            self.poisoned.update(proto.output)
            if not self._is_known(proto, domain, opset):
                self._poison(proto, self._unsupported(domain, proto.op_type, opset, where))
            return
        missing = next((name for name in needed if name not in self.values), None)
        if missing is not None:
            self._poison(proto, self._missing(missing, where))
            return
        static = all(self.values[name].is_static for name in needed)
        if static and foldable(proto) and self._fold(proto, where):
            return
        try:
            self._settle(proto, self._node(proto, domain, opset), where)
        except Unsettled:
            self.poisoned.update(proto.output)
        except XdlcError as problem:
            if problem.where is None or problem.where.startswith("node "):
                problem.where = where
            self._poison(proto, problem)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError) as error:
            self._poison(
                proto,
                ModelError(
                    f"its inputs do not fit the operator: {error}",
                    where=where,
                    fix="check the model with onnx.checker; if it is valid, please report this",
                ),
            )

    def _is_known(self, proto: Any, domain: str, opset: int) -> bool:
        """Return whether there is a way to import an operator, as far as its name tells."""
        return (
            (domain, proto.op_type, proto.overload) in self.functions
            or find(domain, proto.op_type, opset) is not None
            or control_flow.find(proto.op_type, domain, opset) is not None
            or sequences.find(proto.op_type, domain) is not None
            or host_only.can_keep(proto.op_type, domain)
            or functions.has_body(proto.op_type, domain, opset)
        )

    def _place(self, proto: Any, opset: int) -> str:
        inside = "".join(f"in {caller}: " for caller in (*self.around, *self.callers))
        return f"{self.file.path}: {inside}node {name_of(proto)!r} ({proto.op_type}, opset {opset})"

    def _node(self, proto: Any, domain: str, opset: int) -> Node:
        builder = self.builder
        if not self.callers and not self.applying:
            hint = hint_of(proto)
            builder.node = name_of(proto)
            if hint is not None:
                builder.noted, builder.base = (hint.op, hint.type), hint.node
        builder.wants_channel_last = not self.wanted.isdisjoint(proto.output)
        inputs: list[Any] = [self.values[key] if key else None for key in proto.input]
        return Node(
            builder.node,
            proto.op_type,
            domain,
            opset,
            inputs,
            list(proto.output),
            {attribute.name: self._attribute(attribute) for attribute in proto.attribute},
        )

    def _settle(self, proto: Any, node: Node, where: str) -> None:
        """Give the outputs of a node values: by its importer, its function body, or an op of the host.

        Raises:
            XdlcError: If none of them can.
        """
        own = self.functions.get((node.domain, node.type, proto.overload))
        if own is not None:
            self._expand(own, proto, node)
            return
        runs_graphs = control_flow.find(node.type, node.domain, node.opset)
        if runs_graphs is not None:
            self._run_graphs(runs_graphs, proto, node, where)
            return
        takes_apart = sequences.find(node.type, node.domain, node.inputs)
        if takes_apart is not None:
            self._run_graphs(takes_apart, proto, node, where)
            self._check_read(node)
            return
        sequences.check_tensors(node)
        entry = find(node.domain, node.type, node.opset)
        if entry is None:
            refusal = self._unsupported(node.domain, node.type, node.opset, where)
        elif not _takes_open(entry, node):
            refusal = node.problem("reads values with open extents", _BIND)
        else:
            try:
                results = self._call(entry, node)
                self._check_offered(proto, node, len(results))
                self._accept(proto, results, where)
                return
            except UnsupportedOp as problem:
                refusal = problem
        for name in entry.ignores if entry is not None else ():
            if not functions.has_attribute(node.type, node.domain, name):
                node.attributes.pop(name, None)
        if not self._by_body(proto, node):
            self._keep(proto, node, refusal, where)

    def _call(self, entry: Entry, node: Node) -> list[Value]:
        results = entry.function(node, self.builder)
        self._check_read(node, entry.ignores)
        return [results] if isinstance(results, Value) else list(results)

    def _check_read(self, node: Node, ignores: frozenset[str] = frozenset()) -> None:
        """Refuse attributes that an importer has not asked for."""
        unread = node.attributes.keys() - node.read - ignores - {"consumed_inputs"}
        if unread:
            raise node.problem(
                f"attribute {', '.join(sorted(unread))} is not understood here",
                "remove the attribute if it has no effect, or rewrite the node",
            )

    def _check_offered(self, proto: Any, node: Node, count: int) -> None:
        """Refuse an importer's results if something reads an output that is not among them."""
        for name in proto.output[count:]:
            if name and (self.callers or name in self.read):
                raise node.problem(
                    f"its output {name!r} is used, which QNN does not offer",
                    "export the model for inference, without the ops that read it",
                )

    def _accept(self, proto: Any, results: Sequence[AnyValue], where: str) -> None:
        for name, value in zip(proto.output, results, strict=False):
            if name:
                if isinstance(value, Value):
                    self._name_result(value, name)
                self.values[name] = value
        self.absent.update((name, where) for name in proto.output[len(results) :] if name)

    # ------------------------------------------------------------------ graphs inside of nodes

    def _run_graphs(
        self, function: Callable[[_Import, Node], list[AnyValue]], proto: Any, node: Node, where: str
    ) -> None:
        if len(self.around) + len(self.callers) >= functions.DEPTH:
            raise ModelError(
                f"graphs and functions nest more than {functions.DEPTH} deep", fix="simplify the model"
            )
        self.around.append(f"{node.type} {name_of(proto)!r}")
        try:
            self._accept(proto, function(self, node), where)
        finally:
            self.around.pop()

    def path(self, node: Node) -> tuple[str, ...]:
        """Return where a node stands among the graphs and functions around it."""
        return (*self.around, *self.callers, node.name)

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

    def constants(self, graph: Any) -> Scope:
        """Return a scope inside the current one with the initializers and constants of a ``GraphProto``."""
        saved, self.values = self.values, Scope(self.values)
        try:
            self._initializers(graph)
            for proto in graph.node:
                if proto.op_type == "Constant":
                    self._import(proto)
            return self.values
        finally:
            self.values = saved

    def inline(
        self,
        graph: Any,
        given: Mapping[str, AnyValue],
        shared: Scope | None = None,
        *,
        is_source: bool = True,
    ) -> list[AnyValue]:
        """Import the nodes of a ``GraphProto`` and return its outputs.

        Args:
            graph: The graph.
            given: Values of its inputs.
            shared: What ``constants`` gave for the graph, if it is imported more than once.
            is_source: Whether the source has the graph; else its nodes stand for the current one.

        Raises:
            Unsettled: If an output cannot be had; the problem has been reported.
        """
        saved = self.values, self.poisoned, self.absent, self.builder.node, self.applying
        self.applying = self.applying or not is_source
        self.values = Scope(self.constants(graph) if shared is None else shared)
        self.values.update(given)
        self.poisoned, self.absent = set(self.poisoned), dict(self.absent)
        names = [output.name for output in graph.output]
        try:
            nodes = ordered(graph, names, str(self.file.path))
            self.wanted |= self._wants_channel_last(nodes)
            for proto in nodes:
                if proto.op_type != "Constant":
                    self._import(proto)
            for name in names:
                if name not in self.values and name not in self.poisoned:
                    self.problems.append(self._missing(name, f"{self.file.path}: {self.around[-1]}"))
                if name not in self.values or name in self.poisoned:
                    raise Unsettled
            return [self.values[name] for name in names]
        finally:
            self.values, self.poisoned, self.absent, self.builder.node, self.applying = saved

    def apply(self, type: str, inputs: Sequence[Value], **attributes: Any) -> Value:
        """Import a node of one output that the source does not have, on behalf of the current one.

        Raises:
            Unsettled: If it cannot be imported; the problem has been reported.
        """
        return self.apply_many(type, inputs, 1, **attributes)[0]

    def apply_many(self, type: str, inputs: Sequence[Value], count: int, **attributes: Any) -> list[Value]:
        """Import a node of ``count`` outputs that the source does not have, as ``apply`` does."""
        from onnx import helper

        self.applied += 1
        name = f"{self.builder.node}_{type.lower()}_{self.applied}"
        names = [f"{name}~{index}" for index in range(len(inputs))]
        results = [name] if count == 1 else [f"{name}_{index}" for index in range(count)]
        proto = helper.make_node(type, names, results, name=name, **attributes)
        saved = self.opsets, self.applying
        self.opsets, self.applying = {**self.opsets, "": HOST_OPSET}, True
        self.values.update(zip(names, inputs, strict=True))
        try:
            self._import(proto)
        finally:
            self.opsets, self.applying = saved
        if not self.poisoned.isdisjoint(results):
            raise Unsettled
        return [self.values.tensor(result) for result in results]

    def size_of(self, graph: Any) -> int:
        """Return the number of nodes that a ``GraphProto`` comes to, its functions expanded."""
        return self.expansion.size(graph)

    def spend(self, nodes: int) -> bool:
        """Return whether that many nodes may be added by unrolling, and count them if so."""
        return self.budget.unrolled_nodes.take(nodes)

    def list_elements(self, count: int) -> bool:
        """Return whether sequences may list that many elements more, and count them if so."""
        return self.budget.sequence_elements.take(count)

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

    # ------------------------------------------------------------------ what no importer takes

    def _by_body(self, proto: Any, node: Node) -> bool:
        """Import the function body of a standard operator; return whether that settled it.

        A body that fails, or itself needs ops of the host, counts only where the host has no kernel for
        the operator as a whole.
        """
        keeps = host_only.can_keep(node.type, node.domain)
        if keeps and any(value.is_dynamic for value in node.inputs if value is not None):
            return False
        body = functions.body(proto, node.opset, node.inputs)
        if body is None:
            return False
        last, problems, poisoned = self.builder.graph.last, len(self.problems), set(self.poisoned)
        self._expand(body, proto, node)
        added = self.builder.graph.since(last)
        failed = len(self.problems) > problems
        if keeps and (failed or any(op.package == ir.HOST_PACKAGE for op in added)):
            del self.problems[problems:]
            self.poisoned = poisoned
            for name in proto.output:
                self.values.pop(name, None)
            return False
        return True

    def _expand(self, function: Any, proto: Any, node: Node) -> None:
        """Import the nodes of a function's body in place of a node."""
        if len(self.callers) >= functions.DEPTH:
            raise node.problem(
                f"functions call one another more than {functions.DEPTH} deep",
                "inline the functions with onnx.inliner; a function must not call itself",
            )
        opsets, self.opsets = self.opsets, function_opsets(function, self.opsets)
        self.callers.append(f"{node.type} {name_of(proto)!r}")
        try:
            for inner in functions.expanded(function, proto, f"{name_of(proto)}~{self.expanded}"):
                self.expanded += 1
                self._import(inner)
        finally:
            self.callers.pop()
            self.opsets = opsets

    def _keep(self, proto: Any, node: Node, refusal: UnsupportedOp, where: str) -> None:
        """Keep a node as an op of the host.

        Raises:
            UnsupportedOp: ``refusal``, if the host cannot execute it either.
        """
        if not host_only.can_keep(node.type, node.domain):
            raise refusal
        successor = upgrades.rewritten(node)
        if successor is not None:
            self._expand(successor, proto, node)
            return
        try:
            specs = self.inference.outputs(proto, node.opset, node.inputs)
            results = host_only.keep(node, self.builder, specs, refusal.problem)
        except XdlcError as problem:
            raise UnsupportedOp(
                f"{refusal.problem}; nor can the host take it: {problem.problem}", fix=problem.fix
            ) from problem
        self._accept(proto, results, where)

    def _attribute(self, attribute: Any) -> Any:
        value = protobuf.attribute_value(attribute)
        if attribute.type == protobuf.TENSOR_ATTRIBUTE:
            return self.file.data(value)
        return self._dense(value) if attribute.type == protobuf.SPARSE_ATTRIBUTE else value

    def _poison(self, proto: Any, problem: XdlcError) -> None:
        problem.node = self.builder.node if self.callers else name_of(proto)
        problem.op = proto.op_type
        self.problems.append(problem)
        self.poisoned.update(proto.output)

    def _fold(self, proto: Any, where: str) -> bool:
        """Evaluate a node of known inputs; return whether its outputs are settled."""
        inputs = [self.values.tensor(key).tensor.data if key else None for key in proto.input]
        try:
            results = self.folding.evaluate(proto, self.opsets.get("", 0), inputs, where)
        except XdlcError as problem:
            self._poison(proto, problem)
            return True
        if results is None:
            return False
        for name, array in zip(proto.output, results, strict=True):
            if name and array is not None:
                self.values[name] = self.builder.const(array, name)
        return True

    def _missing(self, name: str, where: str) -> XdlcError:
        if name in self.absent:
            return UnsupportedOp(
                f"its output {name!r} is used, which QNN does not offer",
                where=self.absent[name],
                fix="export the model for inference, without the ops that read it",
            )
        return ModelError(
            f"reads {name!r}, which nothing produces", where=where, fix="export the model again"
        )

    def _unsupported(self, domain: str, type: str, opset: int, where: str) -> UnsupportedOp:
        versions = load_all().get((domain, type))
        if versions:
            oldest = versions[-1].since
            return UnsupportedOp(
                f"{type} is imported from opset {oldest} on, found opset {opset}",
                where=where,
                fix=f"upgrade the model with onnx.version_converter to opset {oldest} or newer",
            )
        full = f"{domain}::{type}" if domain else type
        return UnsupportedOp(
            f"operator {full} has no mapping onto QNN operations",
            where=where,
            fix="rewrite this part of the model, or cut the graph before it with --out_name",
        )

    def _name_result(self, value: Value, name: str) -> None:
        """Give the tensor that a node just made the name that the source has for it."""
        tensor, graph = value.tensor, self.builder.graph
        op = tensor.producer
        if op is None or op.origin.nodes[-1:] != (self.builder.node,) or tensor.name not in graph.tensors:
            return
        if tensor.name.startswith(op.name) and name not in graph.tensors and not op.origin.reason:
            graph.rename(tensor, name)

    # ------------------------------------------------------------------ after the nodes

    def _copied(self, name: str, tensor: ir.Tensor, value: Value) -> ir.Tensor:
        """Return a tensor of its own for an output that shares one with something else."""
        self.builder.node = name + COPY
        why = f"output {name!r} is a scalar, an input, a constant or another output"
        if value.is_dynamic:
            copy = self.builder.unary("Identity", value, package=ir.HOST_PACKAGE).tensor
            if copy.producer is not None:
                copy.producer.origin = ir.Origin(copy.producer.origin.nodes, why)
            return copy
        return self.builder.emit(
            "Reshape", [tensor], value.shape, tensor.dtype, encoding=tensor.encoding, why=why
        )

    def _output(self, name: str) -> None:
        builder, graph = self.builder, self.builder.graph
        value = self.values.tensor(name)
        builder.node = name
        self._note_layout(name, value)
        tensor = value.scalar or builder.physical(
            value, identity(value.rank), why=f"output {name!r} keeps the source's axis order"
        )
        if tensor.producer is None or graph.is_output(tensor) or tensor.rank != value.rank:
            tensor = self._copied(name, tensor, value)
        if tensor.name != name:
            holder = graph.tensors.get(name)
            if holder is not None:
                if holder.role is ir.Role.INPUT:
                    raise ModelError(f"{name!r} names an input and an output", where=str(self.file.path))
                graph.rename(holder, graph.unique_name(f"{name}_inner"))
            graph.rename(tensor, name)
        graph.add_output(tensor)


def function_opsets(function: Any, opsets: Mapping[str, int]) -> dict[str, int]:
    """Return the operator versions inside a function: its own, then those of the model."""
    own = {plain_domain(entry.domain): entry.version for entry in function.opset_import}
    return {**opsets, **own}


def _takes_open(entry: Entry, node: Node) -> bool:
    """Return whether an importer can work with what is known of the shapes of a node's inputs."""
    values = [value for value in node.inputs if value is not None and value.is_dynamic]
    return not values or (entry.dynamic and all(value.ranked for value in values))


_BIND = "bind the open dimensions with --input_dim, --define_symbol or --batch"
