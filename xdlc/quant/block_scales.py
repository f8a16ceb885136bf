"""Weights with a scale for each block of input channels, plain or as integers over a scale a channel.

The latter, "LPBQ" or blockwise expansion, is QNN's: ``real = stored * block_scale * channel_scale`` with
block scales from 1 to 16, four bits for weights of four bits.  HTP's emulation takes it up to v79, plain
scales per block from there on only.
"""

from __future__ import annotations

from xdlc.ir import BlockScaleOffset, BlockwiseExpansion, Op, Tensor
from xdlc.ir.data import Array
from xdlc.quant.affine import MIN_SCALE
from xdlc.quant.weight_methods import Fit, Steps
from xdlc.quant.weights import row_scales

LPBQ_BITS = 4
"""Bits of weights and of block scales in blockwise expansion."""

_TOP = 1 << LPBQ_BITS


def why_no_blocks(op: Op, weight: Tensor, size: int) -> str | None:
    """Return why a weight cannot have a scale per block of ``size`` input channels, or None if it can."""
    if op.type == "FullyConnected":
        extent = weight.shape[1]
    elif op.type == "Conv2d" and weight.shape[:2] == (1, 1) and op.param("group", 1) == 1:
        extent = weight.shape[2]
    else:
        return "only Conv2d of 1x1 without groups and FullyConnected have scales per block"
    if extent % size:
        return f"its {extent} input channels are no multiple of {size}"
    return None


def block_scales(op: Op, weight: Tensor, size: int, steps: Steps, fit: Fit) -> Array:
    """Return the scales of blocks, float64, [channels out, blocks]; 0 for a block of zeros.

    Args:
        op: An op for which ``why_no_blocks`` has no reason.
        weight: Its weight.
        size: Input channels in a block.
        steps: The integers that weights are stored as.
        fit: Range method.

    Raises:
        ModelError: If the weight holds NaN or infinite values.
    """
    if weight.data is None:
        raise ValueError(f"tensor {weight.name!r} is not static")
    array = weight.numpy()
    rows = array if weight.rank == 2 else array[0, 0].T
    outputs = rows.shape[0]
    found = row_scales(rows.reshape(-1, size), weight, steps, fit).reshape(outputs, -1)
    weight.data.release()
    return found


def block_encoding(scales: Array, weight: Tensor, size: int, bits: int) -> BlockScaleOffset:
    """Return the encoding with one real scale per block.

    Args:
        scales: What ``block_scales`` found.
        weight: The weight.
        size: Input channels in a block.
        bits: 2, 4, 8 or 16; fewer than eight are marked.
    """
    held = _without_zeros(scales)
    shape = (1, size) if weight.rank == 2 else (1, 1, size, 1)
    # Row-major over the blocks: FullyConnected has channels out first, Conv2d last.
    ordered = held if weight.rank == 2 else held.T
    return BlockScaleOffset(shape, ordered.reshape(-1).tolist(), (), bits if bits < 8 else None)


def lpbq_encoding(scales: Array, weight: Tensor, *, clips: bool, floor: Array | None) -> BlockwiseExpansion:
    """Return the encoding with integer block scales over one real scale per channel.

    A block takes the next larger multiple of its channel's scale, or the nearest one if its own scale
    clips anyway.

    Args:
        scales: What ``block_scales`` found.
        weight: The weight.
        clips: Whether the range method that found them clips.
        floor: Smallest scale of each output channel, so that a bias stays within 32 bits.
    """
    import numpy as np

    held = _without_zeros(scales)
    channels = held.max(axis=1) / _TOP
    if floor is not None:
        channels = np.maximum(channels, floor if floor.size == channels.size else floor.max(initial=0.0))
    channels = channels.astype(np.float32).astype(np.float64)
    ratios = held / channels[:, None]
    # A hair less, so that a scale which is a multiple but for its last bit does not take the next one.
    integers = np.clip(np.rint(ratios) if clips else np.ceil(ratios * (1 - 2.0**-20)), 1, _TOP)
    return BlockwiseExpansion(
        3 if weight.rank == 4 else 0,
        tuple(channels.tolist()),
        (0,) * len(channels),
        held.shape[1],
        LPBQ_BITS,
        tuple(integers.astype(int).reshape(-1).tolist()),
    )


def _without_zeros(scales: Array) -> Array:
    """Return scales in which a block of zeros has that of the largest block: any holds it exactly."""
    import numpy as np

    return np.maximum(np.where(scales > 0, scales, scales.max(initial=0.0)), MIN_SCALE)
