"""Ops of more axes than HTP supports, with neighbouring axes merged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.opdefs import elementwise_enums as enums
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import MISSING, form

_DEEP = {
    "ElementWiseUnary": (enums.ABS, enums.EXP, enums.RSQRT, enums.SQRT),
    "ElementWiseNeuron": (enums.GELU, enums.HARD_SWISH, enums.RELU, enums.SIGMOID),
}
"""Operations on floats of rank 5 that HTP has (SDK 2.51, SM8650)."""
_FLAT = (enums.EQUAL, enums.MAXIMUM, enums.MINIMUM, enums.NOT_EQUAL, enums.POWER, enums.SQUARED_DIFFERENCE)
"""Operations on two floats of rank 5 that it does not have."""
_LOGICAL = (enums.AND, enums.OR, enums.XOR)


@form(
    "Cast", "ElementWiseBinary", "ElementWiseNeuron", "ElementWiseSelect", "ElementWiseUnary", reason=MISSING
)
def _elements(w: Writer, op: Op, source: Tensor) -> bool:
    result = op.outputs[0]
    rank, most = result.rank, 5 if _has(op, source) else 4
    if rank <= most:
        return False
    operands = [operand for operand in op.inputs if operand is not None]
    shapes = [(1,) * (rank - operand.rank) + operand.shape for operand in operands]
    repeats = [tuple(shape[axis] != result.shape[axis] for shape in shapes) for axis in range(rank)]
    runs = _runs(result.shape, repeats)
    if len(runs) > most:
        if op.type != "ElementWiseBinary":
            return False
        operands = [w.expand(operand, result.shape) for operand in operands]
        shapes, runs = [result.shape] * len(operands), [list(range(rank))]
    if op.type == "Cast" and source.producer is None:  # which narrow_integers wants right after an input
        if w.graph.sole_consumer(source) is not op:
            return False
        source.shape = _merged(source.shape, runs)
    inputs = [
        w.reshape(operand, _merged(shape, runs)) for operand, shape in zip(operands, shapes, strict=True)
    ]
    _finish(w, op, inputs, _merged(result.shape, runs), op.params)
    return True


def _has(op: Op, source: Tensor) -> bool:
    """Return whether HTP has an element-wise op of rank 5."""
    operation = op.param("operation")
    if op.type in _DEEP:
        return operation in _DEEP[op.type]
    if op.type != "ElementWiseBinary":
        return True
    return operation not in (*_LOGICAL, *(_FLAT if source.dtype.is_float else ()))


@form("Transpose", reason=MISSING)
def _transpose(w: Writer, op: Op, source: Tensor) -> bool:
    """Merge axes that stay adjacent.

    If more than five groups remain, the first two of the result are joined by a Transpose
    before.
    """
    if source.rank < 6:
        return False
    perm = [int(axis) for axis in op.param("perm")]
    moved_axes = [axis for axis in perm if source.shape[axis] != 1]
    places = {axis: place for place, axis in enumerate(moved_axes)}
    shifts = {axis: places[axis] - number for number, axis in enumerate(sorted(moved_axes))}
    runs = _runs(source.shape, [shifts.get(axis) for axis in range(source.rank)])
    ends = [next((axis for axis in run if source.shape[axis] != 1), run[0]) for run in runs]
    order = sorted(range(len(runs)), key=lambda run: places.get(ends[run], 0))
    x = w.reshape(source, _merged(source.shape, runs))
    if len(runs) > 5:
        moved = [run for run in range(len(runs)) if run != order[1]]
        moved.insert(moved.index(order[0]) + 1, order[1])
        x, order = w.transposed(x, moved), [moved.index(run) for run in order]
    w.finish(w.reshape(w.transposed(x, order), op.outputs[0].shape))
    return True


@form("Reshape", reason=MISSING)
def _reshape(w: Writer, op: Op, source: Tensor) -> bool:
    """Read the input of a preceding Reshape, and lower the ranks of the operands."""
    result, before = op.outputs[0], source.producer
    if result.rank > 5 and w.graph.is_output(result) and _is_reshaped(w, result):
        result.shape = (result.size,)
        return True
    if source.rank < 6 or not _is_reshaped(w, source):
        return False
    if before is None:
        source.shape = (source.size,)
        return True
    if before.type != "Reshape" or before.package != ir.NATIVE_PACKAGE or w.graph.is_output(source):
        return False
    w.graph.set_inputs(op, before.inputs)
    if not w.graph.consumers(source):
        w.graph.remove(before)
    return True


def _is_reshaped(w: Writer, x: Tensor) -> bool:
    """Return whether only Reshapes read a tensor."""
    return all(op.type == "Reshape" and op.package == ir.NATIVE_PACKAGE for op in w.graph.consumers(x))


@form("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", reason=MISSING)
def _reduce(w: Writer, op: Op, source: Tensor) -> bool:
    """Reduce one merged axis, after a Transpose if the axes are not adjacent."""
    axes = sorted(int(axis) for axis in op.param("axes"))
    is_extreme, is_integer = op.type in ("ReduceMax", "ReduceMin"), source.dtype.is_integer
    if source.rank < (5 if is_integer or is_extreme else 6) or not axes:
        return False
    if is_integer and op.type != "ReduceMean":
        return _each(w, op, source, axes)
    if source.rank == 5 and len(axes) == 1:
        return False
    x, start = source, axes[0]
    if axes[-1] - start >= len(axes):
        start = source.rank - len(axes)
        x = w.transposed(source, [*(axis for axis in range(source.rank) if axis not in axes), *axes])
    sizes = [math.prod(x.shape[:start]), math.prod(x.shape[start : start + len(axes)])]
    flat = w.reshape(x, (*sizes, x.size // math.prod(sizes)))
    params = {**op.params, "axes": ir.u32s([1]), "keep_dims": ir.b8(True)}
    _finish(w, op, [flat], (sizes[0], 1, flat.shape[2]), params)
    return True


def _each(w: Writer, op: Op, source: Tensor, axes: Sequence[int]) -> bool:
    """Reduce integers along one axis at a time.

    HTP has no Transpose of five axes of integers.
    """
    params, sizes, x = {**op.params, "axes": ir.u32s([1]), "keep_dims": ir.b8(True)}, [*source.shape], source
    for axis in axes:
        before, after = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
        x = w.reshape(x, (before, sizes[axis], after))
        x, sizes[axis] = w.emit(op.type, [x], (before, 1, after), params, op.outputs[0].dtype), 1
    w.finish(w.reshape(x, op.outputs[0].shape))
    return True


@form("L2Norm", "LayerNorm", "LogSoftmax", "Softmax", reason=MISSING)
def _last(w: Writer, op: Op, source: Tensor) -> bool:
    """Merge the axes before the last axes, along which values are normalized."""
    name = "axes" if "axes" in op.params else "axis"
    axes = sorted(int(axis) for axis in numpy.reshape(op.param(name, source.rank - 1), -1))
    first = source.rank - len(axes)
    if source.rank < (6 if op.type == "Softmax" else 5) or axes != list(range(first, source.rank)):
        return False
    shape = (math.prod(source.shape[:first]), *source.shape[first:])
    if len(shape) >= source.rank:
        return False
    places = range(1, len(shape))
    params = {**op.params, name: ir.u32(places[0]) if name == "axis" else ir.u32s([*places])}
    _finish(w, op, [w.reshape(source, shape), *op.inputs[1:]], shape, params)
    return True


@form("Batchnorm", "GroupNorm", "InstanceNorm", reason=MISSING)
def _channels(w: Writer, op: Op, source: Tensor) -> bool:
    """Merge axes so that an instance or group norm has rank 4."""
    shape = source.shape
    if op.type == "Batchnorm" and source.rank > 4:
        shape = (math.prod(shape[:-1]), shape[-1])
    elif op.type != "Batchnorm" and source.rank > 4:
        shape = (shape[0], 1, math.prod(shape[1:-1]), shape[-1])
    else:
        return False
    _finish(w, op, [w.reshape(source, shape), *op.inputs[1:]], shape, op.params)
    return True


@form("MatMul")
def _batches(w: Writer, op: Op, source: Tensor) -> bool:
    """Merge the batch axes of a product of five axes or more into two at most.

    HTP computes other numbers, or ends, where they are broadcast or of fixed point (v68 to v81).
    """
    second, result = op.inputs[1], op.outputs[0]
    if second is None or result.rank < 5 or isinstance(second.encoding, ir.AxisScaleOffset):
        return False
    batch = result.shape[:-2]
    operands = [w.reshape(each, (1,) * (result.rank - each.rank) + each.shape) for each in (source, second)]

    def runs() -> list[list[int]]:
        repeats = [tuple(x.shape[axis] != size for x in operands) for axis, size in enumerate(batch)]
        return _runs(batch, repeats)

    for place in sorted((0, 1), key=lambda place: math.prod(operands[place].shape[-2:])):
        if len(runs()) > 2:
            operands[place] = w.expand(operands[place], (*batch, *operands[place].shape[-2:]))
    merged = runs()
    inputs = [w.reshape(x, (*_merged(x.shape, merged), *x.shape[-2:])) for x in operands]
    _finish(w, op, [*inputs, *op.inputs[2:]], (*_merged(batch, merged), *result.shape[-2:]), op.params)
    return True


def _finish(
    w: Writer, op: Op, inputs: Sequence[Tensor | None], shape: Sequence[int], params: Mapping[str, ir.Param]
) -> None:
    folded = w.again(inputs, shape, **params)
    if op.is_inserted and folded.producer is not None:
        folded.producer.origin = op.origin  # by which the form that inserted it knows it
    w.finish(w.reshape(folded, op.outputs[0].shape))


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
