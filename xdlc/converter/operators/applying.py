"""Imports one node: by its function, its importer, the body that defines it, or as an op of the host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.converter.emitter import Noted
from xdlc.converter.onnx.expansion import Expansion
from xdlc.converter.onnx.inner_graphs import InnerGraphs
from xdlc.converter.onnx.nodes import domain_of, key_of, name_of, plain_domain
from xdlc.converter.onnx.roundtrip_metadata import hint_of
from xdlc.converter.operators import control_flow, functions, host_only, sequences, upgrades
from xdlc.converter.operators.control_flow.interface import Importer
from xdlc.converter.operators.folding import Folding, foldable
from xdlc.converter.operators.inference import Inference
from xdlc.converter.operators.registry import Entry, Node, find, load_all
from xdlc.converter.session.context import State
from xdlc.converter.session.scope import Unsettled
from xdlc.converter.udo.nodes import CustomNodes
from xdlc.converter.values import AnyValue, Value
from xdlc.errors import ModelError, UnsupportedOp, XdlcError, each_problem
from xdlc.runtime.dynamic_dims import REASON

_BIND = "bind the open dimensions with --input_dim, --define_symbol or --batch"


class NodeImport:
    """Imports nodes, each once its inputs stand for something.

    Args:
        state: The import.
        expansion: Knows what graphs come to.
        input_shapes: Shape of every graph input, None for open extents.
        customs: Imports nodes whose operators the user defines.
        read: Names of the values that something reads.
        unroll_loops: Most iterations of a loop that are put one after the other.
    """

    def __init__(
        self,
        state: State,
        expansion: Expansion,
        input_shapes: Mapping[str, Sequence[int | None]],
        customs: CustomNodes,
        read: Collection[str],
        unroll_loops: int,
    ) -> None:
        file = state.file
        self._state = state
        self._read = read
        self._graphs = InnerGraphs(state, self.import_node, expansion, unroll_loops)
        self._inference = Inference(file, input_shapes)
        self._custom = customs
        self._folding = Folding(file.nbytes)
        self._functions = {
            (plain_domain(function.domain), function.name, function.overload): function
            for function in file.proto.functions
        }
        self._expanded = 0

    def import_node(self, proto: Any) -> None:
        """Give the outputs of a ``NodeProto`` values, or report why they have none."""
        state, domain = self._state, domain_of(proto)
        opset = state.opsets.get(domain, 1)
        where = state.place(proto, opset)
        if proto.op_type in state.findings.asked and not self._custom.candidates(proto):
            state.findings.uncovered.append(self._custom.describe(proto, where))
            state.poison(proto, UnsupportedOp(f"{proto.op_type} is asked for", where=where))
            return
        if not self._inputs_known(proto, domain, opset, where):
            return
        static = all(state.values[name].is_static for name in proto.input if name)
        if static and foldable(proto) and not self._custom.candidates(proto) and self._fold(proto, where):
            return
        try:
            self._settle(proto, self._node_or_refusal(proto, domain, opset, where), where)
        except Unsettled:
            state.poisoned.update(proto.output)
        except XdlcError as found:
            for problem in each_problem(found):
                if problem.where is None or problem.where.startswith("node "):
                    problem.where = where
                state.poison(proto, problem)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError) as error:
            misfit = ModelError(
                f"its inputs do not fit the operator: {error}",
                where=where,
                fix="check the model with onnx.checker; if it is valid, please report this",
            )
            state.poison(proto, misfit)

    def _inputs_known(self, proto: Any, domain: str, opset: int, where: str) -> bool:
        """Return whether all inputs stand for something; if not, the outputs stand for nothing either."""
        state, needed = self._state, [name for name in proto.input if name]
        if not state.poisoned.isdisjoint(needed):
            state.poisoned.update(proto.output)
            if not self._is_known(proto, domain, opset):
                state.poison(proto, self._no_mapping(proto, domain, opset, where))
            return False
        missing = next((name for name in needed if name not in state.values), None)
        if missing is not None:
            state.poison(proto, state.missing(missing, where))
        return missing is None

    def _is_known(self, proto: Any, domain: str, opset: int) -> bool:
        """Return whether there is a way to import an operator, as far as its name tells."""
        return (
            key_of(proto) in self._functions
            or bool(self._custom.candidates(proto))
            or find(domain, proto.op_type, opset) is not None
            or control_flow.find(proto.op_type, domain, opset) is not None
            or sequences.find(proto.op_type, domain) is not None
            or host_only.can_keep(proto.op_type, domain)
            or functions.has_body(proto.op_type, domain, opset)
        )

    def _fold(self, proto: Any, where: str) -> bool:
        """Evaluate a node of known inputs; return whether its outputs are settled."""
        state = self._state
        inputs = [state.values.tensor(key).tensor.data if key else None for key in proto.input]
        try:
            results = self._folding.evaluate(proto, state.opsets.get("", 0), inputs, where)
        except XdlcError as problem:
            state.poison(proto, problem)
            return True
        if results is None:
            return False
        for name, array in zip(proto.output, results, strict=True):
            if name and array is not None:
                state.values[name] = state.builder.const(array, name)
        return True

    def _node_or_refusal(self, proto: Any, domain: str, opset: int, where: str) -> Node:
        """Return a node as importers see it.

        Raises:
            UnsupportedOp: If its operator is not known, whatever its attributes are.
            XdlcError: If an attribute cannot be read.
        """
        try:
            return self._node(proto, domain, opset)
        except XdlcError:
            if self._is_known(proto, domain, opset):
                raise
            raise self._no_mapping(proto, domain, opset, where) from None

    def _node(self, proto: Any, domain: str, opset: int) -> Node:
        """Return a node as importers see it, and let the builder work for it."""
        state, builder = self._state, self._state.builder
        if not state.callers and not state.stands_in:
            hint = hint_of(proto)
            builder.node = name_of(proto)
            if hint is not None:
                builder.noted = Noted(hint.op, hint.type, hint.statics)
                builder.base = builder.stem = hint.node
        builder.wants_channel_last = not state.wanted.isdisjoint(proto.output)
        inputs: list[Any] = [state.values[key] if key else None for key in proto.input]
        attributes = {attribute.name: state.attribute(attribute) for attribute in proto.attribute}
        return Node(builder.node, proto.op_type, domain, opset, inputs, list(proto.output), attributes)

    # ------------------------------------------------------------------ the ways to import a node

    def _settle(self, proto: Any, node: Node, where: str) -> None:
        """Give the outputs of a node values in the first way that there is.

        Raises:
            XdlcError: If there is none.
        """
        if self._custom.import_node(proto, node, where):
            return
        own = self._functions.get(key_of(proto))
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
            _check_read(node)
            return
        sequences.check_tensors(node)
        refusal = self._by_importer(proto, node, where)
        if refusal is not None and not self._by_body(proto, node):
            self._keep(proto, node, refusal, where)

    def _run_graphs(
        self,
        function: Callable[[Importer, Node], list[AnyValue]],
        proto: Any,
        node: Node,
        where: str,
    ) -> None:
        with self._state.inside(proto):
            self._state.accept(proto, function(self._graphs, node), where)

    def _by_importer(self, proto: Any, node: Node, where: str) -> UnsupportedOp | None:
        """Map a node onto QNN operations; return why that cannot be done, if so."""
        entry = find(node.domain, node.type, node.opset)
        if entry is None:
            return self._no_mapping(proto, node.domain, node.opset, where)
        retract = self._state.builder.attempt()
        try:
            if not _takes_open(entry, node):
                raise node.problem(REASON, _BIND)
            results = entry.function(node, self._state.builder)
            _check_read(node, entry.ignores)
            values = [results] if isinstance(results, Value) else list(results)
            self._check_offered(proto, node, len(values))
            self._state.accept(proto, values, where)
            return None
        except UnsupportedOp as refusal:
            retract()
            for name in entry.ignores:
                if not functions.has_attribute(node.type, node.domain, name):
                    node.attributes.pop(name, None)
            return refusal

    def _no_mapping(self, proto: Any, domain: str, opset: int, where: str) -> UnsupportedOp:
        """Return the refusal of an operator, or version of one, that has no importer."""
        if not load_all().get((domain, proto.op_type)):
            self._state.findings.uncovered.append(self._custom.describe(proto, where))
        refusal = _unsupported(domain, proto.op_type, opset, where)
        elsewhere = self._custom.elsewhere(domain, proto.op_type)
        refusal.fix = f"{elsewhere}; or {refusal.fix}" if elsewhere else refusal.fix
        return refusal

    def _check_offered(self, proto: Any, node: Node, count: int) -> None:
        """Refuse an importer's results if something reads an output that is not among them."""
        for name in proto.output[count:]:
            if name and (self._state.callers or name in self._read):
                raise node.problem(
                    f"its output {name!r} is used, which QNN does not offer",
                    "export the model for inference, without the ops that read it",
                )

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
        state, graph = self._state, self._state.builder.graph
        last, problems, poisoned = graph.last, len(state.problems), set(state.poisoned)
        retract, expanded = state.builder.attempt(), self._expanded
        self._expand(body, proto, node)
        failed = len(state.problems) > problems
        if keeps and (failed or any(op.package == ir.HOST_PACKAGE for op in graph.since(last))):
            del state.problems[problems:]
            state.poisoned, self._expanded = poisoned, expanded
            retract()
            for name in proto.output:
                state.values.pop(name, None)
            return False
        return True

    def _expand(self, function: Any, proto: Any, node: Node) -> None:
        """Import the nodes of a function's body in place of a node."""
        state = self._state
        if len(state.callers) >= functions.DEPTH:
            raise node.problem(
                f"functions call one another more than {functions.DEPTH} deep",
                "inline the functions with onnx.inliner; a function must not call itself",
            )
        name = f"{name_of(proto)}~{self._expanded}"
        self._custom.declare((f"{name}/{entry.name}", entry.type) for entry in function.value_info)
        with state.function(proto, functions.opsets(function)):
            for inner in functions.expanded(function, proto, name):
                self._expanded += 1
                self.import_node(inner)

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
            specs = self._inference.outputs(proto, node.opset, node.inputs)
            results = host_only.keep(node, self._state.builder, specs, refusal.problem)
        except XdlcError as problem:
            raise UnsupportedOp(
                f"{refusal.problem}; nor can the host take it: {problem.problem}", fix=problem.fix
            ) from problem
        self._state.accept(proto, results, where)


def _takes_open(entry: Entry, node: Node) -> bool:
    """Return whether an importer can work with what is known of the shapes of a node's inputs."""
    values = [value for value in node.inputs if value is not None and value.is_dynamic]
    return not values or (entry.dynamic and all(value.ranked for value in values))


def _check_read(node: Node, ignores: frozenset[str] = frozenset()) -> None:
    """Refuse attributes that an importer has not asked for."""
    unread = node.attributes.keys() - node.read - ignores - {"consumed_inputs"}
    if unread:
        raise node.problem(
            f"attribute {', '.join(sorted(unread))} is not understood here",
            "remove the attribute if it has no effect, or rewrite the node",
        )


def _unsupported(domain: str, type: str, opset: int, where: str) -> UnsupportedOp:
    """Return the refusal of an operator, or version of one, that has no importer."""
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
        fix="describe it in a UDO configuration (xdlc-udo-config from-model drafts one), rewrite this part "
        "of the model, or cut the graph before it with --out_name",
    )
