"""Binding of source nodes to UDO definitions, by framework, domain and operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.converter.protobuf_text import Octets, Word
from xdlc.converter.session.context import ImportContext
from xdlc.converter.session.node import Node, TypeName
from xdlc.converter.values import AnyValue, Dims, Spec, Value
from xdlc.errors import UnsupportedOp
from xdlc.opdefs import shape_text
from xdlc.opdefs.op_view import TensorSpec
from xdlc.opdefs.source_match import Declared, SourceNode, Udo, UdoSet, UncoveredNode


class Declarations:
    """Types that a source model states of its values, by name; by default none."""

    def __init__(self, values: Mapping[str, Declared] | None = None) -> None:
        self._values = values or {}

    def bind(self, shapes: Mapping[str, Sequence[int | None]], fixed: Mapping[str, Any]) -> None:
        """Set the shapes of the inputs, and the values of inputs fixed by options."""

    def find(self, name: str) -> Declared:
        """Return the stated shape and type of a value.

        Raises:
            UnsupportedOp: If it is nothing that a DLC holds.
        """
        return self._values.get(name) or Declared(read=bool(name))

    def oddity(self, name: str) -> str:
        """Return the kind of a non-tensor value, like ``strings``; "" for numbers."""
        return ""

    def contradicted(self, found: Mapping[str, Dims]) -> Iterator[tuple[str, Dims, Dims]]:
        """Yield name, stated and actual dimensions of values that contradict them."""
        yield from ()

    def inferred(self) -> Mapping[str, Spec]:
        """Return inferred shapes and types of values by name."""
        return {}


class UdoNodes:
    """Importer of the nodes that UDO definitions name, before xdlc's mappings.

    An operator whose domain is the package of a definition is one that xdlc wrote (``xdlc-to-onnx``).
    A definition without a domain matches operators of its name in any domain; where a model has the
    name both as an operator that xdlc imports and in a domain of its own, it matches the latter.

    Args:
        context: The import; the framework is that of its source.
        is_native: Whether xdlc imports an operator itself, by domain and name.
        declared: What the model states of its values.
        types: Domain and name of all operators of the model.
        is_optional: Whether an attribute of any node has no meaning at inference.
    """

    def __init__(
        self,
        context: ImportContext,
        udos: UdoSet,
        is_native: Callable[[str, str], bool],
        declared: Declarations,
        types: Iterable[tuple[str, str]] = (),
        is_optional: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._context = context
        self._framework = context.source.framework
        self._udos = udos
        self._is_native = is_native
        self._declared = declared
        self._is_optional = is_optional
        foreign = {type for domain, type in types if not is_native(domain, type)} if udos.ops else ()
        self._foreign = frozenset(foreign)
        self._noticed: set[tuple[str, str]] = set()

    def _candidates(self, node: Node) -> tuple[Udo, ...]:
        """Return the definitions that match a node's operator."""
        if not self._udos.ops:
            return ()
        key = node.domain, node.type
        written = [op for op in self._udos.ops if (op.definition.package, op.definition.name) == key]
        if written:
            return tuple(written)
        found = self._udos.candidates(self._framework, node.type, node.domain)
        if node.type in self._foreign and self._is_native(*key):
            return tuple(udo for udo in found if udo.domain is not None or udo.is_plugin)
        return found

    def covers(self, node: Node) -> bool:
        """Return whether a definition matches a node's operator."""
        return bool(self._candidates(node))

    def covers_surely(self, node: Node) -> bool:
        """Return whether a node certainly becomes a UDO, without a plugin's consent."""
        return bool(self._udos.ops) and any(not udo.is_plugin for udo in self._candidates(node))

    def uncovered(self, node: Node, where: str) -> str:
        """Record an unmapped node; return the change to a plugin that would help."""
        self._context.diagnostics.uncovered.append(self._described(node, where))
        return self._elsewhere(node.domain, node.type)

    def _described(self, node: Node, where: str) -> UncoveredNode:
        """Return the description of a node, whose inputs may have no value."""
        attributes = _attributes(node) if node.load is None else node.load(False)
        return UncoveredNode(
            node.type,
            node.domain,
            node.own_name,
            where,
            tuple(self._input(name) if name else None for name in node.names),
            tuple(self._stated(name) if name else None for name in node.outputs),
            {name: value for name, value in attributes.items() if not self._is_optional(name)},
        )

    def _input(self, name: str) -> Declared:
        frame = self._context.frame
        value = frame.values[name] if name in frame.values and name not in frame.unresolved else None
        if value is None:
            return self._stated(name)
        if not isinstance(value, Value):
            return Declared(name=name, odd="a sequence or an optional")
        return Declared(value.dims, value.dtype, name=name, is_static=value.is_static)

    def _stated(self, name: str) -> Declared:
        odd = self._declared.oddity(name)
        return Declared(name=name, odd=odd) if odd else replace(self._declared.find(name), name=name)

    def _elsewhere(self, domain: str, type: str) -> str:
        """Return the fix for a plugin that has an operator of this name, if any."""
        for udo in self._udos.ops:
            if type in udo.source_types and udo.is_plugin:
                if udo.frameworks and self._framework not in udo.frameworks:
                    return f"add {self._framework!r} to framework of {udo.source}"
                if udo.domain not in (None, domain):
                    return f"change domain of {udo.source} from {udo.domain!r} to {domain!r}"
        return ""

    def import_node(self, node: Node, where: str) -> bool:
        """Bind the outputs of a node to the outputs of a UDO; return whether one matches.

        Raises:
            XdlcError: If the node does not fit it.
        """
        if not self._udos.ops:
            return False
        candidates = self._candidates(node)
        if not candidates:
            self._note_spared(node)
            return False
        source = self._source(node)
        udo = self._chosen(candidates, source, node)
        if udo is None:
            return False
        self._context.diagnostics.used.append(udo)
        from xdlc.converter.udo.lowering import lower

        udo = self._settled(udo)
        if udo.definition.package == source.domain:  # xdlc has written it: it has the op's own form
            udo = replace(udo, parse_params=None, infer_shape_and_type=None)
        values = _tensors(node)
        declared = [replace(self._declared.find(name), name=name) for name in node.outputs]
        results: Sequence[AnyValue] = lower(
            self._context.builder,
            source,
            values,
            udo,
            declared,
            self._udos.shapes,
            self._declared.inferred,
            self._context.diagnostics.notices,
        )
        if self._is_native(node.domain, node.type):
            self._note_preceded(udo, node)
        self._context.accept(node, results, where)
        return True

    def contradictions(self) -> Iterator[str]:
        """Yield contradictions between inferred shapes and shapes in the model."""
        if not self._context.diagnostics.used:
            return
        values = ((name, value) for name, value in self._context.values.items() if isinstance(value, Value))
        shapes = {name: shape for name, value in values if (shape := value.dims) is not None}
        found = list(self._declared.contradicted(shapes))
        if found:
            name, stated, shape = found[0]
            more = f", and {len(found) - 1} more differ" if len(found) > 1 else ""
            have, want = shape_text.shown(shape), shape_text.shown(stated)
            yield (
                f"{name!r} has shape {have}, but the model states {want}{more}: check the output shapes of "
                "your operations"
            )

    def _note_spared(self, node: Node) -> None:
        """Note that the model has another operator of a definition's name."""
        spared = self._udos.candidates(self._framework, node.type, node.domain)
        if spared and (node.domain, node.type) not in self._noticed:
            self._noticed.add((node.domain, node.type))
            self._context.diagnostics.notices.append(
                f"{spared[0].full_name} matches the {node.type} of the model's own domain; xdlc still "
                f"converts {node.type} of {node.domain or 'ONNX'} itself"
            )

    def _note_preceded(self, udo: Udo, node: Node) -> None:
        key = (node.domain, node.type)
        if key not in self._noticed:
            self._noticed.add(key)
            self._context.diagnostics.notices.append(
                f"{udo.full_name} matches {node.type} nodes and replaces xdlc's own conversion"
            )

    def _chosen(self, candidates: Sequence[Udo], source: SourceNode, node: Node) -> Udo | None:
        """Return the definition that matches a node, or None if objects decline it.

        Raises:
            UnsupportedOp: If several match it.
        """
        written = next((udo for udo in candidates if udo.definition.package == source.domain), None)
        if written is not None:
            return written
        for udo in candidates:
            if udo.accepts is not None and udo.accepts(source):
                return udo
        stated = [udo for udo in candidates if not udo.is_plugin]
        own = [udo for udo in stated if self._domain(udo) == source.domain]
        left = own if len(own) == 1 else stated
        if len(left) > 1:
            from xdlc.converter.udo.lowering import misfits

            values = _tensors(node)
            fitting = [udo for udo in left if not misfits(source, values, self._settled(udo))]
            left = fitting or left[:1]
        if len(left) > 1:
            raise UnsupportedOp(
                f"{' and '.join(udo.full_name for udo in left)} both match this node",
                fix="remove one of the definitions, or give its package the Domain of the operator",
            )
        return left[0] if left else None

    def _source(self, node: Node) -> SourceNode:
        node.read.update(node.attributes)
        return SourceNode(
            self._framework,
            node.type,
            node.domain,
            node.name,
            tuple(_spec(value, name) for value, name in zip(node.inputs, node.names, strict=True)),
            tuple(node.outputs),
            {name: _plain(value) for name, value in node.attributes.items()},
            frozenset(
                name for name, value in node.attributes.items() if self._is_optional(name) or _restates(value)
            ),
            node.line,
        )

    def _settled(self, udo: Udo) -> Udo:
        from xdlc.converter.udo.definitions import merged

        return merged(udo, self._udos.collections.get(udo.definition.package))

    def _domain(self, udo: Udo) -> str | None:
        collection = self._udos.collections.get(udo.definition.package)
        return collection.domain if collection is not None else None


