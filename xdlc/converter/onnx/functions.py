"""Bodies of ONNX functions: those that a model brings, and those that define standard operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.converter.onnx.inference import extents
from xdlc.converter.values import Value
from xdlc.errors import ModelError

DEPTH = 64
"""Most functions that may call one another."""

_NODES = 1 << 14
_FOLD = 64
_INLINE = "inline the functions with onnx.inliner, or simplify the model"


class Expansion:
    """How many nodes the functions of a model come to.

    A function that calls another twice, which calls a third twice, and so on, takes few bytes and comes
    to any number of nodes.  A model may come to some thousands of nodes, and to some dozen times as many
    as it has.

    Args:
        model: ``ModelProto``.

    Raises:
        ModelError: If it comes to too many, or its functions call themselves, or nest too deep.
    """

    def __init__(self, model: Any) -> None:
        self._functions = {
            (plain(function.domain), function.name, function.overload): function
            for function in model.functions
        }
        self._sizes: dict[tuple[str, str, str], int] = {}
        self._depths: dict[tuple[str, str, str], int] = {}
        if not self._functions:
            return
        for key in self._functions:
            self._measure(key)
        own = sum(_node_count(held) for held in (model.graph, *model.functions))
        most, found = _NODES + _FOLD * own, self.size(model.graph)
        if found > most:
            raise ModelError(f"its {own} nodes expand to {found}, more than {most}", fix=_INLINE)

    def size(self, graph: Any) -> int:
        """Return the number of nodes that a graph comes to, those of the graphs inside it included."""
        return sum(1 + self._sizes.get(key_of(node), 0) for node in _all_nodes(graph))

    def _measure(self, key: tuple[str, str, str]) -> None:
        """Find the size of a function, those that it calls first."""
        path: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
        pending = [key]
        while pending:
            held = pending[-1]
            if held in self._sizes:
                pending.pop()
                continue
            if held in path:  # all that it calls is known
                self._sizes[held] = self.size(self._functions[held])
                self._depths[held] = 1 + max((self._depths[other] for other in path[held]), default=0)
                if self._depths[held] > DEPTH:
                    raise ModelError(f"its functions call one another more than {DEPTH} deep", fix=_INLINE)
                del path[held]
                continue
            called = {key_of(node) for node in _all_nodes(self._functions[held])} & self._functions.keys()
            again = sorted(called & {held, *path})
            if again:
                raise ModelError(
                    f"its function {again[0][1]!r} calls itself", fix="a function must not call itself"
                )
            path[held] = called
            pending.extend(called - self._sizes.keys())


def key_of(node: Any) -> tuple[str, str, str]:
    """Return the domain, name and overload by which a node names its operator or function."""
    return plain(node.domain), node.op_type, node.overload


def plain(domain: str) -> str:
    """Return an operator domain, the default one as an empty string."""
    return "" if domain == "ai.onnx" else domain


def _all_nodes(graph: Any) -> Iterator[Any]:
    """Iterate over the nodes of a graph or function and of the graphs inside it."""
    pending = [graph]
    while pending:
        for node in pending.pop().node:
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    pending.append(attribute.g)
                pending.extend(attribute.graphs)


def _node_count(graph: Any) -> int:
    return sum(1 for _ in _all_nodes(graph))


def _schema(type: str, domain: str, opset: int) -> Any | None:
    import onnx

    try:
        return onnx.defs.get_schema(type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def has_body(type: str, domain: str, opset: int) -> bool:
    """Return whether a standard operator is defined by a function."""
    schema = _schema(type, domain, opset)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def has_attribute(type: str, domain: str, name: str) -> bool:
    """Return whether an attribute is one of an operator's in its newest version, as far as ONNX knows it."""
    import onnx

    try:
        return name in onnx.defs.get_schema(type, domain).attributes
    except onnx.defs.SchemaError:
        return True


