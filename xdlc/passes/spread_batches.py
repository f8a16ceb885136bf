"""Operands repeated along the batch where HTP normalizes their sum wrongly."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.passes._match import is_type
from xdlc.passes._writing import Writer
from xdlc.passes.base import op_pass

_NORMS = ("LayerNorm", "RmsNorm")
_DEPTH = 4
"""Most ops between the operand and the norm."""
_REASON = "HTP normalizes the sum wrongly if this repeats along the batch"


@op_pass("ElementWiseBinary", stage="htp", after=("step_recurrences",), needs=_NORMS)
def spread_batches(graph: Graph, op: Op) -> bool:
    """Repeat a normalized sum's operand that broadcasts along the batch.

    The axis is the third from the end.  From 16 rows on, the emulation normalizes other values then, by the
    half of their size (SDK 2.51, SM8650): those of BERT, whose positions are added for two sentences.
    """
    shape = op.outputs[0].shape
    found = [tensor for tensor in op.inputs if tensor is not None and _broadcasts(tensor, shape)]
    if not found or op.outputs[0].dynamic_axes or not _is_normalized(graph, op.outputs[0], _DEPTH):
        return False
    w = Writer(graph, op, _REASON)
    for tensor in found:
        graph.replace(tensor, w.expand(tensor, (*tensor.shape[:-3], *shape[-3:])), [op])
    return True


def _broadcasts(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    """Return whether a tensor broadcasts only along the axis before the last two."""
    if len(shape) < 3 or tensor.shape[-2:] != shape[-2:] or 1 in shape[-3:]:
        return False
    is_plain = not tensor.dynamic_axes and not isinstance(tensor.encoding, ir.AxisScaleOffset)
    return is_plain and (tensor.rank == 2 or tensor.shape[-3] == 1)


def _is_normalized(graph: Graph, tensor: Tensor, depth: int) -> bool:
    """Return whether a norm reads a tensor, maybe after sums, products, Reshapes."""
    readers = graph.consumers(tensor)
    if any(is_type(op, *_NORMS) and op.inputs[0] is tensor for op in readers):
        return True
    following = [op.outputs[0] for op in readers if is_type(op, "ElementWiseBinary", "Reshape")]
    return depth > 0 and any(_is_normalized(graph, result, depth - 1) for result in following)
