"""Pad."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import picked
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, FLOAT64

_SCHEMES = {"constant": 0, "reflect": 2, "edge": 3}


@importer("Pad", since=2, layout=ANY)
def pad(node: Node, b: Builder) -> Value:
    """Map onto Pad; negative amounts cut instead."""
    x = node.required(0)
    amounts = node.required_ints(1, "pads", "the amounts")
    axes = node.ints(3, "axes", "the axes")
    axes = list(range(x.rank)) if axes is None else [node.axis(axis, x.rank) for axis in axes]
    if len(set(axes)) < len(axes):
        raise node.invalid(f"axes {axes} repeat")
    if len(amounts) != 2 * len(axes):
        raise node.problem(f"{len(amounts)} amounts for {len(axes)} axes")
    mode = node.attr("mode", "constant")
    if mode not in (*_SCHEMES, "wrap"):
        raise node.invalid(f"mode {mode!r} is unknown")
    before, after = [0] * x.rank, [0] * x.rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = amounts[index], amounts[index + len(axes)]
    x = _cut(node, b, x, before, after)
    lying = [[max(0, before[axis]), max(0, after[axis])] for axis in x.order]
    if not np.any(lying):
        return x
    if mode == "wrap":
        return _wrapped(b, x, before, after)
    params: dict[str, ir.Param] = {
        "scheme": ir.u32(_SCHEMES[mode]),
        "pad_amount": ir.u32s(lying),
    }
    if mode == "constant":
        fill = node.attr("value", 0.0)
        given = node.static(2, "the fill value")
        if given is not None and given.size:
            fill = given.reshape(-1)[0]
        params["pad_constant_value"] = _fill(node, x, fill)
    shape = [dim + sum(amount) for dim, amount in zip(x.tensor.shape, lying, strict=True)]
    return Value(b.emit("Pad", [b.to_layout(x, x.order)], shape, x.dtype, params), x.order)


def _cut(node: Node, b: Builder, x: Value, before: list[int], after: list[int]) -> Value:
    if not any(amount < 0 for amount in (*before, *after)):
        return x
    ranges = [[-min(0, before[axis]), dim + min(0, after[axis]), 1] for axis, dim in enumerate(x.shape)]
    if any(end <= start for start, end, _ in ranges):
        raise node.problem("crops all elements")
    lying = [ranges[axis] for axis in x.order]
    params = {"ranges": ir.static("", np.asarray(lying, np.int32))}
    shape = [end - start for start, end, _ in lying]
    return Value(b.emit("StridedSlice", [b.to_layout(x, x.order)], shape, x.dtype, params), x.order)


def _wrapped(b: Builder, x: Value, before: list[int], after: list[int]) -> Value:
    """Append a Gather along each axis that wraps around."""
    for axis, dim in enumerate(x.shape):
        b.check_table(dim + max(0, before[axis]) + max(0, after[axis]))
        place = np.arange(-max(0, before[axis]), dim + max(0, after[axis])) % dim
        x = picked(b, x, axis, place)
    return x


def _fill(node: Node, x: Value, fill: float) -> ir.Scalar:
    """Return the fill value as a parameter that holds it exactly."""
    if x.dtype.is_float:
        exact = x.dtype is not FLOAT64 or not np.isfinite(fill) or float(np.float32(fill)) == float(fill)
        param = ir.f32(float(fill))
    else:
        exact = -(1 << 31) <= int(fill) < 1 << 31
        param = ir.b8(bool(fill)) if x.dtype is BOOL8 else ir.i32(int(fill) if exact else 0)
    if not exact:
        raise node.problem(f"fill value {fill} has no exact form as a 32-bit parameter")
    return param
