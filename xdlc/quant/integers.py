"""Integers that a Cast makes reals of, such as numbers of classes, in the form in which HTP casts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.ir import NATIVE_PACKAGE, Op, ScaleOffset
from xdlc.ir.dtype import BOOL8
from xdlc.quant.rules import is_real
from xdlc.quant.statistics import Statistics

if TYPE_CHECKING:
    from xdlc.quant.job import Job

_ROOM = 2
"""How many times as large as those seen integers may be that samples do not hold."""


def keep_integers(job: Job) -> None:
    """Give results of Casts from integers the scale 1 and the offset 0; change encodings and precision alone.

    HTP stores the integer that it casts, whatever the encoding (emulation of SDK 2.51: 3 cast to ufixed8 with
    a scale of 0.02 is 0.06).  Negative and larger ones become floats first where the target has some.

    Args:
        job: The quantization under way, calibrated.
    """
    soc = job.options.soc
    for op in list(job.placement.fixed):
        if not is_cast_of_integers(op) or op.outputs[0].encoding is not None:
            continue
        result = op.outputs[0]
        seen = job.calibration.found.get(result, Statistics()).seen
        if seen.is_empty:
            continue
        bits = job.placement.fixed[op]
        if seen.low >= 0.0 and seen.high * _ROOM < 1 << bits:
            result.encoding = ScaleOffset(1.0, 0, bits)
        elif soc is None or soc.fp16:
            job.precision.acts[op.name] = None
    job.place()


def is_cast_of_integers(op: Op) -> bool:
    """Return whether an op makes reals of integers."""
    source = op.inputs[0] if op.inputs else None
    if op.type != "Cast" or op.package != NATIVE_PACKAGE or source is None or not is_real(op.outputs[0]):
        return False
    return not is_real(source) and source.dtype is not BOOL8
