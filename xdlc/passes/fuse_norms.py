"""Fusion of norms of the last axis, written out with sums and means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import MAXIMUM, MINIMUM, RSQRT, SQRT, SQUARED_DIFFERENCE, SUBTRACT
from xdlc.passes._match import (
    NORM_RANKS,
    binary,
    by_rows,
    constant_number,
    is_native,
    made,
    match,
    matches,
    replace_by,
    square,
)
from xdlc.passes._polynomial import Terms, agrees, is_arithmetic, is_axis_view, reached, terms
from xdlc.passes.base import op_pass
from xdlc.records import record

_ROOTS = (("ElementWiseUnary", RSQRT), ("ElementWiseUnary", SQRT))
_REDUCTIONS = ("ReduceMean", "ReduceSum")
_STEPS = 8
_LEAST = 1.2e-38  # of normal numbers of float32
_SQUARES = made("ReduceSum", square("x"), where=by_rows)
_DEVIATION = (
    binary(SQUARED_DIFFERENCE, "x", "mean"),
    square(binary(SUBTRACT, "x", "mean", name="difference")),
)


@op_pass(*_ROOTS, stage="converter", after=("fuse_gelu",))
def fuse_layer_norm(graph: Graph, root: Op) -> bool:
    """Turn ``(x - mean) / sqrt(variance + epsilon)`` into LayerNorm.

    Factors and terms per channel become its weight and bias, wherever they stand in the sum.  Reshapes may
    drop and bring back the axis of the statistics, and a sum may replace a mean.
    """
    variance = reduced_of(root.inputs[0])
    statistics = _statistics(graph, variance.of) if variance is not None else None
    if variance is None or statistics is None or variance.factor <= 0 or variance.shift <= 0:
        return False
    return _replace(graph, root, *statistics, variance)


@record(frozen=True)
class Reduced:
    """A multiple of the mean along the last axis, plus a number.

    Attributes:
        total: Result of the reduction.
        own: Factor of its total.
        shift: Number that is added.
    """

    total: Tensor
    of: Tensor
    factor: float
    own: float
    shift: float


def reduced_of(tensor: Tensor | None) -> Reduced | None:
    """Return the source of a mean along the last axis, and the factor of the mean."""
    total = tensor
    for _ in range(_STEPS):
        step = total.producer if total is not None else None
        if step is None or step.type in _REDUCTIONS:
            break
        is_followed = len(step.computed) == 1 and (is_axis_view(step) or is_arithmetic(step))
        total = step.computed[0] if is_followed else None
    op = total.producer if total is not None else None
    if total is None or op is None or op.type not in _REDUCTIONS or op.package != ir.NATIVE_PACKAGE:
        return None
    source = op.inputs[0]
    if source is None:
        return None
    axes = {int(axis) for axis in op.param("axes", [])}
    if {axis for axis in axes if source.shape[axis] != 1} != {source.rank - 1}:
        return None
    sums = terms(tensor, [total], views=True)
    if sums is None or (0,) not in sums or any(factor.ndim for factor in sums.values()):
        return None
    own = float(sums[0,])
    factor = own * (source.shape[-1] if op.type == "ReduceSum" else 1)
    return Reduced(total, source, factor, own, float(sums.get((), 0.0)))


def _statistics(graph: Graph, deviation: Tensor) -> tuple[Tensor, Reduced] | None:
    """Return the tensor whose squared deviation this is, and its mean."""
    for names in matches(graph, _DEVIATION, deviation):
        source, mean = names["x"], reduced_of(names["mean"])
        if mean is None or mean.of is not source or mean.shift:
            continue
        if math.isclose(mean.factor, 1.0, rel_tol=1e-6):
            return source, mean
    return None


def _replace(graph: Graph, root: Op, source: Tensor, mean: Reduced, variance: Reduced) -> bool:
    if source.dynamic_axes or not source.dtype.is_float or source.encoding is not None:
        return False
    if source.rank not in NORM_RANKS or source.shape != variance.of.shape:
        return False
    for last, read in _normalized(graph, root, root.outputs[0], [source, mean.total], views=True):
        weights = _weights(read, mean.own, source.shape[-1])
        if weights is None:
            continue
        inputs = [source]
        weights = weights[0] / math.sqrt(variance.factor), weights[1]
        for part, values in zip(("weight", "bias"), weights, strict=True):
            if values is not None:
                name = graph.unique_name(f"{root.name}_{part}")
                inputs.append(graph.add_tensor(ir.static(name, values.astype(source.dtype.numpy))))
        params: dict[str, ir.Param] = {
            "axes": ir.u32s([source.rank - 1]),
            "epsilon": ir.f32(variance.shift / variance.factor),
        }
        replace_by(graph, last, "LayerNorm", inputs, params, name=f"{root.name}_norm")
        return True
    return False


def _normalized(
    graph: Graph, root: Op, size: Tensor, atoms: Sequence[Tensor], *, views: bool = False
) -> Iterator[tuple[Op, Terms | None]]:
    """Yield ops after a root with the shape of the first atom, and their terms.

    Args:
        size: The result of the root, or of a bound after it; its inverse is the last atom.
        views: As for ``terms``.
    """
    is_inverted = is_native(root, "ElementWiseUnary", RSQRT)
    known, divisor = ([*atoms, size], None) if is_inverted else (atoms, size)
    for last in reached(graph, size, views=views):
        if last.outputs[0].shape == atoms[0].shape:
            yield last, terms(last.outputs[0], known, divisor, views=views)


def _weights(read: Terms | None, own: float, channels: int) -> tuple[Array, Array | None] | None:
    """Return weight and bias of a normalization, or None.

    The terms are ``x * r * weight - mean * r * weight + bias``, r being the last atom.
    """
    if read is None or read.keys() - {()} != {(0, 2), (1, 2)}:
        return None
    if any(values.shape not in ((), (channels,)) for values in read.values()):
        return None
    weight, bias = read[0, 2], read.get(())
    if not numpy.allclose(weight, -read[1, 2] / own, rtol=1e-6, atol=0):
        return None
    spread = [
        None if values is None else numpy.broadcast_to(values, (channels,)) for values in (weight, bias)
    ]
    if any(values is not None and not math.isfinite(numpy.abs(values).max(initial=0)) for values in spread):
        return None
    return spread[0], spread[1]


@op_pass(*_ROOTS, stage="converter", after=("fuse_layer_norm",))
def fuse_rms_norm(graph: Graph, root: Op) -> bool:
    """Turn ``x / sqrt(mean(x^2) + epsilon)`` into RmsNorm.

    HTP does not compile all of its float forms written out (SDK 2.51).
    """
    power = reduced_of(root.inputs[0])
    named = match(graph, square("x"), power.of) if power is not None else None
    if power is None or named is None or power.factor <= 0 or power.shift <= 0:
        return False
    source = named["x"]
    if source.dynamic_axes or not source.dtype.is_float or source.encoding is not None:
        return False
    if source.rank not in NORM_RANKS:
        return False
    inverse, channels = root.outputs[0], source.shape[-1]
    for last, read in _normalized(graph, root, inverse, [source], views=True):
        result = last.outputs[0]
        if read is None or read.keys() != {(0, 1)}:
            continue
        factor = read[0, 1] / math.sqrt(power.factor)
        if factor.shape not in ((), (channels,)) or not numpy.isfinite(factor).all():
            continue
        values = numpy.broadcast_to(factor, (channels,)).astype(source.dtype.numpy)
        weight = _held(graph, inverse, values)
        if weight is None:
            weight = graph.add_tensor(ir.static(graph.unique_name(f"{last.name}_weight"), values))
        params: dict[str, ir.Param] = {
            "axes": ir.u32s([source.rank - 1]),
            "epsilon": ir.f32(power.shift / power.factor),
        }
        name = last.name
        replace_by(graph, last, "RmsNorm", [source, weight], params, name=name)
        fused = result.producer
        if fused is not None:
            graph.rename_op(fused, name)
        return True
    return False


def _held(graph: Graph, inverse: Tensor, values: Array) -> Tensor | None:
    """Return the source's constant with these factors, or None."""
    for op in reached(graph, inverse, views=True):
        for tensor in op.inputs:
            if tensor is None or tensor.data is None or tensor.encoding is not None:
                continue
            if tensor.shape == values.shape and numpy.array_equal(tensor.numpy(), values):
                return tensor
    return None


