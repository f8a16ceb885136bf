"""QuantizeLinear and DequantizeLinear for the encodings of the IR.

ONNX's zero point is the negated offset and must be a value of the stored type; encodings where it is
not, or that use only some bits of their storage, are rounded with plain arithmetic instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import ArrayData, AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Op, ScaleOffset, Tensor
from xdlc.ir.quantization import (
    block_shape,
    check_scales,
    encoding_of,
    float_data,
    quantized_limits,
    scale_and_offset,
    unpacked,
)
from xdlc.opdefs.traits import traits

if TYPE_CHECKING:
    from xdlc.runtime.builder import Builder
    from xdlc.runtime.onnx_emitter import Perm

SAME_SCALE = 1e-6
"""Relative difference of scales that comes from rounding them to float32."""

_LARGEST_BIAS = numpy.float32(1 << 30)


def _zero_points(tensor: Tensor) -> tuple[int, ...]:
    encoding = tensor.encoding
    offsets = encoding.offsets if isinstance(encoding, AxisScaleOffset) else (encoding.offset,)  # type: ignore[union-attr]
    return tuple(map(int.__neg__, offsets)) if any(offsets) else (0,) * len(offsets)


def _fits(tensor: Tensor, bits: int) -> bool:
    encoding = tensor.encoding
    if not isinstance(encoding, ScaleOffset | AxisScaleOffset):
        return False
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if tensor.dtype.is_signed else (0, (1 << bits) - 1)
    )
    return all(low <= zero <= high for zero in set(_zero_points(tensor)))


def has_form(tensor: Tensor) -> bool:
    """Return whether QuantizeLinear supports the encoding of an activation."""
    bits = tensor.dtype.bits
    used = getattr(tensor.encoding, "bits", None)
    return bits in (8, 16) and used in (None, 0, bits) and _fits(tensor, bits)


def is_per_tensor(tensor: Tensor) -> bool:
    """Return whether one scale and offset apply to the whole tensor."""
    return isinstance(tensor.encoding, ScaleOffset)


def has_static_form(tensor: Tensor) -> bool:
    """Return whether static data can remain integers before a DequantizeLinear.

    onnxruntime's integer kernels take one zero point for all channels.
    """
    bits = max(tensor.dtype.bits, 8)
    if not _fits(tensor, bits) or (bits == 32 and not tensor.dtype.is_signed):
        return False
    zeros = set(_zero_points(tensor))
    return len(zeros) == 1 and (bits < 32 or zeros == {0})


def _check_axis(tensor: Tensor) -> None:
    scale_and_offset(encoding_of(tensor), tensor.shape, where=f"tensor {tensor.name!r}")


def _parameters(
    b: Builder, tensor: Tensor, order: Perm, *, own_zero: bool = False
) -> tuple[str, str, int | None]:
    if b.adjusted is not None and not tensor.is_static and is_per_tensor(tensor):
        if tensor not in b.adjusted:
            scale, zero, upper = (b.name(f"{tensor.name}~{part}") for part in ("scale", "zero", "upper"))
            b.adjusted[tensor] = scale, zero, upper
        return (*b.adjusted[tensor][:2], None)
    encoding = tensor.encoding
    zeros = numpy.asarray(_zero_points(tensor)).astype(_element(b, tensor))
    scales: Any
    if isinstance(encoding, AxisScaleOffset):
        _check_axis(tensor)
        scales, axis = numpy.asarray(encoding.scales, numpy.float32), order.index(encoding.axis)
    else:
        scales, axis, zeros = numpy.float32(encoding.scale), None, zeros[0]  # type: ignore[union-attr]
    zero = b.initializer("constant", ArrayData(zeros)) if own_zero else b.constant(zeros)
    return b.constant(scales), zero, axis


def _element(b: Builder, tensor: Tensor) -> Any:
    """Return the numpy dtype of quantized values; 4 bits have one for export."""
    if b.native and tensor.dtype.bits == 4:
        import ml_dtypes

        return numpy.dtype(ml_dtypes.int4 if tensor.dtype.is_signed else ml_dtypes.uint4)
    return numpy.dtype(f"{'i' if tensor.dtype.is_signed else 'u'}{max(tensor.dtype.bits, 8) // 8}")


def quantize(b: Builder, value: str, tensor: Tensor, order: Perm) -> str:
    """Return float values quantized with ``tensor``'s encoding, axes in ``order``.

    Adjustable encodings of 16 bits may use fewer of them, from zero on: values are cut to the largest.
    """
    scale, zero, axis = _parameters(b, tensor, order)
    if b.adjusted is not None and tensor in b.adjusted and tensor.dtype.bits == 16:
        value = b.node("Min", [value, b.adjusted[tensor][2]])
    return b.node("QuantizeLinear", [value, scale, zero], axis=axis)


def dequantize(b: Builder, value: str, tensor: Tensor, order: Perm) -> str:
    """Return quantized values of ``tensor``, axes in ``order``, as float values."""
    scale, zero, axis = _parameters(b, tensor, order)
    return b.node("DequantizeLinear", [value, scale, zero], axis=axis)


def static(b: Builder, tensor: Tensor, order: Perm, *, any_zeros: bool = False) -> str | None:
    """Return static data as integers and a DequantizeLinear, or None.

    Where encodings of activations are fed, products of bytes alone multiply integers: onnxruntime would
    dequantize the weights of others in each run.

    Args:
        order: Axis order of the value.
        any_zeros: Whether each channel may have a zero point of its own, and each block a scale.
    """
    if b.adjusted is not None and not (b.op is not None and multiplies_bytes(b, b.op)):
        return None
    if isinstance(tensor.encoding, BlockScaleOffset | BlockwiseExpansion):
        return _static_blocks(b, tensor, order) if b.native and any_zeros else None
    several = any_zeros and tensor.dtype.bits <= 16
    stored = tensor.dtype.bits if b.native else max(tensor.dtype.bits, 8)
    if not _fits(tensor, stored) or not (several or has_static_form(tensor)):
        return None
    value = b.initializer(tensor.name, unpacked(tensor).cast(_element(b, tensor)).transpose(order))
    # onnxruntime rewrites signed weights and their zero points pair by pair, and fails on a shared one.
    scale, zero, axis = _parameters(b, tensor, order, own_zero=True)
    return b.node("DequantizeLinear", [value, scale, zero], axis=axis)


def _static_blocks(b: Builder, tensor: Tensor, order: Perm) -> str | None:
    """Return static fixed-point data with scales per block before a DequantizeLinear.

    That has blocks along one axis, and zero points that the stored type holds (opset 21).
    """
    encoding, where = encoding_of(tensor), f"tensor {tensor.name!r}"
    if not isinstance(encoding, BlockScaleOffset | BlockwiseExpansion):
        return None
    block = block_shape(encoding, tensor.shape)
    wide = [axis for axis, dim in enumerate(block or ()) if dim != 1]
    if block is None or len(wide) != 1:
        return None
    first = tuple(slice(None, None, dim) for dim in block)
    scale, offset = (
        numpy.broadcast_to(found, tensor.shape)[first].transpose(order)
        for found in scale_and_offset(encoding, tensor.shape, where=where)
    )
    low, high = tensor.dtype.limits
    if numpy.any(-offset < low) or numpy.any(-offset > high):
        return None
    element = _element(b, tensor)
    value = b.initializer(tensor.name, unpacked(tensor).cast(element).transpose(order))
    inputs = [
        value,
        b.constant(scale, numpy.float32),
        b.constant((-offset).astype(numpy.int32).astype(element)),
    ]
    return b.node("DequantizeLinear", inputs, axis=order.index(wide[0]), block_size=block[wide[0]])


def rounded(b: Builder, value: str, tensor: Tensor, order: Perm) -> str:
    """Return float values rounded to an encoding that QuantizeLinear has no form for."""
    scale, offset = scale_and_offset(encoding_of(tensor), tensor.shape, where=f"tensor {tensor.name!r}")
    if numpy.ndim(scale):
        scale, offset = scale.transpose(order), offset.transpose(order)
    low, high = quantized_limits(tensor)
    step = b.constant(numpy.float32(scale))
    low_real, high_real = numpy.float32(low + offset), numpy.float32(high + offset)
    steps = b.node("Round", [b.node("Div", [value, step])])
    kept = b.node("Min", [b.node("Max", [steps, b.constant(low_real)]), b.constant(high_real)])
    return b.node("Mul", [kept, step])


def bias(b: Builder, tensor: Tensor, source: Tensor, weight: Tensor, axis: int) -> str:
    """Return a bias for an op with integer kernels.

    Args:
        tensor: The bias, one number per output channel.
        source: The op's input activation.
        axis: Output-channel axis of the weights.
    """
    if b.adjusted is not None:
        return _fed_bias(b, tensor, source, weight)
    steps = bias_steps(b, tensor, source, weight, axis)
    if steps is None:
        return b.read(tensor)
    stored, scale = steps
    name = b.initializer(tensor.name, ArrayData(stored))
    zero = numpy.zeros(scale.shape, numpy.int32)
    inputs = [name, b.constant(scale), b.constant(zero)]
    return b.node("DequantizeLinear", inputs, axis=0 if numpy.ndim(scale) else None)


def _fed_bias(b: Builder, tensor: Tensor, source: Tensor, weight: Tensor) -> str:
    """Return a bias in steps of weight scale times the input's scale, which is fed."""
    if b.op is None or not multiplies_bytes(b, b.op):
        return b.read(tensor)
    encoding = weight.encoding
    scales = encoding.scales if isinstance(encoding, AxisScaleOffset) else encoding.scale  # type: ignore[union-attr]
    of_weight = b.constant(numpy.broadcast_to(numpy.asarray(scales, numpy.float32), tensor.size))
    scale = b.node("Mul", [of_weight, _parameters(b, source, ())[0]])
    steps = b.node("Round", [b.node("Div", [b.read(tensor), scale])])
    bounded = b.node("Clip", [steps, b.constant(-_LARGEST_BIAS), b.constant(_LARGEST_BIAS)])
    return b.node("DequantizeLinear", [b.cast(bounded, numpy.int32), scale], axis=0)


