"""Ops on bytes that compiled code runs, with the constants of their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xdlc.ir import Op, ScaleOffset, Tensor
from xdlc.ir.dtype import UFIXED8
from xdlc.ir.quantization import unpacked
from xdlc.opdefs import args
from xdlc.opdefs.traits import operation_name, result_range, traits
from xdlc.runtime.builder import Builder
from xdlc.runtime.compiled import kernels
from xdlc.runtime.compiled.microkernel import HAS_BYTES, ROWS, WIDTH
from xdlc.runtime.htp_arithmetic import Product, are_rounded, fifteen_bits, keeps_sums
from xdlc.runtime.htp_arithmetic.u8 import dropped, is_u8_sum, sum_factors

Array = Any  # numpy.ndarray
Kernel = Callable[..., Array]
"""Returns the stored result of an op for the stored values of its activations."""
Spread = Callable[[Callable[[int, int], None], int, int], None]
"""Calls a function for all parts of a range from 0; the last argument is the multiplications of all."""
_LARGEST = 1 << 30
"""Sums below this have room in 32 bits for what is added to them."""
_SHIFTS = 30
"""Most bits that are shifted out."""
_IMAGE = 4
"""Axes of an image, with channels last."""
_SLOWER = 16
"""Times that a depthwise multiplication takes longer than one of all channels."""
_POINT = ((1, 1), (1, 1), (1, 1), (0, 0))
"""The window of a product of matrices."""


def stored_values(values: Array, tensor: Tensor) -> Array:
    """Return the stored values of floats as onnxruntime rounds them; NaN is 0."""
    zero = np.float32(-_encoding(tensor).offset)
    steps = np.fmax(values / np.float32(_encoding(tensor).scale), -zero)
    return (np.rint(np.fmin(steps, np.float32(255) - zero)) + zero).astype(np.uint8)


def float_values(stored: Array, tensor: Tensor) -> Array:
    """Return the float values of stored ones."""
    zero = np.float32(-_encoding(tensor).offset)
    return (stored.astype(np.float32) - zero) * np.float32(_encoding(tensor).scale)


def _encoding(tensor: Tensor) -> ScaleOffset:
    assert isinstance(tensor.encoding, ScaleOffset)
    return tensor.encoding


def kernel_of(op: Op, b: Builder, spread: Spread) -> Kernel | None:
    """Return the kernel of an op that HTP computes in whole numbers, or None."""
    source = op.inputs[0] if op.inputs else None
    if source is None or source.dtype is not UFIXED8 or any(tensor.dynamic_axes for tensor in op.outputs):
        return None
    kind, is_image = traits(op), source.rank == _IMAGE
    if kind.macs == "dense":
        return _dense(op, b, spread)
    if kind.macs == "convolution" and is_image:
        return (_depthwise if op.type.startswith("DepthWise") else _convolution)(op, b, spread)
    if kind.pool == "max" and is_image:
        return _largest(op, b)
    if kind.clamps:
        return _clamp(op, b)
    return _sum(op, b) if operation_name(op) == "ElementWiseAdd" else None


def _window(op: Op) -> tuple[tuple[int, ...], ...]:
    strides, dilations = (tuple(args.integers(op, name, 2, default=1)) for name in ("stride", "dilation"))
    return args.operand(op, 1).shape[:2], strides, dilations, tuple(args.pads(op, 2)[:2])


def _product_of(op: Op, b: Builder) -> Product | None:
    """Return the product of an op if its sums have less than 32 bits."""
    product = Product(args.operand(op, 0), args.operand(op, 1), args.optional(op, 2), args.result(op))
    fits = product.bits(b) == UFIXED8.bits and product.largest < _LARGEST
    return product if fits else None


def _terms(product: Product) -> Array | None:
    """Return rows with what is added to sums, shifts and factors, by output channel."""
    unit, factor = dropped(product.multipliers)
    shift = np.log2(unit)
    if shift.min() < 0 or shift.max() > _SHIFTS:
        return None
    added = np.broadcast_to(product.added + product.offset * product.sums, shift.shape)
    return np.stack([added, shift, factor * 2.0**15]).astype(np.int32)


def _whole_terms(product: Product) -> Array | None:
    """Return the rows for sums that keep all bits."""
    shift = 14 - np.floor(np.log2(product.multipliers))
    if shift.min() < 1 or shift.max() > _SHIFTS:
        return None
    added = (
        product.added + product.offset * product.sums - np.rint(product.output_offset / product.multipliers)
    )
    factor = fifteen_bits(product.multipliers) * 2.0**shift
    return np.stack([np.broadcast_to(added, shift.shape), shift, factor]).astype(np.int64)


def _packed(weights: Array) -> Array:
    """Return a matrix [inputs, outputs] in panels, see ``microkernel.multiply``."""
    group, kind = (4, np.int8) if HAS_BYTES else (2, np.int16)
    groups, panels = (-(-size // part) for size, part in zip(weights.shape, (group, WIDTH), strict=True))
    filled = np.zeros((groups * group, panels * WIDTH), kind)
    filled[: weights.shape[0], : weights.shape[1]] = weights
    return np.ascontiguousarray(filled.reshape(groups, group, panels, WIDTH).transpose(2, 0, 3, 1))


def _convolution(op: Op, b: Builder, spread: Spread) -> Kernel | None:
    source, target = args.operand(op, 0), args.result(op)
    if op.param("group", 1) != 1:
        return None
    return _multiplied(_product_of(op, b), target.shape, source.shape, _window(op), spread)


def _dense(op: Op, b: Builder, spread: Spread) -> Kernel | None:
    weight, target = args.operand(op, 1), args.result(op)
    rows, width = target.size // weight.shape[0], weight.shape[1]
    shape, source = (rows, 1, 1, weight.shape[0]), (rows, 1, 1, width)
    return _multiplied(_product_of(op, b), shape, source, _POINT, spread)


def _multiplied(
    product: Product | None,
    shape: tuple[int, ...],
    source: tuple[int, ...],
    window: tuple[tuple[int, ...], ...],
    spread: Spread,
) -> Kernel | None:
    """Return the kernel of a product of all input channels.

    Args:
        shape: Of the result, as an image.
        source: Of the input, as an image.
    """
    terms = None if product is None else _terms(product)
    count = math.prod(shape[:3])
    if product is None or terms is None or count < ROWS:
        return None
    values = unpacked(product.weight).numpy()
    weights = _packed(values.T if values.ndim == 2 else values.reshape(-1, shape[3]))
    zero, padding = np.int32(-product.output_offset), np.uint8(-product.offset)
    width = weights.shape[1] * weights.shape[3]
    is_direct = HAS_BYTES and window == _POINT and width == source[3] and shape[:3] == source[:3]

    def run(x: Array) -> Array:
        out = np.empty(shape, np.uint8)
        image = x.reshape(source)

        def work(begin: int, end: int) -> None:
            if is_direct:
                rows, results = image.reshape(-1, width), out.reshape(count, -1)
                kernels.products(rows, begin, end - begin, weights, terms, zero, results, begin)
            else:
                rows = np.zeros((kernels.BLOCK, width), np.uint8 if HAS_BYTES else np.int16)
                kernels.convolve(image, window, padding, rows, weights, terms, zero, out, begin, end)

        spread(work, count, count * values.size)
        return out.reshape(product.target.shape)

    return run


def _depthwise(op: Op, b: Builder, spread: Spread) -> Kernel | None:
    product = _product_of(op, b)
    if product is None or product.channels != product.source.shape[-1]:
        return None
    is_whole = keeps_sums(op, UFIXED8.bits)
    terms = _whole_terms(product) if is_whole else _terms(product)
    if terms is None:
        return None
    window, padding = _window(op), np.int32(-product.offset)
    weights = np.ascontiguousarray(unpacked(product.weight).numpy()[:, :, 0])
    zero, shape = np.int32(-product.output_offset), product.target.shape
    count = math.prod(shape[:3])

    def run(x: Array) -> Array:
        out = np.empty(shape, np.uint8)

        def work(begin: int, end: int) -> None:
            if is_whole:
                kernels.convolve_channels_whole(x, window, padding, weights, terms, out, begin, end)
            else:
                kernels.convolve_channels(x, window, padding, weights, terms, zero, out, begin, end)

        spread(work, count, _SLOWER * count * weights.size)
        return out

    return run


def _sum(op: Op, b: Builder) -> Kernel | None:
    first, second, target = args.operand(op, 0), args.operand(op, 1), args.result(op)
    if not (is_u8_sum(b, first, second, target) and first.shape == second.shape == target.shape):
        return None
    factors, constant, shift = sum_factors(first, second, target)
    if not 1 <= shift <= _SHIFTS:
        return None
    pair = np.int32(factors[0]), np.int32(factors[1])
    added, zero = np.int32(constant + (1 << (shift - 1))), np.int32(-_encoding(target).offset)

    def run(x: Array, y: Array) -> Array:
        out = np.empty(target.shape, np.uint8)
        kernels.add(x, y, pair, added, np.int32(shift), zero, out)
        return out

    return run


def _largest(op: Op, b: Builder) -> Kernel | None:
    source, target = args.operand(op, 0), args.result(op)
    if not _is_of_one_encoding(b, source, target):
        return None
    size, strides = (tuple(args.integers(op, name, 2)) for name in ("filter_size", "stride"))
    window = size, strides, (1, 1), tuple(args.pads(op, 2)[:2])

    def run(x: Array) -> Array:
        out = np.empty(target.shape, np.uint8)
        kernels.largest(x, window, out)
        return out

    return run


def _is_of_one_encoding(b: Builder, source: Tensor, target: Tensor) -> bool:
    return source.encoding == target.encoding and are_rounded(b, source, target)


def _clamp(op: Op, b: Builder) -> Kernel | None:
    """Return the kernel of a function that cuts values to a range, in one encoding."""
    source, target, ends = args.operand(op, 0), args.result(op), result_range(op)
    if ends is None or not _is_of_one_encoding(b, source, target):
        return None
    low, high = stored_values(np.asarray(ends, np.float32), source)
    if (low, high) == UFIXED8.limits:
        return lambda x: x
    return lambda x: np.clip(x, low, high)
