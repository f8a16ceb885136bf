"""Shapes and types of node outputs, where no importer works them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdlc.converter.onnx.nodes import all_nodes, domain_of, plain_domain
from xdlc.converter.operators.contrib_shapes import OF_DEFAULT_DOMAIN, SHAPES
from xdlc.converter.operators.registry import MICROSOFT
from xdlc.converter.values import Extents, Value
from xdlc.errors import ModelError, UnsupportedOp

if TYPE_CHECKING:
    from xdlc.converter.onnx.source import OnnxFile

_EXTENT_LIMIT = (1 << 31) - 1
_VALUE_LIMIT = 1 << 10  # elements of an input whose values may decide a shape


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of a value before the graph runs.

    Attributes:
        shape: Extents, None for one that is open; None as a whole if even the rank is.
        dtype: numpy dtype, or None if it is no tensor of plain numbers.
    """

    shape: Extents | None
    dtype: Any


class Inference:
    """Asks ONNX's shape inference, node by node and, for open extents, over the whole model.

    Args:
        file: The opened model.
        input_shapes: Shapes of the graph inputs, None for open extents.
    """

    def __init__(self, file: OnnxFile, input_shapes: Mapping[str, Sequence[int | None]]) -> None:
        self._file = file
        self._input_shapes = input_shapes
        self._whole: dict[str, Spec] | None = None

    def outputs(self, proto: Any, opset: int, inputs: Sequence[Value | None]) -> list[Spec]:
        """Return what is known of each output of a node; ``Spec(None, None)`` for one left out.

        Raises:
            ModelError: If the inputs do not fit the operator.
            UnsupportedOp: If nothing knows the operator, or an output is no tensor of plain numbers.
        """
        if proto.domain == MICROSOFT or proto.op_type in OF_DEFAULT_DOMAIN:
            found = self._contributed(proto, inputs)
        else:
            found = _infer(proto, opset, inputs)
        return [
            self._completed(name, spec, proto, inputs) if name else Spec(None, None)
            for name, spec in zip(proto.output, found, strict=True)
        ]

    def _contributed(self, proto: Any, inputs: Sequence[Value | None]) -> list[Spec]:
        from xdlc.converter.operators import protobuf

        rule = SHAPES.get(proto.op_type)
        if rule is None:
            raise UnsupportedOp(
                f"the shape of what {proto.op_type} gives is not known", fix="report the operator"
            )
        attributes = {item.name: protobuf.attribute_value(item) for item in proto.attribute}
        try:
            found = rule(
                attributes,
                [None if value is None else extents(value) for value in inputs],
                [None if value is None else value.dtype.numpy for value in inputs],
                [value.numpy() if value is not None and _is_small(value) else None for value in inputs],
            )
        except (ValueError, IndexError, TypeError, KeyError) as error:
            raise ModelError(f"its inputs do not fit the operator: {error}") from error
        specs = [Spec(None if shape is None else tuple(shape), dtype) for shape, dtype in found]
        return [*specs, *[Spec(None, None)] * len(proto.output)][: len(proto.output)]

    def _completed(self, name: str, spec: Spec, proto: Any, inputs: Sequence[Value | None]) -> Spec:
        """Return ``spec`` with what the whole model and the kind of the operator add to it."""
        shape, dtype = spec.shape, spec.dtype
        if dtype is None or shape is None or None in shape:
            other = self.of_model().get(name, Spec(None, None))
            dtype = dtype if dtype is not None else other.dtype
            shape = _merged(shape, other.shape)
        if dtype is None:
            raise UnsupportedOp(
                f"its output {name!r} is no tensor of numbers that a DLC can hold",
                fix="a DLC holds tensors of plain numbers: take out strings, sequences and narrow floats",
            )
        if shape is None and proto.op_type in _RANKS:
            rank = _RANKS[proto.op_type](proto, inputs)
            shape = None if rank is None else (None,) * rank
        if any(extent is not None and extent > _EXTENT_LIMIT for extent in shape or ()):
            raise ModelError(f"its output {name!r} has the impossible shape {list(shape or ())}")
        return Spec(shape, dtype)

    def of_model(self) -> dict[str, Spec]:
        """Return what is found over the whole model, by name of the value."""
        if self._whole is None:
            self._whole = self._infer_model()
        return self._whole

    def _infer_model(self) -> dict[str, Spec]:
        """Return what inference over the whole model finds, symbolic extents followed through."""
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self._file.proto)
        del model.graph.value_info[:]
        imported = {plain_domain(entry.domain) for entry in model.opset_import}
        for domain in sorted({domain_of(node) for node in all_nodes(model.graph)} - imported):
            model.opset_import.add(domain=domain, version=1)  # inference gives up on models that forgot it
        for entry in model.graph.input:
            bound = self._input_shapes.get(entry.name)
            if bound is not None and len(bound) == len(entry.type.tensor_type.shape.dim):
                for dim, extent in zip(entry.type.tensor_type.shape.dim, bound, strict=True):
                    if extent is not None:
                        dim.dim_value = extent
        try:
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception:  # what it finds is welcome; a model that it cannot follow is judged node by node
            return {}
        return {info.name: _spec(info.type) for info in (*inferred.graph.value_info, *inferred.graph.output)}


