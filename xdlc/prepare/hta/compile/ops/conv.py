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
    depthwise = op.type == "DepthWiseConv2d"
    stride, dilation = args.integers(op, "stride", 2), args.integers(op, "dilation", 2, default=1)
    top, left, bottom, right = args.pads(op, 2)
    groups = source.shape[3] if depthwise else int(op.param("group", 1))
    taps = math.prod(weight.shape[:2])
    single = taps == groups == 1 and stride == [1, 1] and not any((top, left, bottom, right))
    shape = weight.shape[2:] if single and not depthwise else weight.shape
    if depthwise:
        shape = (*weight.shape[:2], weight.shape[3])
    held = weighted(op, builder, lambda values: values.reshape(shape))
    settings = {
        "stride": stride,
        "dilation": dilation,
        "pads": (top, bottom, left, right),
        "margin": held.zero,
    }
    if depthwise:
        whole = stride != [1, 1]
        held.emit("depthwise", whole=whole != (source.dtype.bits == 16 and taps == 1), settings=settings)
    elif single:
        held.emit("rows")
    else:
        held.emit("conv", settings={**settings, "groups": groups})
