"""Transposed convolutions of two axes."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.weighted import weighted
from xdlc.runtime import args

Array = Any  # numpy.ndarray


@compiler("TransposeConv2d")
def transpose_conv(op: Op, builder: PlanBuilder) -> None:
    """Emit ``spread``.

    Raises:
        ConstraintError: If shapes, weights or bias have no form in a plan.
    """
    source, weight = args.operand(op, 0), args.operand(op, 1)
    groups = int(op.param("group", 1))
    if source.rank != 4 or weight.rank != 4 or groups < 1 or weight.shape[2] % groups:
        raise ConstraintError(
            f"input {list(source.shape)} and weights {list(weight.shape)} do not fit {groups} groups"
        )
    rows, columns, depth, each = weight.shape

    def arrange(values: Array) -> Array:
        parted = values.reshape(rows, columns, groups, depth // groups, each)
        return parted.transpose(0, 1, 3, 2, 4).reshape(rows, columns, depth // groups, groups * each)

    held = weighted(op, builder, arrange, groups=groups, transposed=True)
    settings = {
        "stride": args.integers(op, "stride", 2),
        "dilation": args.integers(op, "dilation", 2, default=1),
        "cut": args.pads(op, 2)[:2],
        "groups": groups,
        "input_zero": held.zero,
    }
    held.emit("spread", settings=settings)