def extents(value: Value) -> Extents | None:
    """Return the shape of a value in the source's axis order, None for what is open."""
    if not value.ranked:
        return None
    shape: list[int | None] = list(value.shape)
    for axis in value.tensor.dynamic_axes:
        shape[value.order[axis]] = None
    return tuple(shape)


def _infer(proto: Any, opset: int, inputs: Sequence[Value | None]) -> list[Spec]:
    import onnx

    schema = _schema(proto, opset)
    types, data = {}, {}
    for name, value in zip(proto.input, inputs, strict=True):
        if not name or value is None:
            continue
        element = onnx.helper.np_dtype_to_tensor_dtype(value.dtype.numpy)
        types[name] = onnx.helper.make_tensor_type_proto(element, extents(value))
        if _is_small(value):
            data[name] = onnx.numpy_helper.from_array(value.numpy(), name)
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            proto,
            types,
            data,
            opset_imports=[onnx.helper.make_opsetid(proto.domain, max(opset, schema.since_version))],
        )
    except Exception as error:  # inference, type and validation errors have no common base
        raise ModelError(
            f"its inputs do not fit the operator: {' '.join(str(error).split())}",
            fix="check the model with onnx.checker",
        ) from error
    nothing = onnx.TypeProto()
    return [_spec(found.get(name, nothing)) for name in proto.output]


def _is_small(value: Value) -> bool:
    return value.is_static and value.size <= _VALUE_LIMIT


def _spec(kind: Any) -> Spec:
    from xdlc.converter.operators import protobuf

    if not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
        return Spec(None, None)
    try:
        dtype = protobuf.numpy_dtype(kind.tensor_type.elem_type)
    except KeyError:
        dtype = None
    if not kind.tensor_type.HasField("shape"):
        return Spec(None, dtype)
    dims = kind.tensor_type.shape.dim
    return Spec(tuple(_extent(dim) for dim in dims), dtype)


def _extent(dim: Any) -> int | None:
    """Return a stated extent; inference states -1 where it has met an open one."""
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
        f"there is no operator {proto.domain or 'ai.onnx'}::{proto.op_type} in version {opset}",
        fix="check the model with onnx.checker",
    )


def _merged(a: Extents | None, b: Extents | None) -> Extents | None:
    if a is None or b is None or len(a) != len(b):
        return a if a is not None else b
    return tuple(x if x is not None else y for x, y in zip(a, b, strict=True))


def _length_of(index: int) -> Callable[[Any, Sequence[Value | None]], int | None]:
    """Return a rule: the rank is the number of elements of an input."""

    def rule(_: Any, inputs: Sequence[Value | None]) -> int | None:
        value = inputs[index] if index < len(inputs) else None
        return None if value is None or value.is_dynamic else value.size

    return rule


def _rank_of_first(_: Any, inputs: Sequence[Value | None]) -> int | None:
    return None if inputs[0] is None or not inputs[0].ranked else inputs[0].rank


def _expanded(proto: Any, inputs: Sequence[Value | None]) -> int | None:
    wanted, rank = _length_of(1)(proto, inputs), _rank_of_first(proto, inputs)
    return None if wanted is None or rank is None else max(wanted, rank)


# What the rank of an output is, for operators whose extents are computed when the graph runs.
_RANKS: dict[str, Callable[[Any, Sequence[Value | None]], int | None]] = {
    "Reshape": _length_of(1),
    "ConstantOfShape": _length_of(0),
    "Expand": _expanded,
    **dict.fromkeys(("Tile", "Pad", "Resize", "Upsample", "Slice"), _rank_of_first),
}
