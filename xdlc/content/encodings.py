"""Encodings in a few words."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.ir import BlockScaleOffset, BlockwiseExpansion, Encoding, ScaleOffset, VectorCode


def in_words(encoding: Encoding | None) -> str | None:
    """Return an encoding in a few words; None without one.

    Example:
        >>> in_words(ScaleOffset(0.5, -128))
        'scale 0.5, offset -128'
    """
    if encoding is None:
        return None
    bits = getattr(encoding, "bits", None)
    width = "" if bits is None else f", {bits} bits"
    if isinstance(encoding, ScaleOffset):
        return f"scale {encoding.scale:.6g}, offset {encoding.offset}{width}"
    if isinstance(encoding, BlockScaleOffset):
        form = f"per block of {'x'.join(map(str, encoding.block_shape)) or 'scalar'}"
    elif isinstance(encoding, BlockwiseExpansion):
        form = f"per channel (axis {encoding.axis}) and block, {encoding.blocks_per_axis} blocks a channel"
        width = f", block scales of {encoding.block_scale_bits} bits"
    elif isinstance(encoding, VectorCode):
        form = f"code book (axis {encoding.axis})"
    else:
        form = f"per channel (axis {encoding.axis})"
    offsets = f", offsets {min(encoding.offsets)} to {max(encoding.offsets)}" if any(encoding.offsets) else ""
    return f"{form}: {len(encoding.scales)} scales{_span(encoding.scales)}{offsets}{width}"


def _span(scales: Sequence[float]) -> str:
    return f" {min(scales):.6g} to {max(scales):.6g}" if len(scales) else ""
