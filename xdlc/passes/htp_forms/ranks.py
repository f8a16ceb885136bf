"""Ops of more axes than HTP supports, with neighbouring axes as one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.opdefs import elementwise_enums as enums
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form

_DEEP = {
    "ElementWiseUnary": (enums.ABS, enums.EXP, enums.RSQRT, enums.SQRT),
    "ElementWiseNeuron": (enums.GELU, enums.HARD_SWISH, enums.RELU, enums.SIGMOID),
}
"""Operations on floats of rank 5 that HTP has (SDK 2.51, SM8650)."""
_FLAT = (enums.EQUAL, enums.MAXIMUM, enums.MINIMUM, enums.NOT_EQUAL, enums.SQUARED_DIFFERENCE)
"""Operations on two floats of rank 5 that it does not have."""


@form(
    "Cast", "ElementWiseBinary", "ElementWiseNeuron", "ElementWiseSelect", "ElementWiseUnary", reason=MISSING
)
def _elements(w: Writer, op: Op, source: Tensor) -> bool:
    result = op.outputs[0]
    rank = result.rank
    if rank < 5 or (rank == 5 and _has(op, source)):
        return False
    shapes = [((1,) * (rank - each.rank) + each.shape) for each in op.inputs if each is not None]
    repeats = [tuple(shape[axis] != result.shape[axis] for shape in shapes) for axis in range(rank)]
    runs = _runs(result.shape, repeats)
    if len(runs) > 4:
        return False
    inputs = [w.reshape(each, _merged(shape, runs)) for each, shape in zip(filter(None, op.inputs), shapes, strict=True)]
    _finish(w, op, inputs, _merged(result.shape, runs), op.params)
    return True


def _has(op: Op, source: Tensor) -> bool:
    """Return whether HTP has an element-wise op of rank 5."""
    operation = op.param("operation")
    if op.type in _DEEP:
        return operation in _DEEP[op.type]
    if op.type != "ElementWiseBinary":
        return True
    return operation not in _FLAT or not source.dtype.is_float


@form("Transpose", reason=MISSING)
def _transpose(w: Writer, op: Op, source: Tensor) -> bool:
    perm = [int(axis) for axis in op.param("perm")]
    if source.rank < 6:
        return False
    places = {axis: place for place, axis in enumerate(perm)}
    gaps = [places[axis] - axis for axis in range(source.rank)]
    runs = _runs(source.shape, gaps)
    if len(runs) > 5:
        return False
    first = [places[next((axis for axis in run if source.shape[axis] != 1), run[0])] for run in runs]
    order = sorted(range(len(runs)), key=first.__getitem__)
    flat = w.reshape(source, _merged(source.shape, runs))
    w.finish(w.reshape(w.transposed(flat, order), op.outputs[0].shape))
    return True


@form("Reshape", reason=MISSING)
def _reshape(w: Writer, op: Op, source: Tensor) -> bool:
    before = source.producer
    if source.rank < 6 or before is None or before.type != "Reshape" or before.package != ir.NATIVE_PACKAGE:
        return False
    first, unread = before.inputs[0], w.graph.sole_consumer(source) is op
    if first is None:
        return False
    if first.shape == op.outputs[0].shape and not w.graph.is_output(op.outputs[0]):
        w.graph.replace(op.outputs[0], first)
        w.graph.remove(op)
    else:
        w.graph.set_inputs(op, [first])
    if unread:
        w.graph.remove(before)
    return True


@form("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", reason=MISSING)
def _reduce(w: Writer, op: Op, source: Tensor) -> bool:
    axes = {int(axis) for axis in op.param("axes")}
    runs = _runs(source.shape, [axis in axes for axis in range(source.rank)])
    if source.rank < (5 if op.type in ("ReduceMax", "ReduceMin") else 6) or len(runs) > 4:
        return False
    reduced = [
        place for place, run in enumerate(runs) if any(axis in axes and source.shape[axis] > 1 for axis in run)
    ] or [0]
    folded = _merged(source.shape, runs)
    shape = [1 if place in reduced else dim for place, dim in enumerate(folded)]
    params = {**op.params, "axes": ir.u32s(reduced), "keep_dims": ir.b8(True)}
    _finish(w, op, [w.reshape(source, folded)], shape, params)
    return True


@form("L2Norm", "LayerNorm", "LogSoftmax", "Softmax", reason=MISSING)
def _last(w: Writer, op: Op, source: Tensor) -> bool:
    """Fold the axes before the last ones, along which values are normalized."""
    name = "axis" if "axis" in op.params else "axes"
    axes = sorted(int(axis) for axis in numpy.reshape(op.param(name, ()), -1))
    first = source.rank - len(axes)
    if source.rank < 5 or (op.type == "Softmax" and source.rank == 5) or axes != list(range(first, source.rank)):
        return False
    shape = (math.prod(source.shape[:first]), *source.shape[first:])
    places = range(1, len(shape))
    params = {**op.params, name: ir.u32(places[0]) if name == "axis" else ir.u32s([*places])}
    _finish(w, op, [w.reshape(source, shape), *op.inputs[1:]], shape, params)
    return True


@form("Batchnorm", "InstanceNorm", reason=MISSING)
def _channels(w: Writer, op: Op, source: Tensor) -> bool:
    """Fold the axes that are alike, so that four are left of a norm of instances."""
    shape = source.shape
    if op.type == "Batchnorm" and source.rank > 4:
        shape = (math.prod(shape[:-1]), shape[-1])
    elif op.type == "InstanceNorm" and (source.rank > 4 or (source.rank == 3 and shape[0] > 1)):
        shape = (shape[0], 1, math.prod(shape[1:-1]), shape[-1])
    else:
        return False
    _finish(w, op, [w.reshape(source, shape), *op.inputs[1:]], shape, op.params)
    return True


def _finish(w: Writer, op: Op, inputs: Sequence[Tensor | None], shape: Sequence[int], params: Mapping[str, ir.Param]) -> None:
    result = op.outputs[0]
    folded = w.emit(op.type, inputs, shape, params, result.dtype, result.encoding)
    w.finish(w.reshape(folded, result.shape))


def _runs(shape: Sequence[int], kinds: Sequence[object]) -> list[list[int]]:
    """Return runs of neighbouring axes of one kind; axes of 1 go with any."""
    runs: list[list[int]] = []
    last: object = None
    for axis, kind in enumerate(kinds):
        if runs and (shape[axis] == 1 or last is None or kind == last):
            runs[-1].append(axis)
        else:
            runs.append([axis])
        last = last if shape[axis] == 1 else kind
    return runs


def _merged(shape: Sequence[int], runs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis] for axis in run) for run in runs)
