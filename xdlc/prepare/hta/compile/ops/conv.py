"""Convolutions of two axes, depthwise ones included."""

from __future__ import annotations

import math

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.weighted import weighted
from xdlc.runtime import args


@compiler("Conv2d", "DepthWiseConv2d")
def conv(op: Op, builder: PlanBuilder) -> None:
    """Emit ``conv``, ``depthwise``, or ``rows`` for windows of a single tap.

    Raises:
        ConstraintError: If shapes, weights or bias have no form in a plan.
    """
    source, weight = args.operand(op, 0), args.operand(op, 1)
    if source.rank != 4 or weight.rank != 4:
        raise ConstraintError(
            f"input {list(source.shape)} and weights {list(weight.shape)} should be of rank 4"
        )
    held = weighted(op, builder)
    depthwise = op.type == "DepthWiseConv2d"
    stride, dilation = args.integers(op, "stride", 2), args.integers(op, "dilation", 2, default=1)
    top, left, bottom, right = args.pads(op, 2)
    groups = source.shape[3] if depthwise else int(op.param("group", 1))
    settings = {
        "stride": stride,
        "dilation": dilation,
        "pads": (top, bottom, left, right),
        "margin": held.zero,
    }
    taps = math.prod(weight.shape[:2])
    whole = depthwise and stride != [1, 1]
    if source.dtype.bits == 16 and depthwise and taps == 1:
        whole = not whole
    if depthwise:
        values = held.values.reshape(*weight.shape[:2], weight.shape[3])
        held.emit("depthwise", values, whole=whole, settings=settings)
    elif taps == groups == 1 and stride == [1, 1] and not any((top, left, bottom, right)):
        held.emit("rows", held.values.reshape(weight.shape[2:]))
    else:
        held.emit("conv", held.values, settings={**settings, "groups": groups})
