"""Imports nodes whose operators users define."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from xdlc.converter.onnx.describing import describe
from xdlc.converter.onnx.nodes import all_nodes, domain_of
from xdlc.converter.onnx.value_info import DeclaredTypes
from xdlc.converter.operators.inference import extents
from xdlc.converter.operators.registry import Node, load_all
from xdlc.converter.session.context import State
from xdlc.converter.udo.diagnostics import Issue, full_name, raise_issues
from xdlc.converter.udo.lowering import misfits, place
from xdlc.converter.udo.merged_definition import settled
from xdlc.converter.values import AnyValue, Value
from xdlc.errors import UnsupportedOp, XdlcError
from xdlc.opdefs import shape_text
from xdlc.opdefs.op_view import TensorSpec
from xdlc.opdefs.source_match import SourceNode, Udo, UdoSet, UncoveredNode

FRAMEWORK = "onnx"


class CustomNodes:
    """Imports what the definitions of users name; they go before all that xdlc knows of its own.

    An operator whose domain is the package of a definition is one that xdlc has written (``xdlc-to-onnx``).
    Definitions without a domain stand for operators of their name in any domain; where a model has the
    name both as an operator that xdlc imports and in a domain of its own, they stand for the latter.

    Args:
        state: The import.
        custom: The definitions.
        declared: What the model states of its values.
    """

    def __init__(self, state: State, custom: UdoSet, declared: DeclaredTypes) -> None:
        self._state = state
        self._custom = custom
        self._declared = declared
        self._foreign = _foreign_types(state.file.proto) if custom.ops else frozenset()
        self._passed_over: set[tuple[str, str]] = set()

    def candidates(self, proto: Any) -> tuple[Udo, ...]:
        """Return the definitions that a node's operator has."""
        if not self._custom.ops:
            return ()
        domain, type = domain_of(proto), proto.op_type
        written = [
            op for op in self._custom.ops if (op.definition.package, op.definition.name) == (domain, type)
        ]
        if written:
            return tuple(written)
        found = self._custom.candidates(FRAMEWORK, type, domain)
        if type in self._foreign and (domain, type) in load_all():
            return tuple(custom for custom in found if custom.domain is not None or custom.hooks is not None)
        return found

    def declare(self, types: Iterable[tuple[str, Any]]) -> None:
        """Take up what the body of a function states of its values, as ``TypeProto`` by name."""
        self._declared.add(types)

    def describe(self, proto: Any, where: str) -> UncoveredNode:
        """Return what is known of a node that nothing covers."""
        return describe(self._state, proto, where, self._declared)

    def takes(self, proto: Any) -> bool:
        """Return whether a definition stands for a node for sure: no object has to be asked about it."""
        return any(custom.hooks is None for custom in self.candidates(proto))

    def elsewhere(self, domain: str, type: str) -> str:
        """Return what to change in a plugin that has an operator of this name, if there is one."""
        for custom in self._custom.ops:
            if type in custom.source_types and custom.hooks is not None:
                if custom.frameworks and FRAMEWORK not in custom.frameworks:
                    return f"add {FRAMEWORK!r} to framework of {custom.source}"
                if custom.domain not in (None, domain):
                    return f"change domain of {custom.source} from {custom.domain!r} to {domain!r}"
        return ""

    def import_node(self, proto: Any, node: Node, where: str) -> bool:
        """Give the outputs of a node values by the definition that stands for it; return whether one does.

        Raises:
            XdlcError: If the node does not fit it.
        """
        found = self.candidates(proto)
        if not found:
            self._tell_spared(node)
            return False
        source = _source(node, list(proto.input))
        custom = self._chosen(found, source, node)
        if custom is None:
            return False
        self._state.findings.used.append(custom)
        custom = self._settled(custom)
        if custom.definition.package == source.domain:  # xdlc has written it: it has the op's own form
            custom = replace(custom, hooks=None)
        values = _tensors(node)
        declared = [self._declared.find(name) for name in proto.output]
        results: Sequence[AnyValue] = place(
            self._state.builder,
            source,
            values,
            custom,
            declared,
            self._custom.shapes,
            self._state.findings.notices,
        )
        if (node.domain, node.type) in load_all():
            self._tell_passed_over(custom, node)
        self._state.accept(proto, results, where)
        return True

    def contradictions(self) -> Iterator[str]:
        """Yield what follows from what users' ops give and is not what the model states."""
        if not self._state.findings.used:
            return
        values = ((name, value) for name, value in self._state.values.items() if isinstance(value, Value))
        shapes = {name: shape for name, value in values if (shape := extents(value)) is not None}
        found = list(self._declared.contradicted(shapes))
        if found:
            name, stated, shape = found[0]
            more = f", and {len(found) - 1} more are not as stated" if len(found) > 1 else ""
            said, came = shape_text.shown(stated), shape_text.shown(shape)
            yield (
                f"the model states {said} for {name!r}, and it comes out as {came}{more}: check "
                "what tells the outputs of your operations"
            )

    def _tell_spared(self, node: Node) -> None:
        """Tell that a definition leaves a node alone, as the model has another operator of that name."""
        spared = self._custom.candidates(FRAMEWORK, node.type, node.domain) if self._custom.ops else ()
        if spared and (node.domain, node.type) not in self._passed_over:
            self._passed_over.add((node.domain, node.type))
            self._state.findings.notices.append(
                f"{full_name(spared[0])} stands for the {node.type} of a domain of the model's own; "
                f"{node.domain or 'ONNX'}'s {node.type} keeps xdlc's mapping"
            )

    def _tell_passed_over(self, custom: Udo, node: Node) -> None:
        key = (node.domain, node.type)
        if key not in self._passed_over:
            self._passed_over.add(key)
            self._state.findings.notices.append(
                f"{full_name(custom)} stands for {node.type} nodes; xdlc's own mapping is passed over"
            )

    def _chosen(self, found: Sequence[Udo], source: SourceNode, node: Node) -> Udo | None:
        """Return the definition that stands for a node; None if those by objects all decline it.

        Raises:
            UnsupportedOp: If several stand for it.
        """
        written = next((custom for custom in found if custom.definition.package == source.domain), None)
        if written is not None:
            return written
        for custom in found:
            if custom.hooks is not None and _accepts(custom, source):
                return custom
        stated = [custom for custom in found if custom.hooks is None]
        own = [custom for custom in stated if self._domain(custom) == source.domain]
        left = own if len(own) == 1 else stated
        if len(left) > 1:
            values = _tensors(node)
            fitting = [custom for custom in left if not misfits(source, values, self._settled(custom))]
            left = fitting or left[:1]
        if len(left) > 1:
            raise UnsupportedOp(
                f"{' and '.join(map(full_name, left))} both stand for it",
                fix="leave out one of the definitions, or give its package the Domain of the operator",
            )
        return left[0] if left else None

    def _settled(self, custom: Udo) -> Udo:
        return settled(custom, self._custom.collections.get(custom.definition.package))

    def _domain(self, custom: Udo) -> str | None:
        collection = self._custom.collections.get(custom.definition.package)
        return collection.domain if collection is not None else None


