"""Inputs of Caffe2 nets, and operators that fill tensors with stored values.

Arguments: caffe2/operators/filler_op.h, given_tensor_fill_op.h and quantized/int8_given_tensor_fill_op.h.

Nets state no shapes; they are given, or in a file beside the nets, or those of a stand-in.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.caffe2.netdef import (
    DATA_TYPES,
    NetDef,
    OperatorDef,
    as_integers,
    check_dims,
    dtype_of,
    shaped,
)
from xdlc.converter.session.context import Allowance
from xdlc.converter.session.node import GraphInput
from xdlc.converter.values import EXTENT_LIMIT, RANK_LIMIT
from xdlc.errors import ModelError, UnsupportedOp, UsageError, XdlcError, nearest_names
from xdlc.ir import dtype as types
from xdlc.options import spell

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
        problem = f"xdlc does not support the argument {', '.join(sorted(unread))}"
        raise UnsupportedOp(problem, where=op.where, fix="remove the argument if the model does not need it")
    if op.type in _CONSTANT:
        return _constant(op, constants)
    if op.type not in _GIVEN:
        fix = "export the net without strings"
        raise UnsupportedOp(
            "the operator fills a tensor with strings, which a DLC cannot hold", where=op.where, fix=fix
        )
    dtype, values = np.dtype(_GIVEN[op.type]), op.args.get("values")
    if values is None:
        raise ModelError("the operator has no argument 'values'", where=op.where, fix="export the net again")
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
        problem = f"the constants are too large at shape {dims}; xdlc supports at most {MOST_CONSTANT} bytes"
        raise ModelError(problem, where=op.where, fix="correct the shape")
    with np.errstate(all="ignore"):
        number = np.asarray(value).astype(dtype) if isinstance(value, (int, float)) else None
    if number is None or (dtype.kind in "iu" and number != value):
        problem = f"its argument value, {value!r:.40}, is not a number of type {dtype.name}"
        raise ModelError(problem, where=op.where, fix="export the net again")
    return ir.fill(ir.ArrayData(number), dims)


_INDICES = {"Gather": (1,), "BatchGather": (1,), "BatchOneHot": (0,), "OneHot": (0, 1)}
"""Inputs that are integers, by operator."""
_MOST_SHOWN = 8
_MOST_TYPOS = 8


def find_inputs(
    predict: NetDef,
    init: NetDef | None,
    named: Collection[str],
    stated: Mapping[str, GraphInput],
    notices: list[str],
) -> tuple[dict[str, GraphInput], dict[str, XdlcError]]:
    """Return a net's inputs in its order, and errors of names without type and shape.

    Args:
        init: The net that fills its weights, if there is one.
        named: Names whose shape or value the user states.
        stated: Inputs whose shapes a file beside the nets states.
        notices: Gets a line for each stand-in.

    Raises:
        UsageError: If the init net fills all that the net reads, and no name is given; or if the only input
            has no shape, and another name is given.
    """
    first = init.ops if init is not None else ()
    filled = dict.fromkeys(name for op in first for name in op.outputs)
    fills = {op.outputs[0]: op for op in first if is_constant(op)}
    free = _free([*first, *predict.ops])
    initial = next((op.inputs[0] for op in predict.ops if op.inputs), "")
    candidates = {*free, *named, *stated}
    if initial in predict.inputs[:1] and initial in fills:
        fill = fills[initial]
        candidates.update([initial] if fill.type == "ConstantFill" or _shape(fill) is None else [])
    indices = {
        name for op in predict.ops for at in _INDICES.get(op.type, ()) for name in op.inputs[at : at + 1]
    }
    inputs: dict[str, GraphInput] = {}
    for name in filter(candidates.__contains__, dict.fromkeys((*predict.inputs, *free, *filled))):
        dims: Sequence[int | str] | None = None
        dtype = types.INT32 if name in indices else types.FLOAT32
        if name in fills:
            notices.append(f"{name!r} is an input: xdlc ignores its value in the init net")
            dims = None if name in named else _shape(fills[name])
            dtype = types.from_numpy(fill_dtype(fills[name]))
        inputs[name] = stated.get(name) or GraphInput(name, dtype, dims)
    if not inputs and initial in filled:
        problem = f"the net has no input: the init net fills all values that the net reads, {initial!r} first"
        fix = f"name the input with its shape: {spell('input_dims')} {quote(initial)} N,C,H,W"
        raise UsageError(problem, where=str(predict.path), fix=fix)
    unknown = [name for name, entry in inputs.items() if entry.dims is None and name not in named]
    usable = {name: entry for name, entry in inputs.items() if entry.dims is not None or name in named}
    problems = _errors(predict, init, unknown, len(inputs), free)
    strays = [name for name in named if name not in inputs]
    if strays and len(unknown) == len(inputs) == 1 and unknown[0] in problems:
        problems[unknown[0]].problem += f"; {strays[0]!r}, which you named in an option, is not an input"
        raise problems[unknown[0]]
    return usable, problems


def _free(ops: Sequence[OperatorDef]) -> dict[str, OperatorDef]:
    """Return names that are read before they are written, with their first readers."""
    done = {""}
    readers: dict[str, OperatorDef] = {}
    for op in ops:
        for name in op.inputs:
            if name not in done:
                readers.setdefault(name, op)
        done.update(op.outputs)
    return readers


def _shape(stand_in: OperatorDef) -> list[int] | None:
    """Return the shape of a stand-in; None for one element."""
    dims = dims_of(stand_in)
    is_shape = len(dims) <= RANK_LIMIT and all(0 < size <= EXTENT_LIMIT for size in dims)
    return dims if is_shape and math.prod(dims) > 1 else None


def _errors(
    predict: NetDef,
    init: NetDef | None,
    names: Sequence[str],
    count: int,
    readers: Mapping[str, OperatorDef],
) -> dict[str, XdlcError]:
    """Return errors of names without type and shape, among ``count`` inputs."""
    errors: dict[str, XdlcError] = {}
    if init is not None and predict.inputs:
        made = [name for net in (init, predict) for op in net.ops for name in op.outputs]
        listed = set(predict.inputs)
        typos = [name for name in names if name not in listed][:_MOST_TYPOS]
        errors = {name: _typo(name, [*predict.inputs, *made], readers[name].where) for name in typos}
    rest = [name for name in names if name not in errors]
    if not rest:
        return errors
    shape = f"{spell('input_dims')} {quote(rest[0])} N,C,H,W (a size for each dimension, batch included)"
    more = f" and {len(rest) - _MOST_SHOWN} more" if len(rest) > _MOST_SHOWN else ""
    shown = ", ".join(map(repr, rest[:_MOST_SHOWN])) + more
    kind: type[XdlcError] = UsageError
    if init is None:
        beside = predict.path.with_name("init_net.pb")
        file = beside if beside.is_file() and beside != predict.path else "init_net.pb"
        missing, fix = "weights are missing", f"pass {spell('weights')} {quote(str(file))}"
        if count == len(rest):
            missing, fix = "weights and input shape are missing", f"{fix} and {shape}"
        problem = (
            f"{missing}: no operator fills or writes {len(rest)} of the values that the net reads: {shown}"
        )
    elif count == 1:
        problem, fix = f"the shape of input {shown} is missing", f"pass {shape}"
    else:
        kind = ModelError
        problem = (
            f"no operator writes {shown}, {init.path.name} does not fill it, and you passed no shape for it"
        )
        fix = f"pass the init net of the same model, or the shape of an input: {shape}"
    return errors | dict.fromkeys(rest, kind(problem, where=str(predict.path), fix=fix))


def _typo(name: str, names: Sequence[str], where: str) -> ModelError:
    """Return the error of an operator that reads a name that no net states."""
    if name in names:
        fix = "write the operators in the order in which they run"
        return ModelError(
            f"the operator reads {name!r}, which no earlier operator writes", where=where, fix=fix
        )
    fix = nearest_names(name, names) or "export the net again"
    return ModelError(f"the operator reads {name!r}, which no operator writes", where=where, fix=fix)
