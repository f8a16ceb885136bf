"""Encodings that tensors of floats have before they are quantized: from overrides, or from a converter."""

from __future__ import annotations

from xdlc.ir import Graph, ScaleOffset, Tensor


def forget_given(graph: Graph) -> int:
    """Take the encodings from all tensors of floats; return how many there were."""
    count = 0
    for tensor in graph.tensors.values():
        if tensor.encoding is not None and tensor.dtype.is_float:
            tensor.encoding = None
            count += 1
    return count


def given_bits(tensor: Tensor) -> int | None:
    """Return the bits of the encoding that a tensor has in the model already, or None: 8 or 16."""
    if tensor.dtype.is_fixed:
        bits: int | None = tensor.dtype.bits
    else:
        bits = tensor.encoding.bits if isinstance(tensor.encoding, ScaleOffset) else None
    return bits if bits in (8, 16) else None
