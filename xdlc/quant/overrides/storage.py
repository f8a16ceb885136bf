"""Stored forms of tensors under encodings from outside.

Activations and constants are stored unsigned, weights signed where they are symmetric: the float values
are the same, and HTP has kernels for these.
"""

from __future__ import annotations

from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Encoding, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import SFIXED4, SFIXED8, SFIXED16, SFIXED32, UFIXED4, UFIXED8, UFIXED16
from xdlc.opdefs.traits import Traits
from xdlc.quant.overrides.override import Grain, Override
from xdlc.quant.ranges import QuantType, activation_type, weight_type
from xdlc.quant.weights import why_no_blocks


def activation_form(override: Override) -> QuantType:
    """Return the form of an activation or a constant, its encoding marked with its bits.

    Raises:
        UsageError: If it has not 8 or 16 bits, or more than one scale.
    """
    if override.grain is not Grain.TENSOR:
        raise override.error("has several scales, but is no weight", "write one scale for the tensor")
    if override.bits not in (8, 16):
        raise override.error(
            f"has {override.bits} bits; activations and constants have 8 or 16",
            "use 8 or 16 bits, or omit the entry",
        )
    encoding = ScaleOffset(override.scales[0], override.offsets[0], override.bits)
    return activation_type(override.bits), encoding


def weight_form(override: Override, op: Op, rule: Traits, weight: Tensor, *, per_channel: bool) -> QuantType:
    """Return the form of a weight.

    Args:
        per_channel: Whether a symmetric scale of the whole of a weight of one channel is that of the channel.

    Raises:
        UsageError: If the weight cannot have such an encoding.
    """
    bits = override.bits
    if bits not in (2, 4, 8, 16):
        raise override.error(f"has {bits} bits; weights have 2, 4, 8 or 16", "use one of these")
    used = bits if bits < 8 else None
    if not override.symmetric:
        if bits < 8:
            raise override.error(
                f"is not symmetric; weights of {bits} bits are",
                f"write the offset as -{1 << (bits - 1)}, or use 8 bits",
            )
        stored = UFIXED8 if bits == 8 else UFIXED16
        return stored, ScaleOffset(override.scales[0], override.offsets[0])
    if override.grain is Grain.TENSOR:
        axis = _channel_axis(op, rule)
        if per_channel and axis is not None and weight.shape[axis] == 1:
            return weight_type(bits), AxisScaleOffset(axis, override.scales, bits=used)
        return weight_type(bits), ScaleOffset(override.scales[0], 0, used)
    if override.grain is Grain.CHANNEL:
        return weight_type(bits), _by_channel(override, op, rule, weight, used)
    return weight_type(bits), _by_block(override, op, rule, weight, used)


def _channel_axis(op: Op, rule: Traits) -> int | None:
    """Return the axis of a weight that may have scales, or None."""
    grouped = op.type.startswith("TransposeConv") and op.param("group", 1) != 1
    return None if grouped else rule.channel_axis


def _by_channel(override: Override, op: Op, rule: Traits, weight: Tensor, used: int | None) -> Encoding:
    axis, count = _channel_axis(op, rule), len(override.scales)
    if axis is None:
        raise override.error(
            f"has {count} scales, but weights of {op.type} {op.name!r} have one",
            "write one encoding for the tensor",
        )
    if weight.shape[axis] != count:
        raise override.error(
            f"has {count} scales; {op.type} {op.name!r} has {weight.shape[axis]} output channels",
            f"write {weight.shape[axis]} scales, or one",
        )
    wanted = 1 if op.type.startswith("TransposeConv") else 0
    if override.axis not in (None, wanted) and op.type != "FullyConnected":
        raise override.error(
            f"has its scales along axis {override.axis}; output channels are on axis {wanted}",
            f"write one scale for each index of axis {wanted}",
        )
    return AxisScaleOffset(axis, override.scales, bits=used)


