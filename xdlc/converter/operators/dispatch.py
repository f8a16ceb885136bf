"""Dispatch of nodes: UDO, handler, folding, importer, function body, host op."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, cast

from xdlc import ir
from xdlc.converter.builder import Builder, Operand
from xdlc.converter.operators import functions, host_only, upgrades
from xdlc.converter.operators.bodies import GraphBody
from xdlc.converter.operators.folding import Folding, foldable
from xdlc.converter.operators.inference import check, infer
from xdlc.converter.operators.protobuf import MessageReader, opsets
from xdlc.converter.operators.random_inputs import draw_outside, import_random, is_random
from xdlc.converter.operators.registry import Entry, Handler, Handlers, entries, find
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.session.context import DEPTH, Assumed, ImportContext, Unresolved
from xdlc.converter.session.node import CONTRADICTION, Node, SourceGraph, bind_dims, cut_before
from xdlc.converter.session.ordering import SOURCE, Step, ordered, wants_channel_last
from xdlc.converter.values import AnyValue, Spec, Value
from xdlc.errors import ModelError, UnsupportedOp, XdlcError, nearest_names
from xdlc.ir.dtype import INT64
from xdlc.options.graphs import UNROLL_LOOPS
from xdlc.runtime.dynamic_dims import REASON
from xdlc.runtime.host_kernels import HOST_OPSET, opset_of

_TRAINING = "ai.onnx.preview.training"
_RANDOM = "the result is random"
_STORED = "; --random as-input makes it an input"
"""End of the reason of a random op in the DLC."""
_MOST_NEAR = 64
"""Most operators without a mapping whose nearest names are looked for, which takes a millisecond each."""


class Override(Protocol):
    """A way to import nodes that precedes all others: UDO definitions."""

    def covers(self, node: Node) -> bool:
        """Return whether a node may be imported in this way, judged by its operator."""

    def covers_surely(self, node: Node) -> bool:
        """Return whether a node is certainly imported in this way."""

    def import_node(self, node: Node, where: str) -> bool:
        """Bind the outputs of a node; return whether that was done."""

    def uncovered(self, node: Node, where: str) -> str:
        """Record a node whose operator has no mapping; return a fix, or an empty text."""


class Operators:
    """The operators of an import: those of the source and the canonical ones.

    Args:
        nbytes: Returns the size of the source, in proportion to which constants are folded.
        unroll_loops: Most iterations of a loop that are unrolled.
        random_inputs: Whether random numbers become inputs.
        handlers: Handlers of the nodes of the source; default: all of its nodes are canonical operators.
        override: Precedes handlers and canonical operators for nodes of the source.
        inferred: Returns what is known of values from the source as a whole, by name.

    Attributes:
        unroll_loops: Most iterations of a loop that are unrolled.
        random_inputs: Whether random numbers become inputs.
        assumptions: What is assumed of the states of a loop, by its path.
        read: Names that nodes of the source read; other outputs need no value.
    """

    def __init__(
        self,
        context: ImportContext,
        nbytes: Callable[[], int] = int,
        *,
        unroll_loops: int = UNROLL_LOOPS,
        random_inputs: bool = False,
        handlers: Handlers | None = None,
        override: Override | None = None,
        inferred: Callable[[], Mapping[str, Spec]] = dict,
    ) -> None:
        self.context = context
        self.unroll_loops = unroll_loops
        self.assumptions: dict[tuple[str, ...], Assumed] = {}
        self.read: Collection[str] = ()
        self.random_inputs = random_inputs
        self._handlers = handlers
        self._override = override
        self._inferred = inferred
        self._nbytes = nbytes
        self._near: dict[str, str] = {}
        self._applied = 0
        self._expanded = 0

    @cached_property
    def _folding(self) -> Folding:
        return Folding(self._nbytes)

    @property
    def builder(self) -> Builder:
        """Adds to the graph under construction."""
        return self.context.frame.builder

    # ------------------------------------------------------------------ operators of importers and handlers

    def __call__(self, type: str, inputs: Sequence[Operand | None], **attributes: Any) -> Value:
        """Apply a default-domain operator with a single output, like ``apply``."""
        return self.apply(type, inputs, attributes)[0]

    def apply(
        self,
        type: str,
        inputs: Sequence[Operand | None],
        attributes: Mapping[str, Any] | None = None,
        outputs: int = 1,
        *,
        domain: str = "",
        names: Sequence[str] = (),
    ) -> list[Value]:
        """Return the outputs of an operator, on behalf of the current node of the source.

        Args:
            type: ONNX operator, of the newest version that the host follows.
            inputs: Its inputs by position; None for an omitted input.  Numbers have the data type of the
                first value, not of a condition; integers in a list are int64.
            attributes: Numbers, strings, lists of these, ``TensorData``, or ``Body`` for a graph.
            outputs: Number of outputs wanted.
            names: Names of the outputs; default: made from the current node's.

        Raises:
            XdlcError: If it cannot be imported.
            Unresolved: If something inside it cannot; the problem has been reported.
        """
        results = self.apply_any(type, inputs, attributes, outputs, domain=domain, names=names)
        if not all(isinstance(result, Value) for result in results):
            raise TypeError(f"{type} returns a sequence or an optional")
        return cast("list[Value]", results)

    def apply_any(
        self,
        type: str,
        inputs: Sequence[AnyValue | Operand | None],
        attributes: Mapping[str, Any] | None = None,
        outputs: int = 1,
        *,
        domain: str = "",
        names: Sequence[str] = (),
    ) -> list[AnyValue]:
        """Return the outputs of an operator like ``apply``; sequences are allowed."""
        context = self.context
        inputs = self._values(type, inputs)
        name = names[0] if names else self._free_name(type)
        operands = ["" if value is None else f"{name}~{index}" for index, value in enumerate(inputs)]
        results = names or ([name] if outputs == 1 else [f"{name}_{index}" for index in range(outputs)])
        values = context.values
        for key, value in zip(operands, inputs, strict=True):
            if value is not None:
                values[key] = value
        opset = opset_of(type, domain)
        node = Node(type, operands, results, dict(attributes or {}), name, domain, opset, is_applied=True)
        node.inputs = cast("list[Value | None]", list(inputs))
        with context.entered(stands_in=True):
            self._import(node, context.place(node))
        if not context.frame.unresolved.isdisjoint(results):
            raise Unresolved
        found = [values[result] for result in results]
        if not names:  # nothing reads them by name
            for key in (*operands, *results):
                values.pop(key, None)
        return found

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Return the result of Transpose, which needs a node for open dimensions only.

        Raises:
            ModelError: If the order does not fit the axes.
        """
        if x.is_dynamic:
            return self("Transpose", [x], perm=list(perm))
        if sorted(perm) != list(range(x.rank)):
            raise ModelError(f"perm {list(perm)} does not fit an input of rank {x.rank}", fix=CONTRADICTION)
        self._applied += 1
        return self.builder.transpose(x, perm)

    def _values(self, type: str, inputs: Sequence[AnyValue | Operand | None]) -> list[AnyValue | None]:
        """Return inputs with constants in place of literals."""
        own = inputs[1:] if type == "Where" else inputs
        like = next((item.dtype for item in own if isinstance(item, Value)), INT64)
        return [
            item if item is None or isinstance(item, AnyValue) else self.builder.operand(item, like)
            for item in inputs
        ]

    def _free_name(self, type: str) -> str:
        self._applied += 1
        return f"{self.context.frame.builder.node}_{type.lower()}_{self._applied}"

    # ------------------------------------------------------------------ nodes of graphs

    def ordered(self, graph: SourceGraph, ends: Sequence[str]) -> list[Node]:
        """Return the needed nodes of a graph, producers first; note wanted layouts.

        Raises:
            ModelError: If two nodes produce a value, or a node needs its own result.
        """
        steps = [Step(node.own_name, node.reads(), node.outputs) for node in graph.nodes]
        nodes = [graph.nodes[index] for index in ordered(steps, ends, self.context.source.path)]
        self.context.wanted |= wants_channel_last(
            (self._layout(node), node.names, node.outputs) for node in nodes
        )
        return nodes

    def _layout(self, node: Node) -> str:
        override, handler = self._override_of(node), self._handler_of(node)
        if override is not None and override.covers_surely(node):
            return SOURCE
        if handler is not None:
            return handler.layout
        entry = find(node.domain, node.type, node.opset) if node.is_canonical else None
        return SOURCE if entry is None else entry.layout

    def import_node(self, node: Node) -> None:
        """Bind the outputs of a node, or report why they have no value."""
        context = self.context
        where = context.place(node)
        if node.type in context.diagnostics.requested:
            override = self._override_of(node)
            if override is not None and not override.covers(node):
                override.uncovered(node, where)
                context.invalidate(node, UnsupportedOp(f"{node.type} is requested", where=where))
                return
        if not context.resolve_inputs(node, where):
            if not self._is_known(node):
                context.invalidate(node, self._no_mapping(node, where))
            return
        with context.reporting(node, where):
            self._import(replace(node, read=set()), where)  # a loop may import it several times

    def _import(self, node: Node, where: str) -> None:
        """Bind the outputs of a node with known inputs in the first possible way.

        Raises:
            XdlcError: If no way is left.
        """
        context, is_canonical = self.context, node.is_canonical
        if is_canonical and self._fold(node):
            return
        is_own = context.frame.owner is None
        handler, override = (self._handler_of(node), self._override) if is_own else (None, None)
        if handler is None and not is_canonical and not self._is_known(node):
            raise self._no_mapping(node, where)
        has_graphs = bool(node.attributes and node.graphs())
        try:
            context.begin(node)
        except XdlcError:
            if self._is_known(node):
                raise
            raise self._no_mapping(node, where) from None
        if has_graphs:
            node.attributes = {name: self._opened(value) for name, value in node.attributes.items()}
        if is_canonical:
            self._bind(node, where, override, handler)
        else:
            with context.entered(owner=node, stands_in=True):
                self._bind(node, where, override, handler)

    def _opened(self, attribute: Any) -> Any:
        """Return an attribute with bodies in place of graphs."""
        if isinstance(attribute, list):
            return [self._opened(item) for item in attribute]
        return GraphBody(self, attribute) if isinstance(attribute, SourceGraph) else attribute

    def _bind(self, node: Node, where: str, override: Override | None, handler: Handler | None) -> None:
        """Bind the outputs of a node whose attributes are read.

        Raises:
            XdlcError: If that is not possible.
        """
        if override is not None and override.import_node(node, where):
            return
        if handler is not None:
            self._by_handler(handler, node, where)
        elif node.is_canonical:
            self._by_operator(node, where)
        else:
            raise self._no_mapping(node, where)

    def _by_handler(self, handler: Handler, node: Node, where: str) -> None:
        """Bind the results of a handler, unless it has bound them itself."""
        results = handler.function(node, self)
        if results is None:
            return
        assert self._handlers is not None  # the handler is one of them
        node.check_read(handler.ignores.union(filter(self._handlers.is_optional, node.attributes)))
        self.context.accept(node, list(results) if isinstance(results, Sequence) else [results], where)
        self.context.resolve_stated(node)

    def size(self, node: Node) -> int:
        """Return the number of nodes that a node expands to, without its graphs."""
        return 1 if self._handlers is None else self._handlers.size(node)

    # ------------------------------------------------------------------ ways to import a node

    def _override_of(self, node: Node) -> Override | None:
        """Return the override of a node of the source; None if a handler applies the node."""
        return self._override if self.context.frame.owner is None else None

    def _handler_of(self, node: Node) -> Handler | None:
        """Return the handler of a node of the source; None if a handler applies the node."""
        if self._handlers is None or self.context.frame.owner is not None:
            return None
        return self._handlers.of(node)

    def _is_overridden(self, node: Node) -> bool:
        override = self._override_of(node)
        return (override is not None and override.covers(node)) or self._handler_of(node) is not None

    def _is_known(self, node: Node) -> bool:
        """Return whether an operator can be imported, judged by its name."""
        return self._is_overridden(node) or (
            node.is_canonical
            and (
                find(node.domain, node.type, node.opset) is not None
                or (self.random_inputs and is_random(node))
                or host_only.can_keep(node.type, node.domain)
                or functions.has_body(node.type, node.domain, node.opset)
            )
        )

    def _no_mapping(self, node: Node, where: str) -> UnsupportedOp:
        """Return the error for an operator, or operator version, without a mapping."""
        override, versions = self._override_of(node), entries(node.domain, node.type)
        if node.is_canonical and versions:
            return _too_old(node, versions, where)
        refusal = unmapped(node, where)
        if not node.is_canonical and self._handlers is not None:
            reason = "" if node.domain else self._handlers.reason(node.type)
            near = self._nearest(node.type)
            refusal.problem += f": {reason}" if reason else ""
            refusal.fix = f"{near}; or {refusal.fix}" if near and not reason else refusal.fix
        advice = "" if override is None else override.uncovered(node, where)
        refusal.fix = f"{advice}; or {refusal.fix}" if advice else refusal.fix
        return refusal

    def _nearest(self, type: str) -> str:
        """Return a fix that names similar operators of the source, or an empty text."""
        if type not in self._near and len(self._near) < _MOST_NEAR and self._handlers is not None:
            names = [name for _, name in self._handlers.all()]
            self._near[type] = nearest_names(type, names, most=1, cutoff=0.85)
        return self._near.get(type, "")

    # ------------------------------------------------------------------ canonical operators

    def _fold(self, node: Node) -> bool:
        """Evaluate a node with static inputs; return whether its outputs are bound."""
        if not all(value is None or value.is_static for value in node.inputs) or not foldable(node):
            return False
        results = None if self._is_overridden(node) else self._folding.evaluate(node)
        if results is None:
            return False
        for name, array in zip(node.outputs, results, strict=True):
            if name and array is not None:
                self.context.values[name] = self.builder.const(array, name)
        return True

    def _by_operator(self, node: Node, where: str) -> None:
        """Bind the outputs of a canonical operator.

        Raises:
            XdlcError: If it cannot be imported.
        """
        if self.random_inputs and is_random(node):
            import_random(self, node, where)
            return
        entry = find(node.domain, node.type, node.opset)
        if entry is not None and entry.is_structural:
            with self.context.inside(node):
                self.context.accept(node, entry.function(node, self), where)
            node.check_read()
            return
        if self._passes_on(node, where):
            return
        refusal = self._by_importer(entry, node, where)
        if refusal is not None and not self._by_body(node):
            self._keep(node, refusal, where)

    def _passes_on(self, node: Node, where: str) -> bool:
        """Bind the output of an Identity of a sequence or optional; return whether done.

        Raises:
            UnsupportedOp: If another node reads a sequence or an optional.
        """
        values: list[AnyValue | None] = [*node.inputs]
        for index, value in enumerate(values):
            if value is None or isinstance(value, Value):
                continue
            if node.type == "Identity" and not node.domain:
                self.context.accept(node, [value], where)
                return True
            tensor_of(node, value, f"input {index}")
        return False

    def _by_importer(self, entry: Entry | None, node: Node, where: str) -> UnsupportedOp | None:
        """Map a node onto QNN operations; return why that cannot be done, if so."""
        if entry is None:
            return self._no_mapping(node, where)
        builder = self.builder
        rollback = builder.checkpoint()
        try:
            if not _takes_dynamic(entry, node):
                raise node.problem(REASON, bind_dims())
            results = entry.function(node, self)
            node.check_read(entry.ignores)
            values = [results] if isinstance(results, Value) else list(results)
            self._check_offered(node, len(values))
            self.context.accept(node, values, where)
            return None
        except UnsupportedOp as refusal:
            rollback()
            for name in entry.ignores:
                if not functions.has_attribute(node.type, node.domain, name):
                    node.attributes.pop(name, None)
            return refusal

    def _check_offered(self, node: Node, count: int) -> None:
        """Refuse an importer's results if a node reads a missing output."""
        frame = self.context.frame
        for name in node.outputs[count:]:
            if name and (frame.callers or frame.stands_in or name in self.read):
                raise node.problem(
                    f"its output {name!r} is read, but QNN does not compute it",
                    "export the model for inference, without the ops that read this output",
                )

    def _by_body(self, node: Node) -> bool:
        """Import the body of a standard function; return whether outputs are bound.

        A body that fails, or itself needs ops of the host, counts only where the host has no kernel for
        the operator as a whole.
        """
        keeps = host_only.can_keep(node.type, node.domain)
        if keeps and any(value.is_dynamic for value in node.inputs if value is not None):
            return False
        body = functions.body(node)
        if body is None:
            return False
        if not node.domain and not node.is_applied:
            check(node)
        context, graph = self.context, self.builder.graph
        last, problems, unresolved = graph.last, len(context.problems), set(context.frame.unresolved)
        rollback, expanded = self.builder.checkpoint(), self._expanded
        self.expand(body, node)
        failed = len(context.problems) > problems
        if keeps and (failed or any(op.package == ir.HOST_PACKAGE for op in graph.since(last))):
            del context.problems[problems:]
            context.frame.unresolved.intersection_update(unresolved)
            self._expanded = expanded
            rollback()
            for name in node.outputs:
                context.values.pop(name, None)
            return False
        return True

    def expand(self, function: Any, node: Node, reader: MessageReader | None = None) -> None:
        """Import the nodes of a ``FunctionProto`` in place of a node.

        Args:
            node: The node that calls it.
            reader: Reads its messages; default: those of a function that ONNX defines.

        Raises:
            UnsupportedOp: If functions nest too deep.
        """
        context = self.context
        if len(context.frame.callers) >= DEPTH:
            raise node.problem(
                f"functions are nested more than {DEPTH} levels deep",
                "inline the functions with onnx.inliner, and remove calls of a function to itself",
            )
        if reader is None:
            reader = MessageReader({"": HOST_OPSET, **opsets(function.opset_import)})
        name = f"{node.own_name}~{self._expanded}"
        reader.declare(function, name)
        with context.function(node):
            for proto in functions.expanded(function, node, name):
                self._expanded += 1
                self.import_node(reader.node(proto))

    def _keep(self, node: Node, refusal: UnsupportedOp, where: str) -> None:
        """Keep a node as an op of the host.

        Raises:
            UnsupportedOp: ``refusal``, if the host cannot execute it either.
        """
        if not host_only.can_keep(node.type, node.domain):
            raise refusal
        successor = upgrades.rewritten(node)
        if successor is not None:
            self.expand(successor, node)
            return
        try:
            reason = refusal.problem + (_STORED if is_random(node) and refusal.problem == _RANDOM else "")
            results = host_only.keep(node, self.builder, infer(node, self._inferred), reason)
        except XdlcError as problem:
            raise UnsupportedOp(
                f"{refusal.problem}; the host cannot run it either: {problem.problem}", fix=problem.fix
            ) from problem
        self.context.accept(node, results, where)


