"""Folding of a constant Pad of images into the padding of its reader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy

from xdlc import ir
from xdlc.ir import DType, Graph, Op, Scalar, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.traits import result_range, traits
from xdlc.passes.base import op_pass

Amounts: TypeAlias = list[tuple[int, int]]

_CONSTANT = 0


@op_pass("Pad", stage="converter", after=("merge_casts",))
def fold_pad(graph: Graph, pad: Op) -> bool:
    """Fold a constant Pad of spatial axes into ``pad_amount`` of its only reader.

    Reshapes that insert or drop axes of size 1, and Transposes, may stand between the two.
    """
    source, padded = pad.inputs[0], pad.outputs[0]
    if source is None or not _keeps_type(source, padded) or source.dynamic_axes or not source.size:
        return False
    amounts = _pairs(pad)
    if pad.param("scheme") != _CONSTANT or any(amount < 0 for pair in amounts for amount in pair):
        return False
    views: list[tuple[Op, Amounts]] = []
    tensor, reader = padded, graph.sole_consumer(padded)
    while reader is not None and traits(reader).view and reader.package == ir.NATIVE_PACKAGE:
        moved = _moved(reader, tensor, amounts)
        if moved is None or not _keeps_type(tensor, reader.outputs[0]):
            return False
        views.append((reader, moved))
        tensor, amounts = reader.outputs[0], moved
        reader = graph.sole_consumer(tensor)
    if reader is None or reader.inputs.count(tensor) != 1 or reader.inputs[0] is not tensor:
        return False
    if reader.package != ir.NATIVE_PACKAGE or not _takes(reader, pad, amounts):
        return False
    for view, cut in views:
        result = view.outputs[0]
        result.shape = tuple(dim - sum(pair) for dim, pair in zip(result.shape, cut, strict=True))
    _widen(reader, amounts)
    reader.origin = reader.origin.merged(pad.origin)
    graph.replace(padded, source)
    graph.remove(pad)
    return True


def _keeps_type(source: Tensor, result: Tensor) -> bool:
    return source.dtype is result.dtype and source.encoding == result.encoding


def _pairs(op: Op) -> Amounts:
    values = [int(value) for value in op.param("pad_amount").reshape(-1)]
    return list(zip(values[::2], values[1::2], strict=True))


def _moved(view: Op, tensor: Tensor, amounts: Amounts) -> Amounts | None:
    """Return the amounts in the axis order after a view; None if it mixes axes."""
    if view.type == "Transpose":
        return [amounts[int(axis)] for axis in view.param("perm")]
    result = view.outputs[0]
    before, after = ([axis for axis, dim in enumerate(held.shape) if dim != 1] for held in (tensor, result))
    if [tensor.shape[axis] for axis in before] != [result.shape[axis] for axis in after]:
        return None
    moved = [(0, 0)] * result.rank
    for old, new in zip(before, after, strict=True):
        moved[new] = amounts[old]
    return moved


def _takes(reader: Op, pad: Op, amounts: Amounts) -> bool:
    """Return whether padding of an op can replace a Pad before it."""
    if len(amounts) < 3 or any(amounts[0]) or any(amounts[-1]):
        return False
    reaches = _reaches(reader)
    if reaches is None or not _windows_meet_data(reader, amounts[1:-1], reaches):
        return False
    if traits(reader).macs == "convolution":
        return _fills_zero(pad)
    if reader.param("rounding_mode", 0):
        return False
    if traits(reader).pool == "max":
        return _fills_lowest(pad) or (_fills_zero(pad) and _is_positive(pad.inputs[0]))
    return _fills_zero(pad) and _counts_padding(reader)


def _reaches(reader: Op) -> list[int] | None:
    """Return the span of a window along each spatial axis, or None without windows."""
    if traits(reader).pool in ("average", "max"):
        return [int(dim) for dim in reader.param("filter_size")]
    weight = reader.inputs[1] if traits(reader).macs == "convolution" else None
    if weight is None:
        return None
    dims = weight.shape[:-2]
    dilation = reader.param("dilation", [1] * len(dims))
    return [int(step) * (dim - 1) + 1 for dim, step in zip(dims, dilation, strict=True)]


def _windows_meet_data(reader: Op, amounts: Amounts, reaches: Sequence[int]) -> bool:
    """Return whether every window overlaps the data.

    HTP's emulation (SDK 2.51, SM8650) convolves such windows wrongly from some channels on, and
    onnxruntime refuses pools that have them.
    """
    sums = zip(_pairs(reader), amounts, reaches, strict=True)
    return all(max(own[0] + more[0], own[1] + more[1]) < reach for own, more, reach in sums)


def _counts_padding(reader: Op) -> bool:
    """Return whether an average may count a border as padding.

    Where the average omits padding of its own, the border would have to be counted beside it.  Of
    one channel HTP's emulation (SDK 2.51, SM8650) averages counted padding wrongly.
    """
    if reader.outputs[0].shape[-1] == 1:
        return False
    return bool(reader.param("count_pad_for_edges", False)) or not any(map(any, _pairs(reader)))


def _fill(pad: Op) -> Scalar:
    fill = pad.params.get("pad_constant_value")
    return fill if isinstance(fill, Scalar) else ir.f32(0.0)


def _fills_zero(pad: Op) -> bool:
    """Return whether a Pad adds zeros, which a fixed-point encoding must represent."""
    fill, tensor = _fill(pad), pad.outputs[0]
    if fill.value != 0:
        return False
    if not tensor.dtype.is_fixed:
        return True
    low, high = tensor.dtype.limits
    encoding = tensor.encoding
    return isinstance(encoding, ScaleOffset) and fill.dtype is FLOAT32 and low <= -encoding.offset <= high


def _fills_lowest(pad: Op) -> bool:
    """Return whether a Pad adds a value that is at most the lowest of the tensor."""
    fill, tensor = _fill(pad), pad.outputs[0]
    if tensor.dtype.is_fixed and fill.dtype is not FLOAT32:
        return False
    return float(fill.value) <= _lowest(tensor.dtype, tensor.encoding)


def _lowest(dtype: DType, encoding: ir.Encoding | None) -> float:
    """Return the lowest value of a type; minus infinity if it is unknown."""
    if dtype.is_fixed and isinstance(encoding, ScaleOffset):
        return encoding.scale * (dtype.limits[0] + encoding.offset)
    if dtype.is_integer:
        return float(dtype.limits[0])
    return -dtype.largest if dtype.is_float else -math.inf


def _is_positive(tensor: Tensor | None) -> bool:
    """Return whether a clamp has made all values of a tensor at least zero."""
    op = tensor.producer if tensor is not None else None
    while op is not None and traits(op).view and op.package == ir.NATIVE_PACKAGE:
        tensor = op.inputs[0]
        op = tensor.producer if tensor is not None else None
    if op is None or not traits(op).clamps:
        return False
    bounds = result_range(op)
    return bounds is not None and bounds[0] >= 0


def _widen(reader: Op, amounts: Amounts) -> None:
    """Add to the padding of an op; an average counts it from then on."""
    sums = numpy.asarray(_pairs(reader), numpy.uint32) + numpy.asarray(amounts[1:-1], numpy.uint32)
    reader.params["pad_amount"] = ir.static(f"{reader.name}_pad_amount", sums)
    if traits(reader).pool == "average":
        reader.params["count_pad_for_edges"] = ir.b8(True)
