"""Host-only ops: operators that QNN cannot carry, in package ``xdlc``.

The op's type is the ONNX operator, its operands are in the source's axis order, its parameters are
the attributes.  It is written in one version of the operator whatever the model's opset, so that the
runtime needs no history: :mod:`xdlc.converter.operators.upgrades` brings older nodes up to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ML, Node
from xdlc.converter.operators.upgrades import upgraded
from xdlc.converter.values import Spec, Value, open_tensor
from xdlc.errors import UnsupportedOp
from xdlc.ir import HOST_PACKAGE, Param, Scalar, Tensor, TensorData
from xdlc.ir.dtype import FLOAT64, INT64
from xdlc.runtime.host_kernels import DOMAIN, has_kernel, opset_of

_ABSENT_IF_EMPTY = frozenset(["activation_alpha", "activation_beta", "activation_params", "activations"])
"""Lists that onnxruntime reads as absent if they are empty, beside those of ai.onnx.ml."""


def can_keep(type: str, domain: str) -> bool:
    """Return whether the host executes an operator, or its successor."""
    return has_kernel(type, domain) or (not domain and type in ("Scatter", "Upsample"))


def keep(node: Node, builder: Builder, outputs: Sequence[Spec], why: str) -> list[Value]:
    """Append a host-only op for a node and return its results.

    Args:
        node: The node; its attributes count as read.
        builder: Where the op goes.
        outputs: What is known of the outputs.
        why: Why no QNN operation carries it.

    Raises:
        UnsupportedOp: If an operand, attribute or version has no form here.
    """
    node.read.update(node.attributes)
    node = upgraded(node, builder)
    _check_attributes(node)
    _check_results(node)
    while len(outputs) > 1 and not node.outputs[len(outputs) - 1]:
        outputs = outputs[:-1]
    results = [
        builder.graph.add_tensor(_output(builder, name, spec))
        for name, spec in zip(node.outputs, outputs, strict=False)
    ]
    op = ir.make_op(
        builder.graph,
        node.type,
        [None if value is None else builder.source_form(value) for value in node.inputs],
        results,
        _params(node),
        name=builder.new_op_name(node.type),
        package=HOST_PACKAGE,
        origin=ir.Origin((builder.node,) if builder.node else (), why),
    )
    builder.graph.append(op)
    return [_value(builder, tensor, spec) for tensor, spec in zip(results, outputs, strict=True)]


def _output(builder: Builder, name: str, spec: Spec) -> Tensor:
    if spec.dtype is None:  # an omitted output
        return Tensor(builder.graph.unique_name(f"{builder.node}_unused"), (), ir.dtype.UNDEFINED)
    try:
        dtype = ir.dtype.from_numpy(spec.dtype)
    except TypeError as error:
        raise UnsupportedOp(
            str(error), fix="insert a Cast before this node, to a type that a DLC can hold"
        ) from error
    shape = (None,) if spec.shape is None else spec.shape
    return open_tensor(builder.graph.unique_name(name), shape, dtype)


def _value(builder: Builder, tensor: Tensor, spec: Spec) -> Value:
    if spec.dtype is None:  # an omitted output
        return Value(tensor, ())
    return builder.value_of(tensor, ranked=spec.shape is not None)


def _check_attributes(node: Node) -> None:
    """Refuse attributes that the host's version of the operator lacks."""
    import onnx

    version = opset_of(node.type, node.domain)
    try:
        schema = onnx.defs.get_schema(node.type, version, node.domain)
    except onnx.defs.SchemaError:
        return  # an operator of another domain, whose attributes its kernel checks
    unknown = sorted(node.attributes.keys() - schema.attributes.keys())
    if unknown:
        raise node.problem(
            f"{node.type}-{version}, which the host runs, has no attribute {', '.join(unknown)}",
            "remove the attribute, or rewrite the node",
        )


def _params(node: Node) -> Mapping[str, Param]:
    params: dict[str, Param] = {}
    if node.domain:
        params[DOMAIN] = ir.string(node.domain)
    for name, value in sorted(node.attributes.items()):
        if value != [] or not (node.domain == ML or name in _ABSENT_IF_EMPTY):
            params[name] = _param(node, name, value)
    return params


def _param(node: Node, name: str, value: Any) -> Param:
    import numpy

    if isinstance(value, int):
        return Scalar(INT64, value)
    if isinstance(value, float):
        return ir.f32(value)
    if isinstance(value, str):
        return ir.string(value)
    if isinstance(value, TensorData):
        try:
            dtype = ir.dtype.from_numpy(value.dtype)
        except TypeError as error:
            raise node.problem(f"attribute {name}: {error}") from error
        return Tensor("", value.shape, dtype, data=value, role=ir.Role.STATIC)
    if isinstance(value, list) and all(isinstance(item, str) for item in value) and value:
        return ir.string(json.dumps(value))
    if isinstance(value, list) and value and all(isinstance(item, int | float) for item in value):
        whole = all(isinstance(item, int) for item in value)
        return ir.static("", numpy.asarray(value, numpy.int64 if whole else numpy.float32))
    raise node.problem(
        f"attribute {name} cannot be stored in a DLC", "rewrite the node without this attribute"
    )


# ------------------------------------------------------------------ faults of the host's kernels


def _check_results(node: Node) -> None:
    """Refuse a node that the host would execute wrongly.

    The faults were found by the node tests of the onnx package, with onnxruntime 1.31.

    Raises:
        UnsupportedOp: With what differs.
    """
    rule = _RULES.get(node.type) if not node.domain else None
    found = rule(node) if rule is not None else None
    if found is not None:
        raise node.problem(*found)


def _max_unpool(node: Node) -> tuple[str, str] | None:
    if node.input(2) is None:
        return None
    return (
        "onnxruntime reads indices as positions in output_shape, but ONNX means the pooled input",
        "make output_shape a constant, or remove this input",
    )


def _dft(node: Node) -> tuple[str, str] | None:
    x = node.input(0)
    if x is not None and x.dtype is FLOAT64:
        return None
    if not node.attributes.get("inverse", 0) or node.attributes.get("onesided", 0):
        return None
    return (
        "the host computes an inverse DFT of complex values by another algorithm than ONNX, "
        "so small results can differ",
        "write the transform as a product with its matrix",
    )


def _unique(node: Node) -> tuple[str, str] | None:
    x = node.input(0)
    if x is None or 0 not in x.shape or "axis" not in node.attributes:
        return None
    return "onnxruntime crashes on slices without elements", "remove the axis, or the operator"


_RULES: dict[str, Callable[[Node], tuple[str, str] | None]] = {
    "DFT": _dft,
    "MaxUnpool": _max_unpool,
    "Unique": _unique,
}
