"""Operators that fill tensors: stored values as lazy data, constants, integers.

Arguments: caffe2/operators/filler_op.h, given_tensor_fill_op.h and quantized/int8_given_tensor_fill_op.h.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.caffe2.messages import DATA_TYPES
from xdlc.converter.caffe2.netdef import OperatorDef, as_integers, check_dims, dtype_of, shaped
from xdlc.converter.session.context import Allowance
from xdlc.errors import ModelError, UnsupportedOp

INT8 = {"Int8GivenTensorFill": np.uint8, "Int8GivenIntTensorFill": np.int32}
"""Fills of quantized tensors, and the type of their integers."""
_GIVEN = {
    "GivenTensorFill": np.float32,
    "GivenTensorDoubleFill": np.float64,
    "GivenTensorIntFill": np.int32,
    "GivenTensorInt64Fill": np.int64,
    "GivenTensorInt16Fill": np.int16,
    "GivenTensorBoolFill": np.bool_,
    "GivenTensorByteStringToUInt8Fill": np.uint8,
    **INT8,
}
"""Fills with stored values, and their type."""
_CONSTANT = {"ConstantFill": "FLOAT", "Float16ConstantFill": "FLOAT16"}
"""Fills with one number, and their type unless an argument states it."""
_READ = frozenset({"shape", "values", "value", "dtype", "run_once", "Y_scale", "Y_zero_point"})
MOST_CONSTANT = 1 << 28
"""Bytes that the constants of a net have together."""


def is_constant(op: OperatorDef) -> bool:
    """Return whether an operator is a fill with a static result."""
    known = op.type in _GIVEN or op.type in _CONSTANT or op.type == "GivenTensorStringFill"
    return known and op.is_fill and len(op.outputs) == 1


def filled(op: OperatorDef, constants: Allowance) -> ir.TensorData:
    """Return the result of a fill.

    Args:
        op: The operator, of which ``is_constant`` holds.
        constants: Bytes that filling with one number may still make.

    Raises:
        ModelError: If its values do not fit its shape, or the shape is impossible.
        UnsupportedOp: If they are not numbers, are too many, or an argument is unknown.
    """
    idle = {
        name for name in ("extra_shape", "input_as_shape") if name in op.args and not op.args[name].value()
    }
    unread = op.args.keys() - _READ - idle
    if unread:
        problem = f"argument {', '.join(sorted(unread))} is not supported"
        raise UnsupportedOp(problem, where=op.where, fix="remove the argument if it has no effect")
    if op.type in _CONSTANT:
        return _constant(op, constants)
    if op.type not in _GIVEN:
        fix = "export the net without text"
        raise UnsupportedOp("fills a tensor with strings, which a DLC cannot hold", where=op.where, fix=fix)
    dtype, values = np.dtype(_GIVEN[op.type]), op.args.get("values")
    if values is None:
        raise ModelError("has no argument 'values'", where=op.where, fix="export the net again")
    if dtype == np.uint8:
        data = values.octets()
    elif dtype.kind == "f":
        data = values.reals().cast(dtype)
    else:
        data = as_integers(values.integers(), dtype, values.where)
    return shaped(data, dims_of(op), op.where)


def dims_of(op: OperatorDef) -> list[int]:
    """Return the shape that a fill states."""
    return op.args["shape"].integers() if "shape" in op.args else []


def fill_dtype(op: OperatorDef) -> np.dtype[Any]:
    """Return the type of a fill's result.

    Raises:
        UnsupportedOp: If it is not numeric.
    """
    if op.type in _GIVEN:
        return np.dtype(_GIVEN[op.type])
    has_integer = "value" in op.args and op.args["value"].fields.get("i")
    number = DATA_TYPES["INT64" if has_integer else _CONSTANT.get(op.type, "FLOAT")]
    stated = op.args["dtype"].integers() if "dtype" in op.args else []
    return dtype_of((stated or [number])[-1], op.where)


def _constant(op: OperatorDef, constants: Allowance) -> ir.TensorData:
    """Return the result of a fill with one number, 0 by default."""
    dtype, dims = fill_dtype(op), dims_of(op)
    value: Any = op.args["value"].value() if "value" in op.args else 0
    check_dims(dims, op.where)
    if not constants.take(math.prod(dims) * dtype.itemsize):
        problem = f"fills a tensor of shape {dims}: constants have at most {MOST_CONSTANT} bytes together"
        raise ModelError(problem, where=op.where, fix="correct the shape")
    with np.errstate(all="ignore"):
        number = np.asarray(value).astype(dtype) if isinstance(value, (int, float)) else None
    if number is None or (dtype.kind in "iu" and number != value):
        problem = f"its value {value!r:.40} is not a number of type {dtype.name}"
        raise ModelError(problem, where=op.where, fix="export the net again")
    return ir.fill(ir.ArrayData(number), dims)
