"""Windows: convolutions of one to three spatial axes, and pools."""

from __future__ import annotations

from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.runtime import qdq
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic import Product, keeps_sums, unsigned_weights
from xdlc.runtime.htp_arithmetic.u8 import u8_results
from xdlc.runtime.htp_arithmetic.u16 import u16_results
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import lowering


@lowering("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d")
def conv(op: Op, b: Builder) -> None:
    """Lower to Conv; weights [..., cin / group, cout] become [cout, cin / group, ...]."""
    source, weight, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    target = args.result(op)
    count = source.rank - 2
    if count < 1 or weight.rank != source.rank:
        raise ModelError(f"input of rank {source.rank} does not fit weights of rank {weight.rank}")
    depthwise = op.type.startswith("DepthWise")
    order = channels_first(source.rank)
    to_onnx = (count + 1, count, *range(count))
    window: dict[str, Any] = {
        "kernel_shape": list(weight.shape[:count]),
        "strides": args.integers(op, "stride", count),
        "dilations": args.integers(op, "dilation", count, default=1),
        "pads": args.pads(op, count),
        "group": source.shape[-1] if depthwise else int(op.param("group", 1)),
    }
    product = Product(source, weight, bias, target)
    bits = product.bits(b)
    whole = bits is not None and keeps_sums(op, bits)
    if bits is not None and not (whole and product.is_wide):
        taps, middle = unsigned_weights(b, weight, to_onnx)

        def multiply(value: str, zero: str, part: int = 0) -> str:
            return b.node("ConvInteger", [value, taps[part], zero, middle], **window)

        results = u16_results if bits == 16 else u8_results
        stored = results(b, product, b.read_stored_as(source, order), multiply, whole=whole)
        b.write_stored(target, stored, order)
        return
    inputs = [b.read(source, order), b.read(weight, to_onnx)]
    if bias is not None:
        inputs.append(qdq.bias(b, bias, source, weight, axis=count + 1))
    b.write(target, b.node("Conv", inputs, **window), order)


@lowering("TransposeConv1d", "TransposeConv2d", "TransposeConv3d")
def transpose_conv(op: Op, b: Builder) -> None:
    """Lower to ConvTranspose with weights [cin, cout / group, ...].

    Those of the op are [..., cin, cout / group].
    """
    source, weight, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    count = source.rank - 2
    if count < 1 or weight.rank != source.rank:
        raise ModelError(f"input of rank {source.rank} does not fit weights of rank {weight.rank}")
    order = channels_first(source.rank)
    inputs = [b.read(source, order), b.read(weight, (count, count + 1, *range(count)))]
    if bias is not None:
        inputs.append(b.read(bias))
    value = b.node(
        "ConvTranspose",
        inputs,
        kernel_shape=list(weight.shape[:count]),
        strides=args.integers(op, "stride", count),
        dilations=args.integers(op, "dilation", count, default=1),
        pads=args.pads(op, count),
        output_padding=args.integers(op, "output_padding", count, default=0),
        group=int(op.param("group", 1)),
    )
    b.write(args.result(op), value, order)


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
    """Increase the end pads until the windows of all outputs fit."""
    count = source.rank - 2
    for axis in range(count):
        padded = source.shape[1 + axis] + window["pads"][axis] + window["pads"][count + axis]
        reach = (target.shape[1 + axis] - 1) * window["strides"][axis] + window["kernel_shape"][axis]
        window["pads"][count + axis] += max(0, reach - padded)


@lowering("PoolMax2d", "PoolMax3d")
def pool_max(op: Op, b: Builder) -> None:
    """Lower to MaxPool; with ceil rounding, windows may exceed the end."""
    source, target = args.operand(op, 0), args.result(op)
    order, window = channels_first(source.rank), _window(op, source)
    # onnxruntime pools floats only; float64 holds every integer of 32 bits.
    dtype = numpy.dtype(numpy.float64) if source.dtype.is_integer else b.dtype(source)
    if source.dtype.is_integer and source.dtype.bits == 64:
        raise b.unsupported("the host does not support pools of 64-bit integers")
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
    """Lower to LpPool: the root of the sum of squares, as in the OpDef."""
    source, target = args.operand(op, 0), args.result(op)
    order, window = channels_first(source.rank), _window(op, source)
    value = b.node("LpPool", [b.read(source, order)], p=2, **window)
    b.write(target, value, order)
