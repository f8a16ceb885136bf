"""Tensors whose infinite values reach no result, so that they do not count for ranges."""

from __future__ import annotations

import numpy as np

from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import operation_name, traits

_COMPARISONS = tuple(f"ElementWise{name}" for name in ("Greater", "GreaterEqual", "Less", "LessEqual"))


def dropped(graph: Graph) -> set[Tensor]:
    """Return the float tensors that only branches of selections and comparisons with 0 read.

    Element-wise ops of them may lie between.  A selection that outputs such a value is watched itself.
    """
    dropping: set[Tensor] = set()
    for op in reversed(graph.ops):
        for tensor in op.outputs:
            readers = graph.consumers(tensor)
            if not tensor.dtype.is_float or graph.is_output(tensor) or not readers:
                continue
            if all(_drops(reader, tensor, dropping) for reader in readers):
                dropping.add(tensor)
    return dropping


def _drops(op: Op, tensor: Tensor, dropping: set[Tensor]) -> bool:
    if op.type == "ElementWiseSelect":
        return True
    if operation_name(op) in _COMPARISONS:
        other = op.inputs[0 if op.inputs[1] is tensor else 1]
        return other is not None and other.data is not None and not np.any(other.numpy())
    return traits(op).elementwise and all(result in dropping for result in op.outputs)