def multiplies_bytes(b: Builder, op: Op) -> bool:
    """Return whether an op between encodings that are fed multiplies integers."""
    is_dense = op.type == "FullyConnected"
    is_window = traits(op).is_convolution and not op.type.startswith("Transpose")
    if b.adjusted is None or not (is_dense or is_window):
        return False
    source, weight, *biases = op.inputs
    if source is None or weight is None or not has_integer_kernel(b, source, weight):
        return False
    (result,), encoding = op.outputs, weight.encoding
    axis = 0 if is_dense else weight.rank - 1
    count = weight.shape[axis]
    is_alike = isinstance(encoding, ScaleOffset) or getattr(encoding, "axis", None) == axis
    has_biases = all(bias is None or (bias.is_static and bias.size == count) for bias in biases)
    return is_alike and has_biases and result.dtype is source.dtype


def has_integer_kernel(b: Builder, source: Tensor, weight: Tensor) -> bool:
    """Return whether onnxruntime multiplies with static weights as integers."""
    return (
        b.is_rounded(source)
        and has_form(source)
        and isinstance(source.encoding, ScaleOffset)
        and weight.is_static
        and weight.dtype.is_fixed
        and has_static_form(weight)
        and max(source.dtype.bits, weight.dtype.bits) == 8
    )


