"""Shape and type inference of node outputs, where no importer computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdlc.converter.operators import protobuf
from xdlc.converter.operators.contrib_shapes import OF_DEFAULT_DOMAIN, SHAPES
from xdlc.converter.operators.protobuf import as_proto
from xdlc.converter.operators.registry import MICROSOFT, ML, Node
from xdlc.converter.values import EXTENT_LIMIT, RANK_LIMIT, Dims, Spec, Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.runtime.onnx_evaluator import RefusedError, alone, infer_shapes

Rank = Callable[[Sequence[Value | None]], int | None]
"""Rank of an output for the inputs of a node, None if it is not known."""
_VALUE_LIMIT = 1 << 10  # elements of an input whose values may decide a shape


def infer(node: Node, of_model: Callable[[], Mapping[str, Spec]]) -> list[Spec]:
    """Return a ``Spec`` of each output of a node; an empty one if omitted.

    Args:
        of_model: Returns what is known of values from the whole model, by name; called where the node alone
            leaves a dimension dynamic.

    Raises:
        ModelError: If the inputs do not fit the operator.
        UnsupportedOp: If nothing defines the operator, or an output is not a tensor of plain numbers.
    """
    proto = as_proto(node)
    if (
        node.domain == MICROSOFT
        or node.type in OF_DEFAULT_DOMAIN
        or (node.domain == ML and node.type in SHAPES)
    ):
        specs = _contributed(node)
    else:
        specs = _infer(proto, node.opset, node.inputs)
    return [
        _completed(name, spec, node, of_model) if name else Spec(None, None)
        for name, spec in zip(proto.output, specs, strict=True)
    ]


def check(node: Node) -> None:
    """Refuse a node of the default domain that is invalid for its operator.

    Raises:
        ModelError: If the operator's own inference finds that.
    """
    proto = as_proto(node)
    if _schema(proto, node.opset).has_type_and_shape_inference_function:
        _infer(proto, node.opset, node.inputs)


def _contributed(node: Node) -> list[Spec]:
    rule = SHAPES.get(node.type)
    if rule is None:
        raise UnsupportedOp(
            f"xdlc does not know the output shapes of {node.type}", fix="please report this operator"
        )
    proto, inputs = as_proto(node), node.inputs
    attributes = {item.name: protobuf.attribute_value(item) for item in proto.attribute}
    try:
        outputs = rule(
            attributes,
            [None if value is None else value.dims for value in inputs],
            [None if value is None else value.dtype.numpy for value in inputs],
            [value.numpy() if value is not None and _is_small(value) else None for value in inputs],
        )
    except (ValueError, IndexError, TypeError, KeyError) as error:
        raise ModelError(f"the inputs do not fit the operator: {error}", code="XD302") from error
    specs = [Spec(None if shape is None else tuple(shape), dtype) for shape, dtype in outputs]
    return [*specs, *[Spec(None, None)] * len(node.outputs)][: len(node.outputs)]


def _completed(name: str, spec: Spec, node: Node, of_model: Callable[[], Mapping[str, Spec]]) -> Spec:
    """Return ``spec``, completed by the whole model and the kind of operator."""
    shape, dtype = spec.shape, spec.dtype
    if dtype is None or shape is None or None in shape:
        other = of_model().get(name, Spec(None, None))
        dtype = dtype if dtype is not None else other.dtype
        shape = _merged(shape, other.shape)
    if dtype is None:
        raise UnsupportedOp(
            f"output {name!r} is not a numeric tensor that a DLC can hold",
            fix="remove strings, sequences and narrow floats from the model",
        )
    if shape is None and node.type in _RANKS:
        rank = _RANKS[node.type](node.inputs)
        if rank is not None and rank > RANK_LIMIT:
            raise ModelError(f"output {name!r} has {rank} axes; xdlc supports at most {RANK_LIMIT}")
        shape = None if rank is None else (None,) * rank
    if any(extent is not None and extent > EXTENT_LIMIT for extent in shape or ()):
        raise ModelError(f"output {name!r} has the impossible shape {list(shape or ())}")
    return Spec(shape, dtype)


def _infer(proto: Any, opset: int, inputs: Sequence[Value | None]) -> list[Spec]:
    import onnx

    schema = _schema(proto, opset)
    values = {name: value for name, value in zip(proto.input, inputs, strict=True) if value is not None}
    types = {name: (value.dtype.numpy, value.dims) for name, value in values.items()}
    known = {name: data for name, value in values.items() if (data := value.tensor.data) is not None}
    try:
        model = alone(proto, max(opset, schema.since_version), types, known)
        inferred = infer_shapes(model, strict=True)
    except RefusedError as error:
        raise ModelError(
            f"the inputs do not fit the operator: {error}", fix="check the model with onnx.checker"
        ) from error
    kinds = {entry.name: entry.type for entry in inferred.graph.output}
    return [spec_of(kinds.get(name, onnx.TypeProto())) for name in proto.output]


def _is_small(value: Value) -> bool:
    return value.is_static and value.size <= _VALUE_LIMIT


def spec_of(kind: Any) -> Spec:
    """Return the shape and type of a ``TypeProto``."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
        return Spec(None, None)
    try:
        dtype = protobuf.numpy_dtype(kind.tensor_type.elem_type)
    except KeyError:
        dtype = None
    if not kind.tensor_type.HasField("shape"):
        return Spec(None, dtype)
    dims = kind.tensor_type.shape.dim
    return Spec(tuple(extent(dim) for dim in dims), dtype)


def extent(dim: Any) -> int | None:
    """Return a stated dimension, None for a dynamic one, for which some state -1."""
    return int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def _schema(proto: Any, opset: int) -> Any:
    """Return the definition of a node's operator.

    Tools write some operators, LayerNormalization above all, into models of an older opset than the one
    that has brought them; those mean the first version.

    Raises:
        UnsupportedOp: If ONNX has no such operator.
    """
    import onnx

    for version in (opset, *range(opset + 1, onnx.defs.onnx_opset_version() + 1)):
        try:
            return onnx.defs.get_schema(proto.op_type, version, proto.domain)
        except onnx.defs.SchemaError:
            continue
    raise UnsupportedOp(
        f"the package onnx has no operator {proto.domain or 'ai.onnx'}::{proto.op_type} in version {opset}",
        fix="check the model with onnx.checker",
    )


def _merged(a: Dims | None, b: Dims | None) -> Dims | None:
    if a is None or b is None or len(a) != len(b):
        return a if a is not None else b
    return tuple(x if x is not None else y for x, y in zip(a, b, strict=True))


def _length_of(index: int) -> Rank:
    """Return a rule: the rank is the number of elements of an input."""

    def rule(inputs: Sequence[Value | None]) -> int | None:
        value = inputs[index] if index < len(inputs) else None
        return None if value is None or value.is_dynamic else value.size

    return rule


def _rank_of_first(inputs: Sequence[Value | None]) -> int | None:
    return None if inputs[0] is None or not inputs[0].ranked else inputs[0].rank


def _expanded(inputs: Sequence[Value | None]) -> int | None:
    wanted, rank = _length_of(1)(inputs), _rank_of_first(inputs)
    return None if wanted is None or rank is None else max(wanted, rank)


# Ranks of outputs of operators whose dimensions are computed when the graph runs.
_RANKS: dict[str, Rank] = {
    "Reshape": _length_of(1),
    "ConstantOfShape": _length_of(0),
    "Expand": _expanded,
    **dict.fromkeys(("Tile", "Pad", "Resize", "Upsample", "Slice"), _rank_of_first),
}