def _by_block(override: Override, op: Op, rule: Traits, weight: Tensor, used: int | None) -> Encoding:
    size = override.block_size or 1
    why = why_no_blocks(op, weight, size)
    if why is not None:
        raise override.error(f"has scales per block: {why}", "write scales per channel")
    axis = 0 if op.type == "FullyConnected" else 3
    channels = weight.shape[axis]
    blocks = weight.size // channels // size
    expands = override.grain is Grain.EXPANSION
    count = len(override.block_scales if expands else override.scales)
    if count != channels * blocks or (expands and len(override.scales) != channels):
        raise override.error(
            f"has {count} scales of blocks; {op.name!r} has {channels} output channels of {blocks} blocks",
            f"write {channels * blocks} scales, or another block_size than {size}",
        )
    if expands:
        if (override.bits, override.block_scale_bits) != (4, 4):
            raise override.error(
                f"is LPBQ of {override.bits} in {override.bits + override.block_scale_bits} bits",
                "use 4 bits in 8, which QNN has",
            )
        return BlockwiseExpansion(axis, override.scales, (0,) * channels, blocks, 4, override.block_scales)
    if op.type == "FullyConnected":
        return BlockScaleOffset((1, size), override.scales, (), used)
    # Row-major over the blocks of [1, 1, in, out]: the channels of a block after one another.
    turned = [override.scales[out * blocks + block] for block in range(blocks) for out in range(channels)]
    return BlockScaleOffset((1, 1, size, 1), turned, (), used)


def bias_form(override: Override, op: Op, rule: Traits, bias: Tensor, *, per_channel: bool) -> QuantType:
    """Return the form of a bias.

    Args:
        per_channel: Whether the scale of a bias of one element is that of the channel, if the weight, whose
            encoding is set before, does not show it.

    Raises:
        UsageError: If it has not 8 or 32 bits, or as many scales as elements or one.
    """
    if override.bits not in (8, 32) or (override.bits == 32 and not override.symmetric):
        raise override.error(
            f"has {override.bits} bits{'' if override.symmetric else ' and an offset'}; "
            "a bias has 8, or 32 and is symmetric",
            "write a symmetric encoding of 32 bits, or omit the entry: it follows from the weights",
        )
    if override.grain is Grain.CHANNEL and override.bits == 32:
        if len(override.scales) != bias.size or bias.rank != 1:
            raise override.error(
                f"has {len(override.scales)} scales for {bias.size} elements",
                "write one scale for each element, or one",
            )
        return SFIXED32, AxisScaleOffset(0, override.scales)
    if override.grain is not Grain.TENSOR:
        raise override.error("has several scales", "write one scale, or 32 bits")
    if override.bits == 8:
        return UFIXED8, ScaleOffset(override.scales[0], override.offsets[0])
    held = op.inputs[1].encoding if op.inputs[1] is not None else None
    by_channel = per_channel and _channel_axis(op, rule) is not None
    if bias.shape == (1,) and (by_channel if held is None else isinstance(held, AxisScaleOffset)):
        return SFIXED32, AxisScaleOffset(0, override.scales)
    return SFIXED32, ScaleOffset(override.scales[0])


def udo_form(override: Override, tensor: Tensor) -> QuantType:
    """Return the form of static data of UDOs, before a definition chooses the type.

    Raises:
        UsageError: If it has scales per block, bits that no type has, or no axis has as many channels.
    """
    bits = override.bits
    if bits not in (4, 8, 16, 32) or (bits == 32 and not override.symmetric):
        raise override.error(
            f"has {bits} bits; static data of UDOs have 4, 8 or 16, or 32 and are symmetric",
            "use one of these, or omit the entry",
        )
    signed = {4: SFIXED4, 8: SFIXED8, 16: SFIXED16, 32: SFIXED32}[bits]
    if override.grain is Grain.TENSOR:
        if override.symmetric:
            return signed, ScaleOffset(override.scales[0])
        unsigned = UFIXED4 if bits == 4 else activation_type(bits)
        return unsigned, ScaleOffset(override.scales[0], override.offsets[0])
    if override.grain is not Grain.CHANNEL or not override.symmetric:
        raise override.error(
            "has scales per block, or per channel with offsets; static data of UDOs have neither",
            "write one scale, or symmetric scales per channel",
        )
    return signed, AxisScaleOffset(_open_axis(override, tensor), override.scales)


def _open_axis(override: Override, tensor: Tensor) -> int:
    """Return the axis of channels; by default the first that has as many elements."""
    count, stated = len(override.scales), override.axis
    if stated is None:
        found = [axis for axis, dim in enumerate(tensor.shape) if dim == count]
    else:
        found = [stated % tensor.rank] if -tensor.rank <= stated < tensor.rank else []
    found = [axis for axis in found if tensor.shape[axis] == count]
    if not found:
        raise override.error(
            f"has {count} scales{'' if stated is None else f' along axis {stated}'}; "
            f"{tensor.name!r} has the shape {list(tensor.shape)}",
            "write as many scales as an axis has elements, or one",
        )
    return found[0]