def _takes_dynamic(entry: Entry, node: Node) -> bool:
    """Return whether an importer supports the dynamic input shapes of a node."""
    for value in node.inputs:
        if value is not None and value.is_dynamic and not (entry.dynamic and value.ranked):
            return False
    return True


def _too_old(node: Node, versions: Sequence[Entry], where: str) -> UnsupportedOp:
    """Return the refusal of an operator's version that precedes all importers."""
    oldest = versions[-1].since
    return UnsupportedOp(
        f"{node.type} is imported from opset {oldest} on, found opset {node.opset}",
        where=where,
        fix=f"upgrade the model with onnx.version_converter to opset {oldest} or newer",
    )


def unmapped(node: Node, where: str) -> UnsupportedOp:
    """Return the error for an operator without a mapping."""
    if is_random(node):
        return UnsupportedOp(_RANDOM, where=where, fix=draw_outside(), code="XD402")
    if node.domain == _TRAINING:
        return UnsupportedOp(
            f"operator {node.full_type} is only for training",
            where=where,
            fix=f"export the model for inference, or {cut_before()}",
        )
    return UnsupportedOp(
        f"operator {node.full_type} has no mapping onto QNN operations",
        where=where,
        fix="describe it in a UDO configuration (draft: xdlc udo-config from-model), rewrite this part "
        f"of the model, or {cut_before()}",
        code="XD401",
    )