def _tensors(node: Node) -> list[Value | None]:
    """Return the inputs of a node.

    Raises:
        UnsupportedOp: If one is not a tensor.
    """
    for index, value in enumerate(node.inputs):
        if value is not None and not isinstance(value, Value):
            raise node.problem(
                f"input {index} is a sequence or an optional, but a UDO needs tensors",
                "replace the sequence by tensors in the model",
            )
    return list(node.inputs)


def _attributes(node: Node) -> dict[str, Any]:
    """Return the attributes of a node as plain values, without types of tensors."""
    return {name: _plain(value) for name, value in node.attributes.items() if not _restates(value)}


def _restates(value: Any) -> bool:
    """Return whether an attribute is the type of a tensor, or a list of types."""
    return isinstance(value, TypeName) or (
        isinstance(value, list) and bool(value) and all(map(_restates, value))
    )


def _plain(value: Any) -> Any:
    """Return an attribute with the texts ``true`` and ``false`` as bools."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Octets):
        return value.data
    if isinstance(value, TypeName):
        return str(value)
    if isinstance(value, Word):
        return value == "true" if value in ("true", "false") else str(value)
    return value


def _spec(value: AnyValue | None, name: str) -> TensorSpec | None:
    if not isinstance(value, Value):
        return None
    return TensorSpec(value.dims or (), value.dtype, name, "", value.tensor.data)