def _accepts(custom: Udo, source: SourceNode) -> bool:
    try:
        return custom.hooks is not None and bool(custom.hooks.accepts(source))
    except XdlcError:
        raise
    except Exception as error:  # the user's code may raise anything
        issue = Issue(f"accepts fails: {type(error).__name__}: {error}", "correct it")
        raise_issues(custom, [issue])
        return False


def _tensors(node: Node) -> list[Value | None]:
    """Return the inputs of a node.

    Raises:
        UnsupportedOp: If one is no tensor.
    """
    for index, value in enumerate(node.inputs):
        if value is not None and not isinstance(value, Value):
            raise node.problem(
                f"input {index} is a sequence or an optional, but ops of users take tensors",
                "take the sequence apart in the model",
            )
    return list(node.inputs)


def _source(node: Node, names: Sequence[str]) -> SourceNode:
    node.read.update(node.attributes)
    return SourceNode(
        FRAMEWORK,
        node.type,
        node.domain,
        node.name,
        tuple(_spec(value, name) for value, name in zip(node.inputs, names, strict=True)),
        tuple(node.outputs),
        dict(node.attributes),
    )


def _spec(value: AnyValue | None, name: str) -> TensorSpec | None:
    if not isinstance(value, Value):
        return None
    return TensorSpec(extents(value) or (), value.dtype, name, "", value.tensor.data)


def _foreign_types(model: Any) -> frozenset[str]:
    """Return the names of operators that a model has in domains of its own."""
    held = (node for graph in (model.graph, *model.functions) for node in all_nodes(graph))
    return frozenset(node.op_type for node in held if (domain_of(node), node.op_type) not in load_all())
