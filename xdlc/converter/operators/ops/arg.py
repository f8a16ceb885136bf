"""ArgMax and ArgMin."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number, reversed_along, without_axes
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32, INT64
from xdlc.opdefs.elementwise_enums import SUBTRACT


@importer("ArgMax", "ArgMin", layout=ANY)
def arg(node: Node, b: Builder) -> Value:
    """Map onto Argmax or Argmin (int32), cast to ONNX's int64."""
    value = node.required(0)
    axis = node.axis(node.attr("axis", 0), value.rank)
    last = node.flag("select_last_index")
    if last:  # the first from the other end
        value = reversed_along(b, value, axis)
    lying = value.axis(axis)
    keep = node.flag("keepdims", 1) or value.rank == 1
    shape = [1 if position == lying else dim for position, dim in enumerate(value.tensor.shape)]
    if not keep:
        del shape[lying]
    params = {"axis": ir.u32(lying), "keep_dims": ir.b8(keep)}
    found = b.emit({"ArgMax": "Argmax", "ArgMin": "Argmin"}[node.type], [value.tensor], shape, INT32, params)
    result = Value(found, value.order if keep else without_axes(value.order, [axis]))
    if last:
        result = b.binary(SUBTRACT, number(b, result, value.shape[axis] - 1), result)
    if keep and not node.flag("keepdims", 1):
        result = b.reshape(result, ())
    return b.cast(result, INT64)
