"""What an operator of ONNX gives, as ONNX itself tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.ir.dtype import FLOAT32, DType, from_numpy
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.udo.plugin.builtin import Builtin

MAX_ELEMENTS = 1024


def builtin_outputs(builtin: Builtin, op: OpView, count: int) -> tuple[TensorSpec, ...] | None:
    """Return the outputs of an op that overrides an operator of ONNX; None where ONNX does not know them.

    Args:
        builtin: The operator.
        op: The op; its inputs have the source's order of axes.
        count: How many outputs there are.
    """
    import onnx

    names = ["" if spec is None else f"in{place}" for place, spec in enumerate(op.inputs)]
    results = [f"out{place}" for place in range(count)]
    given = {name: spec for name, spec in zip(names, op.inputs, strict=True) if spec is not None}
    params = {name: op.params[name] for name in builtin.params if op.params.get(name) is not None}
    try:
        node = onnx.helper.make_node(
            builtin.type, names, results, domain=builtin.domain, **_attributes(params)
        )
        schema = onnx.defs.get_schema(builtin.type, builtin.domain)
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            {name: _type(spec) for name, spec in given.items()},
            {name: _elements(spec) for name, spec in given.items() if _is_small(spec)},
            opset_imports=[onnx.helper.make_opsetid(builtin.domain, schema.since_version)],
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, TypeError):
        return None
    specs = [_spec(found.get(name)) for name in results]
    known = tuple(spec for spec in specs if spec is not None)
    return known if len(known) == count else None


def _attributes(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as attributes that ``make_node`` takes."""
    import onnx

    return {
        name: onnx.numpy_helper.from_array(value) if hasattr(value, "dtype") and value.shape else value
        for name, value in params.items()
        if not (isinstance(value, list) and not value)
    }


def _element_type(dtype: DType) -> int:
    import onnx

    plain = FLOAT32 if dtype.is_fixed else dtype
    return int(onnx.helper.np_dtype_to_tensor_dtype(plain.numpy))


def _type(spec: TensorSpec) -> Any:
    import onnx

    return onnx.helper.make_tensor_type_proto(_element_type(spec.dtype), list(spec.shape))


def _is_small(spec: TensorSpec) -> bool:
    return spec.data is not None and spec.dtype.is_integer and spec.data.nbytes <= 8 * MAX_ELEMENTS


def _elements(spec: TensorSpec) -> Any:
    import onnx

    assert spec.data is not None
    return onnx.numpy_helper.from_array(spec.data.numpy())


def _spec(found: Any) -> TensorSpec | None:
    """Return an output that ONNX tells with its rank; a single number is a tensor of one element."""
    import onnx

    if found is None or not found.HasField("tensor_type") or not found.tensor_type.HasField("shape"):
        return None
    extents = tuple(
        dim.dim_value if dim.HasField("dim_value") else None for dim in found.tensor_type.shape.dim
    )
    dtype = from_numpy(onnx.helper.tensor_dtype_to_np_dtype(found.tensor_type.elem_type))
    return TensorSpec(extents or (1,), dtype)
