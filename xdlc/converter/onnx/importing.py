"""Imports an ONNX graph node by node and collects every problem on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx import protobuf
from xdlc.converter.onnx.folding import evaluate, foldable
from xdlc.converter.onnx.registry import ANY, CHANNEL_LAST, Entry, Node, find, load_all
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.values import Value, channel_last, identity
from xdlc.errors import ModelError, UnsupportedOp, UsageError, XdlcError, nearest_names, raise_all


def import_graph(
    file: OnnxFile,
    input_shapes: Mapping[str, Sequence[int]],
    out_names: Sequence[str] | None = None,
) -> ir.Graph:
    """Return the IR of a model's main graph.

    Args:
        file: The opened model.
        input_shapes: Concrete shape of every graph input.
        out_names: Values to end at; default: the model's outputs.

    Raises:
        XdlcError: All problems of the model, together.
    """
    return _Import(file, out_names).run(input_shapes)


class _Import:
    def __init__(self, file: OnnxFile, out_names: Sequence[str] | None) -> None:
        self.file = file
        self.source = file.proto.graph
        self.out_names = list(out_names or [output.name for output in self.source.output])
        self.builder = Builder(ir.Graph(self.source.name or "main"))
        self.values: dict[str, Value] = {}
        self.poisoned: set[str] = set()
        self.absent: dict[str, str] = {}
        self.wanted: set[str] = set()
        self.problems: list[XdlcError] = []
        self.opset = file.opsets.get("", 0)

    def run(self, input_shapes: Mapping[str, Sequence[int]]) -> ir.Graph:
        where = str(self.file.path)
        nodes = self._ordered()
        self._initializers()
        self.wanted = self._wants_channel_last(nodes)
        self._inputs(input_shapes)
        for node in nodes:
            self._import(node)
        for name in self.out_names:
            if name in self.absent:
                self.problems.append(self._missing(name, where))
            elif name not in self.values and name not in self.poisoned:
                known = [output for node in nodes for output in node.output]
                self.problems.append(
                    UsageError(
                        f"there is no value {name!r}", where=where, fix=nearest_names(name, known) or None
                    )
                )
        raise_all(self.problems, where=where)
        for name in self.out_names:
            self._output(name)
        return self.builder.graph

    # ------------------------------------------------------------------ before the nodes

    def _ordered(self) -> list[Any]:
        """Return the nodes that the outputs need, producers first."""
        producer: dict[str, Any] = {}
        for node in self.source.node:
            for name in node.output:
                if name and producer.setdefault(name, node) is not node:
                    raise ModelError(
                        f"two nodes produce {name!r}",
                        where=str(self.file.path),
                        fix="export the model again: every value has one source",
                    )
        done: dict[int, bool] = {}
        ordered: list[Any] = []
        stack: list[tuple[Any, bool]] = [
            (producer[name], False) for name in reversed(self.out_names) if name in producer
        ]
        while stack:
            node, finished = stack.pop()
            if finished:
                done[id(node)] = True
                ordered.append(node)
                continue
            if id(node) in done:
                continue
            done[id(node)] = False
            stack.append((node, True))
            for name in reversed(node.input):
                needed = producer.get(name)
                if needed is None:
                    continue
                if done.get(id(needed)) is False:
                    raise ModelError(
                        f"node {_name(needed)!r} needs its own result, by way of {_name(node)!r}",
                        where=str(self.file.path),
                        fix="a graph must have no cycle: export the model again",
                    )
                if id(needed) not in done:
                    stack.append((needed, False))
        position = {id(node): index for index, node in enumerate(self.source.node)}
        return sorted(ordered, key=lambda node: position[id(node)]) if self._is_sorted(ordered) else ordered

    def _is_sorted(self, nodes: list[Any]) -> bool:
        """Return whether the file lists producers first, as it should."""
        chosen = {id(node) for node in nodes}
        pending = {name for node in nodes for name in node.output}
        for node in self.source.node:
            if id(node) in chosen:
                if any(name in pending for name in node.input):
                    return False
                pending.difference_update(node.output)
        return True

    def _initializers(self) -> None:
        builder = self.builder
        for proto in self.source.initializer:
            try:
                self.values[proto.name] = builder.const(self.file.data(proto), proto.name)
            except XdlcError as problem:
                self.problems.append(problem)
                self.poisoned.add(proto.name)
            except TypeError as error:
                self.problems.append(
                    UnsupportedOp(str(error), where=f"{self.file.path}: tensor {proto.name!r}")
                )
                self.poisoned.add(proto.name)
        if self.source.sparse_initializer:
            self.problems.append(
                UnsupportedOp(
                    f"{len(self.source.sparse_initializer)} sparse initializer(s)",
                    where=str(self.file.path),
                    fix="store the weights densely",
                )
            )

    def _inputs(self, shapes: Mapping[str, Sequence[int]]) -> None:
        for entry in self.source.input:
            if entry.name in self.values or entry.name in self.poisoned:
                continue  # an initializer with a declared type
            elem = entry.type.tensor_type.elem_type
            try:
                dtype = ir.dtype.from_numpy(protobuf.numpy_dtype(elem))
                if not entry.type.HasField("tensor_type"):
                    raise TypeError("it is no tensor")
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
            tensor = self.builder.graph.add_input(ir.Tensor(entry.name, tuple(shapes[entry.name]), dtype))
            value = Value(tensor, identity(tensor.rank))
            if not tensor.rank:
                self.builder.node = entry.name
                value.tensor = self.builder.emit(
                    "Reshape", [tensor], (1,), dtype, why="backends refuse rank 0"
                )
            if entry.name in self.wanted and tensor.rank >= 3:
                self.builder.node = entry.name
                order = channel_last(tensor.rank)
                lying = self.builder.physical(
                    value, order, why=f"input {entry.name!r} is channel-first, the graph works channel-last"
                )
                value = Value(lying, order, {identity(tensor.rank): tensor})
            self.values[entry.name] = value

    def _wants_channel_last(self, nodes: Sequence[Any]) -> set[str]:
        """Return the values that reach a channel-last op through ops that take any order."""
        load_all()
        wanted: set[str] = set()
        for node in reversed(nodes):
            entry = find(_domain(node), node.op_type, self.file.opsets.get(_domain(node), 1))
            if entry is None:
                continue
            if entry.layout == CHANNEL_LAST:
                wanted.add(node.input[0])
            elif entry.layout == ANY and any(name in wanted for name in node.output):
                wanted.update(name for name in node.input if name)
        return wanted

    # ------------------------------------------------------------------ nodes

    def _import(self, proto: Any) -> None:
        node_inputs = [name for name in proto.input if name]
        domain = _domain(proto)
        opset = self.file.opsets.get(domain, 1)
        entry = find(domain, proto.op_type, opset)
        name = _name(proto)
        where = f"{self.file.path}: node {name!r} ({proto.op_type}, opset {opset})"
        known = all(key in self.values for key in node_inputs)
        static = known and all(self.values[key].is_static for key in node_inputs)
        if static and foldable(proto) and self._fold(proto, where):
            return
        if entry is None:
            self.problems.append(self._unsupported(proto, domain, opset, where))
        elif not known and not any(key in self.poisoned for key in node_inputs):
            missing = next(key for key in node_inputs if key not in self.values)
            self.problems.append(self._missing(missing, where))
        elif known:
            self._call(proto, domain, opset, entry, where)
            return
        self.poisoned.update(proto.output)

    def _call(self, proto: Any, domain: str, opset: int, entry: Entry, where: str) -> None:
        builder = self.builder
        builder.node = _name(proto)
        builder.wants_channel_last = not self.wanted.isdisjoint(proto.output)
        node = Node(
            builder.node,
            proto.op_type,
            domain,
            opset,
            [self.values[key] if key else None for key in proto.input],
            list(proto.output),
            {attribute.name: self._attribute(attribute) for attribute in proto.attribute},
        )
        try:
            results = entry.function(node, builder)
            unread = node.attributes.keys() - node.read - entry.ignores - {"consumed_inputs"}
            if unread:
                raise node.problem(
                    f"attribute {', '.join(sorted(unread))} is not understood here",
                    "remove the attribute if it has no effect, or rewrite the node",
                )
            results = [results] if isinstance(results, Value) else list(results)
        except UnsupportedOp as problem:
            problem.where = where
            self._poison(proto, problem)
            return
        except XdlcError as problem:
            problem.where = problem.where or where
            self._poison(proto, problem)
            return
        except (ValueError, IndexError, TypeError) as error:
            self._poison(
                proto,
                ModelError(
                    f"its inputs do not fit the operator: {error}",
                    where=where,
                    fix="check the model with onnx.checker; if it is valid, please report this",
                ),
            )
            return
        for name, value in zip(proto.output, results, strict=False):
            if name:
                self._name_result(value, name)
                self.values[name] = value
        self.absent.update((name, where) for name in proto.output[len(results) :] if name)

    def _attribute(self, attribute: Any) -> Any:
        value = protobuf.attribute_value(attribute)
        return self.file.data(value) if attribute.type == protobuf.TENSOR_ATTRIBUTE else value

    def _poison(self, proto: Any, problem: XdlcError) -> None:
        self.problems.append(problem)
        self.poisoned.update(proto.output)

    def _fold(self, proto: Any, where: str) -> bool:
        """Evaluate a node of known inputs; return whether its outputs are settled."""
        inputs = [self.values[key].numpy() if key else None for key in proto.input]
        try:
            results = evaluate(proto, self.opset, inputs, where)
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

    def _unsupported(self, proto: Any, domain: str, opset: int, where: str) -> XdlcError:
        versions = load_all().get((domain, proto.op_type))
        if versions:
            oldest = versions[-1].since
            return UnsupportedOp(
                f"{proto.op_type} is imported from opset {oldest} on, found opset {opset}",
                where=where,
                fix=f"upgrade the model with onnx.version_converter to opset {oldest} or newer",
            )
        full = f"{domain}::{proto.op_type}" if domain else proto.op_type
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

    def _output(self, name: str) -> None:
        builder, graph = self.builder, self.builder.graph
        value = self.values[name]
        builder.node = name
        tensor = builder.physical(
            value, identity(value.rank), why=f"output {name!r} keeps the source's axis order"
        )
        if tensor.producer is None or graph.is_output(tensor) or not value.rank:
            builder.node = f"{name}_copy"
            tensor = builder.emit(
                "Reshape",
                [tensor],
                value.shape,
                tensor.dtype,
                encoding=tensor.encoding,
                why=f"output {name!r} is a scalar, an input, a constant or another output",
            )
        if tensor.name != name:
            holder = graph.tensors.get(name)
            if holder is not None:
                if holder.role is ir.Role.INPUT:
                    raise ModelError(f"{name!r} names an input and an output", where=str(self.file.path))
                graph.rename(holder, graph.unique_name(f"{name}_inner"))
            graph.rename(tensor, name)
        graph.add_output(tensor)


def _domain(node: Any) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


def _name(node: Any) -> str:
    return str(node.name) or next((name for name in node.output if name), node.op_type)