def body(proto: Any, opset: int, inputs: Sequence[Value | None]) -> Any | None:
    """Return the ``FunctionProto`` that defines a standard operator, or None if none fits the node.

    Args:
        proto: ``NodeProto``.
        opset: Version of its domain.
        inputs: Its inputs, whose types decide the body of some operators.
    """
    import onnx

    schema = _schema(proto.op_type, proto.domain, opset)
    if schema is None or any(item.name not in schema.attributes for item in proto.attribute):
        return None
    made = None
    if schema.has_context_dependent_function:
        made = _for_types(schema, proto, opset, inputs)
    elif schema.has_function:
        versions = [version for version in schema.function_opset_versions if version <= opset]
        made = schema.get_function_with_opset_version(max(versions)) if versions else None
    if not made:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(made)
    function.attribute_proto.extend(
        attribute.default_value
        for name, attribute in sorted(schema.attributes.items())
        if name in function.attribute and attribute.default_value.name
    )
    if not proto.domain and not any(entry.domain in ("", "ai.onnx") for entry in function.opset_import):
        function.opset_import.append(onnx.helper.make_opsetid("", opset))
    return function


def _for_types(schema: Any, proto: Any, opset: int, inputs: Sequence[Value | None]) -> bytes | None:
    import onnx

    types = []
    for value in inputs:
        kind = onnx.TypeProto()
        if value is not None:
            element = onnx.helper.np_dtype_to_tensor_dtype(value.dtype.numpy)
            kind = onnx.helper.make_tensor_type_proto(element, extents(value))
        types.append(kind.SerializeToString())
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    if not versions:
        return None
    made: bytes = schema.get_context_dependent_function_with_opset_version(
        max(versions), proto.SerializeToString(), types
    )
    return made


def expanded(function: Any, call: Any, name: str) -> Iterator[Any]:
    """Iterate over the nodes of a function's body, as if they stood in place of a call.

    Args:
        function: ``FunctionProto``.
        call: The ``NodeProto`` that calls it.
        name: Prefix of the names of values inside.

    Raises:
        ModelError: If the call has more operands than the function.
    """
    if len(call.input) > len(function.input) or len(call.output) > len(function.output):
        raise ModelError(
            f"calls function {function.name!r} with {len(call.input)} inputs and {len(call.output)} outputs, "
            f"but it has {len(function.input)} and {len(function.output)}",
            fix="check the model with onnx.checker",
        )
    names = {"": ""}
    names |= dict.fromkeys(function.input, "")
    names |= dict(zip(function.input, call.input, strict=False))
    results = {formal: actual for formal, actual in zip(function.output, call.output, strict=False) if actual}
    names |= {formal: actual for formal, actual in results.items() if formal not in function.input}
    given = {item.name: item for item in function.attribute_proto}
    given |= {item.name: item for item in call.attribute}
    for node in function.node:
        yield _renamed(node, names, given, f"{name}/")
    for formal, actual in results.items():
        if formal in function.input:
            yield _identity(names[formal], actual)


def _renamed(node: Any, names: Mapping[str, str], given: Mapping[str, Any], prefix: str) -> Any:
    """Return a copy of a node with outer names and attributes put in."""
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = prefix + (node.name or next(iter(node.output), node.op_type))
    copy.input[:] = [names.get(item, prefix + item) for item in node.input]
    copy.output[:] = [names.get(item, prefix + item) for item in node.output]
    del copy.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            found = given.get(attribute.ref_attr_name)
            if found is not None:
                copy.attribute.add().CopyFrom(found)
                copy.attribute[-1].name = attribute.name
            continue
        copy.attribute.add().CopyFrom(attribute)
        inner = copy.attribute[-1]
        for graph in (*([inner.g] if inner.HasField("g") else ()), *inner.graphs):
            _rename_graph(graph, names, given, prefix)
    return copy


def _rename_graph(graph: Any, names: Mapping[str, str], given: Mapping[str, Any], prefix: str) -> None:
    sparse = [tensor.values for tensor in graph.sparse_initializer]
    for entry in (*graph.input, *graph.output, *graph.initializer, *sparse, *graph.value_info):
        entry.name = names.get(entry.name, prefix + entry.name)
    nodes = [_renamed(node, names, given, prefix) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _identity(source: str, target: str) -> Any:
    from onnx import helper

    return helper.make_node("Identity", [source], [target], name=target)
