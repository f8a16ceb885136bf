"""Helpers of shape rules: dynamic sums, and rules of equivalent operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdlc.converter.values import Dims
from xdlc.ir import ArrayData
from xdlc.runtime.onnx_evaluator import RefusedError, alone, infer_shapes

Output = tuple[Dims | None, Any]
Rule = Callable[
    [Mapping[str, Any], Sequence[Dims | None], Sequence[Any], Sequence[Any]],
    Sequence[Output],
]
"""(attributes, input shapes, input dtypes, values of small static inputs) to (shape, numpy dtype)."""

_VERSION = 17  # opset whose operators stand in for those that are the same but for their types


def float32() -> Any:
    """Return the numpy dtype."""
    import numpy

    return numpy.dtype(numpy.float32)


def int64() -> Any:
    """Return the numpy dtype."""
    import numpy

    return numpy.dtype(numpy.int64)


def at(items: Sequence[Any], index: int) -> Any:
    """Return an item; None if it is omitted."""
    return items[index] if index < len(items) else None


def plus(*extents: int | None) -> int | None:
    """Return a sum of dimensions; None if one of them is dynamic."""
    known = [extent for extent in extents if extent is not None]
    return sum(known) if len(known) == len(extents) else None


def times(extent: int | None, factor: int) -> int | None:
    """Return a multiple of a dimension, dynamic if that is."""
    return None if extent is None else extent * factor


def over(extent: int | None, divisor: int) -> int | None:
    """Return a quotient of a dimension; None if it is dynamic."""
    return None if extent is None else extent // divisor


def stand_in(
    type: str,
    attributes: Mapping[str, Any],
    shapes: Sequence[Dims | None],
    values: Sequence[Any] = (),
    dtypes: Sequence[Any] = (),
) -> Dims | None:
    """Return the first output's shape by ONNX's inference of an operator.

    Quantized operands count as floats; only positions and conditions keep their types.
    """
    import numpy
    import onnx

    schema = onnx.defs.get_schema(type, _VERSION)
    given = {key: value for key, value in attributes.items() if key in schema.attributes}
    names = [f"input{index}" for index in range(len(shapes))]
    node = onnx.helper.make_node(type, names, ["output"], **given)
    kept = [dtype if dtype in ("int32", "int64", "bool") else numpy.dtype("float32") for dtype in dtypes]
    kept += [numpy.dtype("float32")] * (len(names) - len(kept))
    types = {name: (dtype, shape) for name, dtype, shape in zip(names, kept, shapes, strict=True)}
    data = {name: ArrayData(value) for name, value in zip(names, values, strict=False) if value is not None}
    try:
        kind = infer_shapes(alone(node, _VERSION, types, data), strict=True).graph.output[0].type.tensor_type
    except RefusedError as error:
        raise ValueError(str(error)) from error
    if not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)


def like(type: str, *positions: int, of: int = 0) -> Rule:
    """Return a rule: the shape of an ONNX operator on some of the inputs.

    Args:
        type: The operator of ONNX.
        positions: Its inputs; default: all.
        of: Input whose data type the output has.
    """

    def rule(
        attributes: Mapping[str, Any], shapes: Sequence[Dims | None], dtypes: Sequence[Any], values: Any
    ) -> list[Output]:
        chosen = positions or range(len(shapes))
        present = [index for index in chosen if at(dtypes, index) is not None]
        inputs = [shapes[index] for index in present]
        last = bool(attributes.get("channels_last"))
        if last:
            inputs = [channels_first(shape) for shape in inputs]
        output = stand_in(
            type,
            attributes,
            inputs,
            [values[index] for index in present],
            [dtypes[index] for index in present],
        )
        return [(channels_last(output) if last else output, dtypes[of])]

    return rule


def channels_first(shape: Dims | None) -> Dims | None:
    """Return a shape with its last axis after the first one."""
    return None if shape is None else (shape[0], shape[-1], *shape[1:-1])


def channels_last(shape: Dims | None) -> Dims | None:
    """Return a shape with axis 1 at the end."""
    return None if shape is None else (shape[0], *shape[2:], shape[1])


def same(of: int = 0, dtype: int | None = None) -> Rule:
    """Return a rule: the shape of input ``of``, with the type of input ``dtype``."""

    def rule(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
        return [(shapes[of], dtypes[of if dtype is None else dtype])]

    return rule