def bias_steps(
    b: Builder, tensor: Tensor, source: Tensor, weight: Tensor, axis: int
) -> tuple[Any, Any] | None:
    """Return a bias as int32 in steps of input times weight scale, and that scale.

    Integer kernels take no other, whatever its own scale is, so other biases are brought to that scale.
    None where there is no integer kernel, or the bias has no such form.

    Args:
        tensor: The bias, one number per output channel.
        source: The op's input activation.
        axis: Output-channel axis of the weights.
    """
    if not (has_integer_kernel(b, source, weight) and tensor.is_static):
        return None
    steps = weight.encoding
    if isinstance(steps, AxisScaleOffset):
        if steps.axis != axis or len(steps.scales) != tensor.size:
            return None
        weight_scale: Any = numpy.asarray(steps.scales, numpy.float32)
    else:
        weight_scale = numpy.float32(steps.scale)  # type: ignore[union-attr]
    scale = numpy.float32(source.encoding.scale) * weight_scale  # type: ignore[union-attr]
    stored = numpy.rint(_steps(tensor, scale))
    if not numpy.all(numpy.isfinite(stored)) or numpy.any(numpy.abs(stored) >= 1 << 31):
        return None
    return stored.astype(numpy.int32), scale


def _steps(bias: Tensor, scale: Any) -> Any:
    """Return a bias in steps of ``scale``, unchanged if that is its own scale."""
    encoding = bias.encoding
    if not bias.dtype.is_fixed or not isinstance(encoding, ScaleOffset | AxisScaleOffset):
        return float_data(bias).numpy().astype(numpy.float64).reshape(-1) / scale
    scales = encoding.scales if isinstance(encoding, AxisScaleOffset) else encoding.scale
    ratio = numpy.asarray(scales, numpy.float64) / scale
    ratio = numpy.where(numpy.abs(ratio - 1) < SAME_SCALE, 1.0, ratio)
    zeros = numpy.asarray(_zero_points(bias), numpy.float64)
    return (unpacked(bias).numpy().astype(numpy.float64).reshape(-1) - zeros) * ratio


def check(tensor: Tensor) -> None:
    """Check that a fixed-point tensor has an encoding that fits it.

    Raises:
        ModelError: If not.
    """
    encoding = encoding_of(tensor)
    scale = check_scales(encoding, tensor.shape, where=f"tensor {tensor.name!r}")
    if not (numpy.all(numpy.isfinite(scale)) and numpy.all(scale > 0)):
        raise ModelError(
            "the scale is not a positive number",
            where=f"tensor {tensor.name!r}",
            fix="quantize the model again",
        )
