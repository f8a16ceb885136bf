"""Models of one random node of a plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import loads
from typing import Any

from xdlc.ir.dtype import FLOAT32, STRING, DType
from xdlc.udo.plugin.declaration import Declaration
from xdlc.udo.plugin.kinds import REQUIRED, Kind

Array = Any  # numpy.ndarray


def random_node(
    declared: Declaration, rng: Any, shapes: Mapping[str, Sequence[int]], attributes: Mapping[str, Any]
) -> tuple[bytes, dict[str, Array]]:
    """Return an ONNX model of one node of a plugin, and its inputs.

    Args:
        declared: What the plugin declares.
        rng: Generator of random numbers.
        shapes: Shapes of inputs by name; others get a common random one, of 4 axes or of the stated number.
        attributes: Attributes by name; others are random, optional ones omitted half of the time.
    """
    import onnx
    from onnx import helper, numpy_helper

    common = (*map(int, rng.integers(1, 6, 4)), *[2] * 12)
    stated = {
        key: kind for key, kind in declared.kinds.items() if kind.default is REQUIRED or rng.random() < 0.5
    }
    values = {kind.source or key: _value(kind, rng) for key, kind in stated.items()} | dict(attributes)
    names, feeds, weights = [], {}, []
    for tensor in declared.definition.inputs:
        is_omitted = not tensor.mandatory and tensor.name not in shapes and rng.random() < 0.5
        names.append("" if is_omitted else tensor.name)
        plain = [dtype for dtype in tensor.dtypes if not dtype.is_fixed]
        dtype = FLOAT32 if FLOAT32 in plain or not plain else plain[0]
        array = _array(
            dtype, shapes.get(tensor.name, common[: 4 if tensor.rank is None else tensor.rank]), rng
        )
        if tensor.is_static and not is_omitted:
            weights.append(numpy_helper.from_array(array, tensor.name))
        elif not is_omitted:
            feeds[tensor.name] = array
    domain = "" if onnx.defs.has(declared.types[0]) else "checked"
    outputs = [tensor.name for tensor in declared.definition.outputs if tensor.mandatory] or ["result"]
    given = {key: numpy_helper.from_array(v, key) if hasattr(v, "dtype") else v for key, v in values.items()}
    node = helper.make_node(declared.types[0], names, outputs, "checked", domain=domain, **given)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "checked", inputs, ends, weights)
    opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version()), helper.make_opsetid("checked", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), feeds


def _array(dtype: DType, shape: Sequence[int], rng: Any) -> Array:
    import numpy

    if dtype.is_float:
        return numpy.asarray(rng.standard_normal(shape), dtype.numpy)
    return numpy.asarray(rng.integers(0, 2 if dtype.kind == "bool" else 4, shape), dtype.numpy)


def _value(kind: Kind, rng: Any) -> Any:
    """Return a value of the source for a kind of parameter."""
    param, dtype = kind.definition, kind.definition.dtypes[0]
    if param.enumeration:
        return param.enumeration[int(rng.integers(len(param.enumeration)))]
    if dtype is STRING:
        return "text" if kind.read is not loads else ["a", "b"]
    array = _array(dtype, [2] * (1 if param.rank is None else param.rank), rng)
    if param.is_scalar:
        return float(array) if dtype.is_float else int(array)
    return array.tolist() if param.rank == 1 else array
