"""Average, maximum and L2 pools of two or three spatial axes."""

from __future__ import annotations

from typing import Any

import numpy

from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import lowering


def _window(op: Op, source: Tensor) -> dict[str, Any]:
    count = source.rank - 2
    return {
        "kernel_shape": args.integers(op, "filter_size", count),
        "strides": args.integers(op, "stride", count),
        "pads": args.pads(op, count),
    }


def _covers_all(window: dict[str, Any], source: Tensor, target: Tensor) -> bool:
    return (
        tuple(window["kernel_shape"]) == source.shape[1:-1]
        and not any(window["pads"])
        and set(target.shape[1:-1]) == {1}
    )


def _extend(window: dict[str, Any], source: Tensor, target: Tensor) -> None:
    """Pad the ends so far that the windows of all outputs lie within."""
    count = source.rank - 2
    for axis in range(count):
        padded = source.shape[1 + axis] + window["pads"][axis] + window["pads"][count + axis]
        reach = (target.shape[1 + axis] - 1) * window["strides"][axis] + window["kernel_shape"][axis]
        window["pads"][count + axis] += max(0, reach - padded)


@lowering("PoolMax2d", "PoolMax3d")
def pool_max(op: Op, b: Builder) -> None:
    """Lower to MaxPool; windows of the ceil rounding mode may hang over the end."""
    source, target = args.operand(op, 0), args.result(op)
    order, window = channels_first(source.rank), _window(op, source)
    # onnxruntime pools floats only; float64 holds every integer of 32 bits.
    dtype = numpy.dtype(numpy.float64) if source.dtype.is_integer else b.dtype(source)
    if source.dtype.is_integer and source.dtype.bits == 64:
        raise b.unsupported("a pool over 64-bit integers has no host implementation")
    value = b.read(source, order, dtype=dtype)
    value = b.node("MaxPool", [value], ceil_mode=int(op.param("rounding_mode", 0)), **window)
    b.write(target, value, order, dtype=dtype)


@lowering("PoolAvg2d", "PoolAvg3d")
def pool_avg(op: Op, b: Builder) -> None:
    """Lower to AveragePool; padding counts where ``count_pad_for_edges`` is set.

    So does then what a window of the ceil rounding mode covers beyond the padding, other than in
    ONNX: the vendor's emulation of HTP (SDK 2.51) divides by the filter's area there too.
    """
    source, target = args.operand(op, 0), args.result(op)
    order, window = channels_first(source.rank), _window(op, source)
    inputs = [b.read(source, order)]
    if _covers_all(window, source, target):
        value = b.node("GlobalAveragePool", inputs)
    elif op.param("count_pad_for_edges", False):
        _extend(window, source, target)
        value = b.node("AveragePool", inputs, count_include_pad=1, **window)
    else:
        value = b.node(
            "AveragePool",
            inputs,
            ceil_mode=int(op.param("rounding_mode", 0)),
            **window,
        )
    b.write(target, value, order)


@lowering("L2Pool2d")
def pool_l2(op: Op, b: Builder) -> None:
    """Lower to LpPool, the root of the sum of squares, as the OpDef states."""
    source, target = args.operand(op, 0), args.result(op)
    order, window = channels_first(source.rank), _window(op, source)
    value = b.node("LpPool", [b.read(source, order)], p=2, **window)
    b.write(target, value, order)
