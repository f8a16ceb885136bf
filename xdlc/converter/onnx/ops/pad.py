"""Pad."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Value

_SCHEMES = {"constant": 0, "reflect": 2, "edge": 3}


@importer("Pad", since=2, layout=ANY)
def pad(node: Node, b: Builder) -> Value:
    """Map onto Pad; negative amounts cut instead."""
    x = node.required(0)
    amounts = node.ints(1, "pads", "the amounts") or []
    axes = node.ints(3, "axes", "the axes")
    axes = list(range(x.rank)) if axes is None else [axis % x.rank for axis in axes]
    if len(amounts) != 2 * len(axes):
        raise node.problem(f"{len(amounts)} amounts for {len(axes)} axes")
    mode = node.attr("mode", "constant")
    if mode not in _SCHEMES:
        raise node.problem(f"mode {mode!r}; QNN pads with {', '.join(_SCHEMES)}")
    before, after = [0] * x.rank, [0] * x.rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = amounts[index], amounts[index + len(axes)]
    x = _cut(node, b, x, before, after)
    lying = [[max(0, before[axis]), max(0, after[axis])] for axis in x.order]
    if not np.any(lying):
        return x
    params: dict[str, ir.Param] = {
        "scheme": ir.u32(_SCHEMES[mode]),
        "pad_amount": ir.static("", np.asarray(lying, np.uint32)),
    }
    if mode == "constant":
        fill = node.attr("value", 0.0)
        given = node.static(2, "the fill value")
        if given is not None and given.size:
            fill = given.reshape(-1)[0]
        params["pad_constant_value"] = ir.f32(fill) if x.dtype.is_float else ir.i32(fill)
    shape = [extent + sum(amount) for extent, amount in zip(x.tensor.shape, lying, strict=True)]
    return Value(b.emit("Pad", [b.physical(x, x.order)], shape, x.dtype, params), x.order)


def _cut(node: Node, b: Builder, x: Value, before: list[int], after: list[int]) -> Value:
    if not any(amount < 0 for amount in (*before, *after)):
        return x
    ranges = [[-min(0, before[axis]), extent + min(0, after[axis]), 1] for axis, extent in enumerate(x.shape)]
    if any(end <= start for start, end, _ in ranges):
        raise node.problem("cuts everything away")
    lying = [ranges[axis] for axis in x.order]
    params = {"ranges": ir.static("", np.asarray(lying, np.int32))}
    shape = [end - start for start, end, _ in lying]
    return Value(b.emit("StridedSlice", [b.physical(x, x.order)], shape, x.dtype, params), x.order)