@op_pass(*_ROOTS, stage="converter", after=("fuse_layer_norm",))
def fuse_l2_norm(graph: Graph, root: Op) -> bool:
    """Turn a value divided by the root of its sum of squares into L2Norm.

    The forms are ``x / sqrt(max(sum(x^2), epsilon))`` and ``x * min(1 / sqrt(sum(x^2)),
    limit)``.

    The root may be compared instead of the sum: ``x / max(sqrt(sum(x^2)), limit)``.
    """
    is_inverted = is_native(root, "ElementWiseUnary", RSQRT)
    power, size = root.inputs[0], root.outputs[0]
    floored, epsilon = _bounded(graph, power, MAXIMUM)
    if floored is None:
        bound = graph.sole_consumer(size)
        if bound is None:
            return False
        bounded, limit = _bounded(graph, bound.outputs[0], MINIMUM if is_inverted else MAXIMUM)
        if bounded is not size or limit <= 0:
            return False
        floored, epsilon, size = power, limit**2.0 if not is_inverted else limit**-2.0, bound.outputs[0]
    named = match(graph, _SQUARES, floored)
    if named is None or not _LEAST < epsilon < math.inf:
        return False
    source = named["x"]
    if source.encoding is not None or source.rank not in NORM_RANKS:
        return False
    for last, read in _normalized(graph, root, size, [source]):
        if agrees(read, {(0, 1): 1.0}):
            params: dict[str, ir.Param] = {"axis": ir.u32(source.rank - 1), "epsilon": ir.f32(epsilon)}
            replace_by(graph, last, "L2Norm", [source], params, name=f"{root.name}_norm")
            return True
    return False


def _bounded(graph: Graph, tensor: Tensor | None, operation: int) -> tuple[Tensor | None, float]:
    """Return the operand of a Maximum or Minimum with a number, and the number."""
    for named in matches(graph, binary(operation, "x", "limit"), tensor):
        number = constant_number(named["limit"])
        if number is not None:
            return named["x"], number
    return None, 0.0
