"""Merging of consecutive Casts where the first one loses nothing."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import DType, Graph, Op
from xdlc.passes.base import graph_pass

EXACT = {16: 11, 32: 24, 64: 53}
"""Bits of whole numbers that floats of a width hold exactly (IEEE 754)."""


@graph_pass(stage="converter", after=("merge_views",), op_types=("Cast",))
@dataclass(frozen=True, slots=True)
class MergeCasts:
    """Join a Cast with one before it that keeps every value; drop the pair that ends where it began."""

    name: str = "merge_casts"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        results = [_simplify(graph, op) for op in graph.ops if _is_cast(op)]
        return any(results)


def _is_cast(op: Op | None) -> bool:
    return op is not None and op.type == "Cast" and op.package == ir.NATIVE_PACKAGE


def _simplify(graph: Graph, op: Op) -> bool:
    middle, result = op.inputs[0], op.outputs[0]
    before = middle.producer if middle is not None else None
    if middle is None or before is None or not _is_cast(before):
        return False
    source = before.inputs[0]
    if source is None or source.is_static or not keeps_all(source.dtype, middle.dtype):
        return False
    if result.dtype.is_fixed:  # means quantized values for some widths, and numbers for others
        return False
    if source.dtype is not result.dtype:
        graph.set_inputs(op, [source])
        op.origin = op.origin.merged(before.origin)
    elif graph.is_output(result):
        return False
    else:
        graph.replace(result, source)
        graph.remove(op)
    if not graph.consumers(middle) and not graph.is_output(middle):
        graph.remove(before)
    return True


def keeps_all(narrow: DType, wide: DType) -> bool:
    """Return whether a type holds every value of another.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32, INT32, INT64
        >>> keeps_all(INT32, INT64), keeps_all(INT32, FLOAT32)
        (True, False)
    """
    if narrow.kind == "bool":
        return wide.is_integer or wide.is_float or wide.kind == "bool"
    if narrow.is_integer and wide.is_integer:
        (low, high), (least, most) = narrow.limits, wide.limits
        return least <= low and high <= most
    if narrow.is_integer and wide.is_float and wide.name != "bfloat16":
        return narrow.bits - narrow.is_signed <= EXACT[wide.bits]
    if narrow.is_float and wide.is_float:
        return wide.bits > narrow.bits or wide is narrow
    return False
