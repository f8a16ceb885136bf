"""Conversion between quantized values and float values of tensors, in numpy."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir.data import Array, TensorData
from xdlc.ir.derived_data import block_grid, reals_of_blocks
from xdlc.ir.encoding import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Encoding, ScaleOffset
from xdlc.ir.tensor import Tensor

_DAMAGED = "make the model again: its encoding does not fit the tensor"


def quantized_limits(tensor: Tensor) -> tuple[int, int]:
    """Return the least and largest integer of ``tensor`` within its used bits."""
    bits = used_bits(tensor)
    if tensor.dtype.is_signed:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def used_bits(tensor: Tensor) -> int:
    """Return the bits that the values of a tensor use."""
    return getattr(tensor.encoding, "bits", None) or tensor.dtype.bits


def unpacked(tensor: Tensor) -> TensorData:
    """Return the quantized values of a static tensor, one element each.

    Packed 4-bit types hold the even element in the low half of a byte.  Where an encoding uses only
    some bits of the storage type, the others mean nothing: the vendor's writer leaves them 0 for
    negative numbers too.
    """
    data = tensor.data
    if data is None:
        raise ValueError(f"tensor {tensor.name!r} is not static")
    import numpy

    if tensor.dtype.bits != 4:
        unused = tensor.dtype.bits - used_bits(tensor)
        shaped = data.reshape(tensor.shape)
        if unused <= 0 or not tensor.dtype.is_fixed:
            return shaped
        return shaped.transform(lambda array: numpy.right_shift(numpy.left_shift(array, unused), unused))

    size, shape, signed = tensor.size, tensor.shape, tensor.dtype.is_signed

    def unpack(packed: Array) -> Array:
        flat = packed.reshape(-1).view(numpy.uint8)
        halves = numpy.stack([flat & 15, flat >> 4], axis=1).reshape(-1)[:size].reshape(shape)
        return ((halves ^ 8).astype(numpy.int8) - numpy.int8(8)) if signed else halves

    return data.transform(unpack, shape=shape, dtype=numpy.int8 if signed else numpy.uint8)


def scale_and_offset(encoding: Encoding, shape: tuple[int, ...], *, where: str) -> tuple[Array, Array]:
    """Return float32 scales and float64 offsets that broadcast against ``shape``.

    Blocks of a BlockwiseExpansion divide the input-channel axis of a rank-4 weight whose channels
    are its last axis, and otherwise the elements of a channel in row-major order.

    Raises:
        ModelError: If the encoding does not fit the shape, or is a vector code.
    """
    import numpy

    if isinstance(encoding, ScaleOffset):
        return numpy.float32(encoding.scale), numpy.float64(encoding.offset)
    if isinstance(encoding, BlockScaleOffset):
        return _block_scales(encoding, shape, where)
    if isinstance(encoding, AxisScaleOffset | BlockwiseExpansion):
        axis = encoding.axis
        if not 0 <= axis < len(shape) or shape[axis] != len(encoding.scales):
            raise ModelError(
                f"the encoding has {len(encoding.scales)} scales along axis {axis} of shape {list(shape)}",
                where=where,
                fix="set one scale for each index of the axis",
            )
        along = [1] * len(shape)
        along[axis] = shape[axis]
        scales = numpy.asarray(encoding.scales, numpy.float32).reshape(along)
        offsets = numpy.asarray(encoding.offsets, numpy.float64).reshape(along)
        if isinstance(encoding, AxisScaleOffset):
            return scales, offsets
        return scales * _expansion(encoding, shape, where), offsets
    raise ModelError(
        "xdlc cannot dequantize the tensor: its encoding is a code book, which has no scales",
        where=where,
        fix="quantize the float model instead",
    )


def block_shape(
    encoding: BlockScaleOffset | BlockwiseExpansion, shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the size of a block along each axis; None if blocks have no shape."""
    if isinstance(encoding, BlockScaleOffset):
        return encoding.block_shape
    axis, blocks = encoding.axis, encoding.blocks_per_axis
    others = [at for at, size in enumerate(shape) if at != axis and size != 1]
    if len(others) != 1 or shape[others[0]] % max(blocks, 1):
        return None
    return tuple(shape[at] // blocks if at == others[0] else 1 for at in range(len(shape)))


def as_blocks(encoding: Encoding, shape: tuple[int, ...], *, where: str) -> BlockScaleOffset | None:
    """Return an encoding with a scale for each block; None if it has none.

    Blocks of a damaged expansion, or without a shape, are none.

    Raises:
        ModelError: If scales per block do not fit the shape.
    """
    import numpy

    if isinstance(encoding, BlockScaleOffset):
        check_scales(encoding, shape, where=where)
        return encoding
    if not isinstance(encoding, BlockwiseExpansion):
        return None
    block, count = block_shape(encoding, shape), len(encoding.scales)
    if block is None or shape[encoding.axis] != count or any(encoding.offsets):
        return None
    if len(encoding.block_scales) != count * encoding.blocks_per_axis:
        return None
    integers = numpy.asarray(encoding.block_scales, numpy.float32).reshape(count, -1)
    scales = integers * numpy.asarray(encoding.scales, numpy.float32)[:, None]
    wide = next(axis for axis, size in enumerate(shape) if axis != encoding.axis and size != 1)
    ordered = scales if encoding.axis < wide else scales.T
    return BlockScaleOffset(block, ordered.reshape(-1).tolist())


def check_scales(encoding: Encoding, shape: tuple[int, ...], *, where: str) -> Array:
    """Return the scales of an encoding in any shape, once it fits that of the tensor.

    Raises:
        ModelError: As ``scale_and_offset`` does.
    """
    if isinstance(encoding, BlockScaleOffset):
        return _grid_scales(encoding, shape, where)[0]
    return scale_and_offset(encoding, shape, where=where)[0]


def _block_scales(encoding: BlockScaleOffset, shape: tuple[int, ...], where: str) -> tuple[Array, Array]:
    import numpy

    scales, offsets = _grid_scales(encoding, shape, where)
    for axis, size in enumerate(encoding.block_shape):
        scales, offsets = numpy.repeat(scales, size, axis), numpy.repeat(offsets, size, axis)
    return scales, offsets


def _grid_scales(encoding: BlockScaleOffset, shape: tuple[int, ...], where: str) -> tuple[Array, Array]:
    import numpy

    try:
        grid = block_grid(encoding, shape)
    except ValueError as error:
        raise ModelError(str(error), where=where, fix=_DAMAGED) from error
    scales = numpy.asarray(encoding.scales, numpy.float32).reshape(grid)
    return scales, numpy.asarray(encoding.offsets, numpy.float64).reshape(grid)


def _expansion(encoding: BlockwiseExpansion, shape: tuple[int, ...], where: str) -> Array:
    import numpy

    axis, blocks = encoding.axis, encoding.blocks_per_axis
    by_channel = len(shape) == 4 and axis == 3
    spread = shape[2] if by_channel else int(numpy.prod(shape)) // shape[axis]
    if blocks < 1 or spread % blocks or len(encoding.block_scales) != shape[axis] * blocks:
        raise ModelError(
            f"{len(encoding.block_scales)} block scales ({blocks} per channel) do not fit {list(shape)}",
            where=where,
            fix=_DAMAGED,
        )
    integers = numpy.asarray(encoding.block_scales, numpy.float32).reshape(shape[axis], blocks)
    per_element = numpy.repeat(integers, spread // blocks, axis=1)
    if by_channel:
        return per_element.T.reshape(1, 1, shape[2], shape[3])
    others = [size for index, size in enumerate(shape) if index != axis]
    return numpy.moveaxis(per_element.reshape(shape[axis], *others), 0, axis)


def to_float(quantized: Array, encoding: Encoding, *, where: str) -> Array:
    """Return the float32 values ``(quantized + offset) * scale``.

    Raises:
        ModelError: If the encoding does not fit the shape.
    """
    import numpy

    blocks = as_blocks(encoding, quantized.shape, where=where) if quantized.dtype.itemsize <= 2 else None
    if blocks is not None:
        return reals_of_blocks(quantized, blocks)
    scale, offset = scale_and_offset(encoding, tuple(quantized.shape), where=where)
    if quantized.dtype.itemsize > 2 or numpy.any(numpy.abs(offset) >= 1 << 23):
        return ((quantized + offset) * scale).astype(numpy.float32)
    return (quantized.astype(numpy.float32) + offset.astype(numpy.float32)) * scale


def to_quantized(values: Array, tensor: Tensor) -> Array:
    """Return the quantized values of float values: nearest, ties to even, clipped.

    Raises:
        ModelError: If the tensor has no encoding.
    """
    import numpy

    encoding = encoding_of(tensor)
    scale, offset = scale_and_offset(encoding, tuple(values.shape), where=f"tensor {tensor.name!r}")
    low, high = quantized_limits(tensor)
    quantized = numpy.rint(numpy.asarray(values, numpy.float64) / scale) - offset
    return numpy.clip(quantized, low, high).astype(tensor.dtype.numpy)


def encoding_of(tensor: Tensor) -> Encoding:
    """Return the encoding of a fixed-point tensor.

    Raises:
        ModelError: If it has no such encoding.
    """
    if tensor.encoding is None:
        raise ModelError(
            f"the tensor has type {tensor.dtype} but has no encoding, so its values are not defined",
            where=f"tensor {tensor.name!r}",
            fix="quantize the model again, or set an encoding for the tensor",
        )
    return tensor.encoding


def float_data(tensor: Tensor) -> TensorData:
    """Return the float32 values of a static tensor, computed when needed.

    Raises:
        ModelError: If a fixed-point tensor has no usable encoding.
    """
    import numpy

    if not tensor.dtype.is_fixed:
        if tensor.data is None:
            raise ValueError(f"tensor {tensor.name!r} is not static")
        return tensor.data.reshape(tensor.shape).cast(numpy.dtype(numpy.float32))
    encoding, where = encoding_of(tensor), f"tensor {tensor.name!r}"
    check_scales(encoding, tensor.shape, where=where)
    return unpacked(tensor).transform(lambda q: to_float(q, encoding, where=where), dtype=numpy.float32)
