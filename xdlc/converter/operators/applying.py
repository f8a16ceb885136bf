"""Application of canonical operators: folding, importer, function body, host op, in this order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import functions, host_only, upgrades
from xdlc.converter.operators.folding import Folding, foldable
from xdlc.converter.operators.inference import Spec, check, infer
from xdlc.converter.operators.messages import MessageReader
from xdlc.converter.operators.random_inputs import FIX, RandomInputs, is_random
from xdlc.converter.operators.registry import Entry, find, find_structural, load_all
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.session.context import DEPTH, ImportContext, Unresolved
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, Value
from xdlc.errors import UnsupportedOp, XdlcError
from xdlc.options.graphs import UNROLL_LOOPS
from xdlc.runtime.dynamic_dims import REASON
from xdlc.runtime.host_kernels import HOST_OPSET, opset_of

if TYPE_CHECKING:
    from xdlc.converter.operators.control_flow.while_loop import Assumed

_BIND = "bind the open dimensions with --input_dim, --define_symbol or --batch"


class Override(Protocol):
    """A way to import a node that precedes the canonical ones: UDO definitions, functions of a model."""

    def covers(self, node: Node) -> bool:
        """Return whether a node may be imported in this way, as far as its operator shows."""

    def import_node(self, node: Node, where: str) -> bool:
        """Bind the outputs of a node; return whether that was done."""


class Operators:
    """The canonical operators, applied to values of one import.

    Args:
        context: The import.
        nbytes: Returns the size of the source, in proportion to which constants are folded.
        unroll_loops: Most iterations of a loop that are unrolled.
        random_inputs: Whether random numbers become inputs.
        overrides: Ways to import a node that precede the canonical ones.
        uncovered: Called with a node, and its place, whose operator has no mapping; returns a fix.
        of_model: Returns what the source states of its values, by name.

    Attributes:
        context: The import.
        unroll_loops: Most iterations of a loop that are unrolled.
        random_inputs: Whether random numbers become inputs.
        assumptions: What is assumed of the states of a loop, by its path.
        reader: Reads the nodes of function bodies; that of an ONNX model also reads its tensors.
        read: Names that nodes of the main graph read; other outputs need no value.
    """

    def __init__(
        self,
        context: ImportContext,
        nbytes: Callable[[], int] = int,
        *,
        unroll_loops: int = UNROLL_LOOPS,
        random_inputs: bool = False,
        overrides: Sequence[Override] = (),
        uncovered: Callable[[Node, str], str] | None = None,
        of_model: Callable[[], Mapping[str, Spec]] = dict,
    ) -> None:
        self.context = context
        self.unroll_loops = unroll_loops
        self.random_inputs = random_inputs
        self.assumptions: dict[tuple[str, ...], Assumed] = {}
        self.reader = MessageReader(context, self.import_node)
        self.read: Collection[str] = ()
        self._overrides = [*overrides, RandomInputs(self)] if random_inputs else overrides
        self._uncovered = uncovered
        self._of_model = of_model
        self._nbytes = nbytes
        self._folding: Folding | None = None
        self._applied = 0
        self._expanded = 0

    @property
    def builder(self) -> Builder:
        """Adds to the graph under construction."""
        return self.context.builder

    # ------------------------------------------------------------------ operators of importers and handlers

    def __call__(self, type: str, inputs: Sequence[Value | None], **attributes: Any) -> Value:
        """Apply an operator of the default domain with one output, as ``apply`` does."""
        return self.apply(type, inputs, attributes)[0]

    def apply(
        self,
        type: str,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any] | None = None,
        outputs: int = 1,
        *,
        domain: str = "",
        names: Sequence[str] = (),
    ) -> list[Value]:
        """Return the outputs of an operator, on behalf of the current node of the source.

        Args:
            type: ONNX operator, of the newest version that the host follows.
            inputs: Its inputs by position; None for an omitted input.
            attributes: Numbers, strings, lists of these, ``TensorData``, or ``Body`` for a graph.
            outputs: Number of outputs wanted.
            domain: Operator domain.
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
        inputs: Sequence[AnyValue | None],
        attributes: Mapping[str, Any] | None = None,
        outputs: int = 1,
        *,
        domain: str = "",
        names: Sequence[str] = (),
    ) -> list[AnyValue]:
        """Return the outputs of an operator, sequences among them, as ``apply`` does."""
        context = self.context
        name = names[0] if names else self._free_name(type)
        operands = ["" if value is None else f"{name}~{index}" for index, value in enumerate(inputs)]
        results = names or ([name] if outputs == 1 else [f"{name}_{index}" for index in range(outputs)])
        context.values.update(
            (key, value) for key, value in zip(operands, inputs, strict=True) if value is not None
        )
        opset = opset_of(type, domain)
        node = Node(type, operands, results, dict(attributes or {}), name, domain, opset, is_applied=True)
        node.inputs = cast("list[Value | None]", list(inputs))
        with context.entered(
            stands_in=True, opsets={**context.frame.opsets, "": HOST_OPSET if domain else opset}
        ):
            self._import(node, context.place(node))
        if not context.frame.unresolved.isdisjoint(results):
            raise Unresolved
        found = [context.values[result] for result in results]
        if not names:  # nothing reads them by name
            for key in (*operands, *results):
                context.values.pop(key, None)
        return found

    def _free_name(self, type: str) -> str:
        self._applied += 1
        return f"{self.builder.node}_{type.lower()}_{self._applied}"

    # ------------------------------------------------------------------ nodes of a source

    def import_node(self, node: Node) -> None:
        """Bind the outputs of a node, or report why they have no value."""
        context = self.context
        where = context.place(node)
        if node.type in context.diagnostics.requested and not self._is_overridden(node):
            if self._uncovered is not None:
                self._uncovered(node, where)
            context.invalidate(node, UnsupportedOp(f"{node.type} is requested", where=where))
            return
        if not context.resolve_inputs(node, where):
            if not self._is_known(node):
                context.invalidate(node, self._no_mapping(node, where))
            return
        with context.reporting(node, where):
            self._import(node, where)

    def _import(self, node: Node, where: str) -> None:
        """Bind the outputs of a node with known inputs in the first way that there is.

        Raises:
            XdlcError: If there is none.
        """
        is_static = all(value is None or value.is_static for value in node.inputs)
        if is_static and foldable(node) and not self._is_overridden(node) and self._fold(node):
            return
        try:
            self.context.begin(node)
        except XdlcError:
            if self._is_known(node):
                raise
            raise self._no_mapping(node, where) from None
        for override in self._overrides:
            if override.import_node(node, where):
                return
        structural = find_structural(node.domain, node.type, node.opset)
        if structural is not None:
            with self.context.inside(node):
                self.context.accept(node, structural.function(self, node), where)
            node.check_read()
            return
        if self._passes_on(node, where):
            return
        refusal = self._by_importer(node, where)
        if refusal is not None and not self._by_body(node):
            self._keep(node, refusal, where)

    def _is_overridden(self, node: Node) -> bool:
        return any(override.covers(node) for override in self._overrides)

    def _is_known(self, node: Node) -> bool:
        """Return whether there is a way to import an operator, as far as its name shows."""
        return (
            self._is_overridden(node)
            or find(node.domain, node.type, node.opset) is not None
            or find_structural(node.domain, node.type, node.opset) is not None
            or host_only.can_keep(node.type, node.domain)
            or functions.has_body(node.type, node.domain, node.opset)
        )

    def _fold(self, node: Node) -> bool:
        """Evaluate a node with static inputs; return whether its outputs are bound."""
        self._folding = self._folding or Folding(self._nbytes)
        results = self._folding.evaluate(node, self.context.frame.opsets.get("", 0))
        if results is None:
            return False
        for name, array in zip(node.outputs, results, strict=True):
            if name and array is not None:
                self.context.values[name] = self.builder.const(array, name)
        return True

    def _passes_on(self, node: Node, where: str) -> bool:
        """Bind the output of an Identity of a sequence or an optional; return whether it is one.

        Raises:
            UnsupportedOp: If another node reads a sequence or an optional.
        """
        values: list[AnyValue | None] = [*node.inputs]
        odd = [value for value in values if not isinstance(value, Value | None)]
        if odd and node.type == "Identity" and not node.domain:
            self.context.accept(node, odd, where)
            return True
        for index, value in enumerate(values if odd else ()):
            if value is not None:
                tensor_of(node, value, f"input {index}")
        return False

    def _by_importer(self, node: Node, where: str) -> UnsupportedOp | None:
        """Map a node onto QNN operations; return why that cannot be done, if so."""
        entry = find(node.domain, node.type, node.opset)
        if entry is None:
            return self._no_mapping(node, where)
        rollback = self.builder.checkpoint()
        try:
            if not _takes_dynamic(entry, node):
                raise node.problem(REASON, _BIND)
            results = entry.function(node, self.builder)
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

    def _no_mapping(self, node: Node, where: str) -> UnsupportedOp:
        """Return the refusal of an operator, or version of one, that has no importer."""
        refusal = _unsupported(node, where)
        if self._uncovered is not None and not load_all().get((node.domain, node.type)):
            other = self._uncovered(node, where)
            refusal.fix = f"{other}; or {refusal.fix}" if other else refusal.fix
        return refusal

    def _check_offered(self, node: Node, count: int) -> None:
        """Refuse an importer's results if something reads an output that is not among them."""
        frame = self.context.frame
        for name in node.outputs[count:]:
            if name and (frame.callers or frame.stands_in or name in self.read):
                raise node.problem(
                    f"its output {name!r} is used, which QNN does not offer",
                    "export the model for inference, without the ops that read it",
                )

    def _by_body(self, node: Node) -> bool:
        """Import the function body of a standard operator; return whether that bound the outputs.

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

    def expand(self, function: Any, node: Node) -> None:
        """Import the nodes of a ``FunctionProto`` in place of a node."""
        context = self.context
        if len(context.frame.callers) >= DEPTH:
            raise node.problem(
                f"functions call one another more than {DEPTH} deep",
                "inline the functions with onnx.inliner; a function must not call itself",
            )
        name = f"{node.own_name}~{self._expanded}"
        self.reader.declare(function, name)
        with context.function(node, functions.opsets(function.opset_import)):
            for proto in functions.expanded(function, node, name):
                self._expanded += 1
                self.import_node(self.reader.node(proto))

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
            results = host_only.keep(node, self.builder, infer(node, self._of_model), refusal.problem)
        except XdlcError as problem:
            raise UnsupportedOp(
                f"{refusal.problem}; nor can the host take it: {problem.problem}", fix=problem.fix
            ) from problem
        self.context.accept(node, results, where)


def _takes_dynamic(entry: Entry, node: Node) -> bool:
    """Return whether an importer can work with what is known of the shapes of a node's inputs."""
    values = [value for value in node.inputs if value is not None and value.is_dynamic]
    return not values or (entry.dynamic and all(value.ranked for value in values))


def _unsupported(node: Node, where: str) -> UnsupportedOp:
    """Return the refusal of an operator, or version of one, that has no importer."""
    versions = load_all().get((node.domain, node.type))
    if versions:
        oldest = versions[-1].since
        return UnsupportedOp(
            f"{node.type} is imported from opset {oldest} on, found opset {node.opset}",
            where=where,
            fix=f"upgrade the model with onnx.version_converter to opset {oldest} or newer",
        )
    return unmapped(node, where)


def unmapped(node: Node, where: str) -> UnsupportedOp:
    """Return the refusal of an operator that nothing maps."""
    if is_random(node):
        return UnsupportedOp(
            "its result is random; --random as-input makes it an input", where=where, fix=FIX
        )
    return UnsupportedOp(
        f"operator {node.full_type} has no mapping onto QNN operations",
        where=where,
        fix="describe it in a UDO configuration (xdlc-udo-config from-model drafts one), rewrite this part "
        "of the model, or cut the graph before it with --out_name",
    )
