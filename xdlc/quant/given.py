"""Encodings that tensors of floats have before they are quantized: from overrides, or from a converter."""

from __future__ import annotations

from xdlc.ir import Graph


def forget_given(graph: Graph) -> int:
    """Take the encodings from all tensors of floats; return how many there were."""
    count = 0
    for tensor in graph.tensors.values():
        if tensor.encoding is not None and tensor.dtype.is_float:
            tensor.encoding = None
            count += 1
    return count
