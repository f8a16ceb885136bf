"""Normalizations of layers, RMS, instances, groups, L2, batches; Softmax and LRN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import lowering

ACROSS_SPATIAL, ACROSS_CHANNEL, ACROSS_ALL = range(3)


def _mean(b: Builder, x: str, axes: Sequence[int]) -> str:
    return b.node("ReduceMean", [x, b.ints(*axes)], keepdims=1)


def _affine(op: Op, b: Builder, value: str, shape: Sequence[int] | None = None) -> str:
    """Return ``value * gamma + beta``, omitting factors of one."""
    dtype = b.dtype(args.operand(op, 0))
    for index, type in ((1, "Mul"), (2, "Add")):
        tensor = args.optional(op, index)
        if tensor is not None and not (type == "Mul" and _is_ones(tensor)):
            factor = b.read(tensor, dtype=dtype)
            if shape is not None and tuple(shape) != tensor.shape:
                factor = b.reshape(factor, shape)
            value = b.node(type, [value, factor])
    return value


def _is_ones(tensor: Tensor) -> bool:
    return tensor.data is not None and tensor.encoding is None and bool((tensor.numpy() == 1).all())


def _scaled(b: Builder, source: Tensor, x: str, axes: Sequence[int], epsilon: float) -> str:
    """Return ``x / sqrt(mean(x^2) + epsilon)``."""
    power = _mean(b, b.node("Mul", [x, x]), axes)
    root = b.node("Sqrt", [b.node("Add", [power, b.like(source, epsilon)])])
    return b.node("Div", [x, root])


def _spread(source: Tensor, axes: Sequence[int]) -> list[int]:
    """Return the shape in which a factor of axes broadcasts against ``source``."""
    return [source.shape[axis] if axis in axes else 1 for axis in range(source.rank)]


@lowering("LayerNorm")
def layer_norm(op: Op, b: Builder) -> None:
    """Lower to LayerNormalization over trailing axes, else to its formula."""
    source, gamma, beta = args.operand(op, 0), args.optional(op, 1), args.optional(op, 2)
    epsilon = float(op.param("epsilon", 0.001))
    axes = tuple(sorted(args.axes(op, source.rank)))
    first = source.rank - len(axes)
    dims = source.shape[first:]
    if axes == tuple(range(first, source.rank)) and gamma is not None and gamma.shape == dims:
        inputs = [
            b.read(tensor, dtype=b.dtype(source)) for tensor in (source, gamma, beta) if tensor is not None
        ]
        b.write(args.result(op), b.node("LayerNormalization", inputs, axis=first, epsilon=epsilon))
        return
    x = b.read(source)
    value = _scaled(b, source, b.node("Sub", [x, _mean(b, x, axes)]), axes, epsilon)
    b.write(args.result(op), _affine(op, b, value, _spread(source, axes)))


@lowering("RmsNorm")
def rms_norm(op: Op, b: Builder) -> None:
    """Lower to ``x / sqrt(mean(x^2) + epsilon) * gamma + beta``."""
    source = args.operand(op, 0)
    axes = args.axes(op, source.rank)
    value = _scaled(b, source, b.read(source), axes, float(op.param("epsilon", 1e-6)))
    b.write(args.result(op), _affine(op, b, value, _spread(source, axes)))


@lowering("InstanceNorm")
def instance_norm(op: Op, b: Builder) -> None:
    """Lower to InstanceNormalization, or to its formula for other modes and regions.

    The RMS mode has no beta: the vendor's emulation of HTP (SDK 2.51) leaves it out.
    """
    source, gamma, beta = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    epsilon = float(op.param("epsilon", 1e-12))
    rms, region = int(op.param("mode", 0)) == 1, int(op.param("region", ACROSS_SPATIAL))
    divides = bool(op.param("normalize_variance", True))
    if region not in (ACROSS_SPATIAL, ACROSS_CHANNEL, ACROSS_ALL):
        raise ModelError(f"parameter 'region' is {region}; valid values are 0 to 2")
    if region == ACROSS_SPATIAL and not rms and divides and source.rank > 2 and gamma.rank == 1:
        order = channels_first(source.rank)
        dtype = b.dtype(source)
        shift = b.constant([0.0] * gamma.size, dtype) if beta is None else b.read(beta, dtype=dtype)
        inputs = [b.read(source, order), b.read(gamma, dtype=dtype), shift]
        value = b.node("InstanceNormalization", inputs, epsilon=epsilon)
        b.write(args.result(op), value, order)
        return
    last = source.rank - 1
    axes = {
        ACROSS_SPATIAL: tuple(range(1, last)),
        ACROSS_CHANNEL: (last,),
        ACROSS_ALL: tuple(range(1, source.rank)),
    }[region]
    x = b.read(source)
    if not rms:
        x = b.node("Sub", [x, _mean(b, x, axes)])
    value = _scaled(b, source, x, axes, epsilon) if divides else x
    if rms:
        b.write(args.result(op), b.node("Mul", [value, b.read(gamma, dtype=b.dtype(source))]))
        return
    b.write(args.result(op), _affine(op, b, value))


@lowering("GroupNorm")
def group_norm(op: Op, b: Builder) -> None:
    """Lower to mean and variance over all axes of each group of channels."""
    source = args.operand(op, 0)
    groups, channels = int(args.required(op, "group")), source.shape[-1]
    if groups < 1 or channels % groups:
        raise ModelError(f"the input has {channels} channels, which is not a multiple of {groups} groups")
    split = (source.shape[0], -1, groups, channels // groups)
    x = b.reshape(b.read(source), split)
    centred = b.node("Sub", [x, _mean(b, x, (1, 3))])
    value = _scaled(b, source, centred, (1, 3), float(args.required(op, "epsilon")))
    b.write(args.result(op), _affine(op, b, b.reshape(value, source.shape)))


@lowering("L2Norm")
def l2_norm(op: Op, b: Builder) -> None:
    """Lower to ``x / sqrt(max(sum(x^2), epsilon))`` over ``axes`` or ``axis`` (0)."""
    source = args.operand(op, 0)
    axes = args.axes(op, source.rank) if "axes" in op.params else (args.axis(op, source.rank, default=0),)
    x = b.read(source)
    power = b.node("ReduceSum", [b.node("Mul", [x, x]), b.ints(*axes)], keepdims=1)
    floor = b.node("Max", [power, b.like(source, float(op.param("epsilon", 1e-12)))])
    b.write(args.result(op), b.node("Div", [x, b.node("Sqrt", [floor])]))


@lowering("Batchnorm")
def batchnorm(op: Op, b: Builder) -> None:
    """Lower to a neutral BatchNormalization, or to ``x * weight + bias``."""
    source, weight, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    if source.rank > 1 and source.dtype.is_float and weight.shape == source.shape[-1:]:
        order, dtype = channels_first(source.rank), b.dtype(source)
        zeros = numpy.zeros(weight.shape, dtype)
        shift = b.constant(zeros) if bias is None else b.read(bias, dtype=dtype)
        factor = b.read(weight, dtype=dtype)
        inputs = [b.read(source, order), factor, shift, b.constant(zeros), b.constant(zeros + 1)]
        b.write(args.result(op), b.node("BatchNormalization", inputs, epsilon=0.0), order)
        return
    value = b.node("Mul", [b.read(source), b.read(weight)])
    if bias is not None:
        value = b.node("Add", [value, b.read(bias)])
    b.write(args.result(op), value)


@lowering("Softmax", "LogSoftmax")
def softmax(op: Op, b: Builder) -> None:
    """Lower to the ONNX op of the same name over ``beta * x``."""
    source = args.operand(op, 0)
    if source.dtype.name == "bfloat16":
        raise b.unsupported(
            "the host cannot round the sums of a bfloat16 Softmax as ONNX does",
            "cast the input to float32 and the result back to bfloat16",
        )
    axis = args.axis(op, source.rank, default=source.rank - 1)
    beta = float(op.param("beta", 1.0))
    value = b.read(source)
    if beta != 1.0:
        value = b.node("Mul", [value, b.like(source, beta)])
    b.write(args.result(op), b.node(op.type, [value], axis=axis))


LRN_ACROSS_CHANNEL, LRN_WITHIN_CHANNEL = range(2)


@lowering("Lrn")
def lrn(op: Op, b: Builder) -> None:
    """Lower to ``x / (bias + alpha * sum(x^2)) ^ beta`` over ``2 * radius + 1``.

    ONNX divides alpha by the window's size, the QNN op does not.
    """
    source, target = args.operand(op, 0), args.result(op)
    radius, region = int(args.required(op, "radius")), int(op.param("region", LRN_ACROSS_CHANNEL))
    if radius < 0 or source.rank < 3 or region not in (LRN_ACROSS_CHANNEL, LRN_WITHIN_CHANNEL):
        raise ModelError(
            f"radius {radius} and region {region} do not fit rank {source.rank}: rank 3, radius 0 or more"
        )
    alpha, beta = float(op.param("alpha", 1.0)), float(op.param("beta", 0.5))
    bias, width = float(op.param("bias", 1.0)), 2 * radius + 1
    order = channels_first(source.rank)
    x = b.read(source, order)
    if region == LRN_ACROSS_CHANNEL:
        value = b.node("LRN", [x], alpha=alpha * width, beta=beta, bias=bias, size=width)
    else:
        count = source.rank - 2
        window: dict[str, Any] = {
            "kernel_shape": [width] * count,
            "pads": [radius] * (2 * count),
            "strides": [1] * count,
        }
        mean = b.node("AveragePool", [b.node("Mul", [x, x])], count_include_pad=1, **window)
        scaled = b.node("Mul", [mean, b.like(source, alpha * width**count)])
        base = b.node("Add", [scaled, b.like(source, bias)])
        value = b.node("Div", [x, b.node("Pow", [base, b.like(source, beta)])])
    b.write(target, value, order)
