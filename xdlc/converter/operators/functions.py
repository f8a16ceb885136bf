"""Bodies of ONNX functions, of models and of standard operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xdlc.converter.operators.protobuf import as_proto
from xdlc.converter.session.node import Node
from xdlc.converter.values import EXTENT_LIMIT, Value
from xdlc.errors import ModelError
from xdlc.runtime.onnx_evaluator import RefusedError, function_body

_FLAGS = frozenset(["interleaved", "is_causal"])
"""Attributes of functions that are 0 or 1."""


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
    """Return whether the newest version of an operator has an attribute."""
    import onnx

    try:
        return name in onnx.defs.get_schema(type, domain).attributes
    except onnx.defs.SchemaError:
        return True


def body(node: Node) -> Any | None:
    """Return the ``FunctionProto`` that defines a standard operator, or None.

    The types of the inputs decide the body of some operators.

    Raises:
        ModelError: If a flag is neither 0 nor 1, a cap of scores is negative or NaN, or their scale NaN.
    """
    import onnx

    for name in _FLAGS.intersection(node.attributes):
        node.flag(name)
    if not node.attr("softcap", 0.0) >= 0:
        raise node.invalid("attribute softcap is negative or NaN")
    if node.type == "Attention" and math.isnan(node.attr("scale", 1.0)):
        raise node.invalid("attribute scale is NaN")
    if node.type == "RotaryEmbedding":
        _check_rotation(node)
    proto, opset = as_proto(node), node.opset
    schema = _schema(proto.op_type, proto.domain, opset)
    if schema is None or any(item.name not in schema.attributes for item in proto.attribute):
        return None
    content = None
    if schema.has_context_dependent_function:
        content = _for_types(schema, proto, opset, node.inputs)
    elif schema.has_function:
        versions = [version for version in schema.function_opset_versions if version <= opset]
        content = schema.get_function_with_opset_version(max(versions)) if versions else None
    if not content:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(content)
    function.attribute_proto.extend(
        attribute.default_value
        for name, attribute in sorted(schema.attributes.items())
        if name in function.attribute and attribute.default_value.name
    )
    if not proto.domain and not any(entry.domain in ("", "ai.onnx") for entry in function.opset_import):
        function.opset_import.append(onnx.helper.make_opsetid("", opset))
    return function


def _check_rotation(node: Node) -> None:
    """Refuse a rotary embedding whose tables do not fit its input, if known.

    Raises:
        ModelError: If they do not.
    """
    x, table, places = node.required(0), node.required(1), node.input(3)
    heads, width = node.attr("num_heads", 0), node.attr("rotary_embedding_dim", 0)
    if not 0 <= heads <= EXTENT_LIMIT or not 0 <= width <= EXTENT_LIMIT:
        raise node.invalid(f"num_heads {heads} does not fit rotary_embedding_dim {width}")
    if x.is_dynamic or table.is_dynamic:
        return
    size = x.shape[-1] if x.rank == 4 else x.shape[-1] // max(heads, 1)
    if table.shape[-1] != (width or size) // 2:
        raise node.invalid(f"tables of shape {list(table.shape)} do not fit {width or size} rotated numbers")
    positions = places.numpy() if places is not None and places.is_static else np.zeros(1)
    if positions.size and not 0 <= positions.min() <= positions.max() < table.shape[0]:
        raise node.invalid(f"a position must be below {table.shape[0]}, the length of the table")


def _for_types(schema: Any, proto: Any, opset: int, inputs: Sequence[Value | None]) -> bytes | None:
    import onnx

    types = []
    for value in inputs:
        kind = onnx.TypeProto()
        if value is not None:
            element = onnx.helper.np_dtype_to_tensor_dtype(value.dtype.numpy)
            kind = onnx.helper.make_tensor_type_proto(element, value.dims)
        types.append(kind.SerializeToString())
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    if not versions:
        return None
    try:
        return function_body(proto, opset, max(versions), types)
    except RefusedError as error:
        raise ModelError(
            f"the inputs do not fit the operator: {error}", fix="check the model with onnx.checker"
        ) from error


def expanded(function: Any, node: Node, name: str) -> Iterator[Any]:
    """Iterate over the nodes of a function's body, as if in place of a call.

    Args:
        function: ``FunctionProto``.
        node: The node that calls it.
        name: Prefix of the names of values inside.

    Raises:
        ModelError: If the call has more operands than the function.
    """
    call = as_proto(node)
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
    for inner in function.node:
        yield _renamed(inner, names, given, f"{name}/")
    for formal, actual in results.items():
        if formal in function.input:
            yield _identity(names[formal], actual)


def _renamed(node: Any, names: Mapping[str, str], attributes: Mapping[str, Any], prefix: str) -> Any:
    """Return a copy of a node with outer names and attributes put in."""
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = prefix + (node.name or next(iter(node.output), node.op_type))
    copy.input[:] = [names.get(item, prefix + item) for item in node.input]
    copy.output[:] = [names.get(item, prefix + item) for item in node.output]
    del copy.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            stated = attributes.get(attribute.ref_attr_name)
            if stated is not None:
                copy.attribute.add().CopyFrom(stated)
                copy.attribute[-1].name = attribute.name
            continue
        copy.attribute.add().CopyFrom(attribute)
        inner = copy.attribute[-1]
        for graph in (*([inner.g] if inner.HasField("g") else ()), *inner.graphs):
            _rename_graph(graph, names, attributes, prefix)
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
