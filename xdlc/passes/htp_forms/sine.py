"""Sines and cosines of large angles."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, COS, MOD, SIN, SUBTRACT
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_TURNS = 710
"""113 turns to 6e-5."""


@form("ElementWiseUnary")
def _reduced(w: Writer, op: Op, source: Tensor) -> bool:
    """Reduce large angles by a table.

    The fraction of an angle is added to the least angle equal to its whole part.
    """
    kind = source.dtype
    if op.param("operation") not in (SIN, COS) or not kind.is_float or w.made(source):
        return False
    whole = w.cast(source, INT32)
    part = w.binary(SUBTRACT, source, w.cast(whole, kind))
    place = w.reshape(w.binary(MOD, whole, w.number(_TURNS, INT32)), (source.size,))
    angles = (*range(_TURNS // 2), *range(-_TURNS // 2, 0))  # exact for these, negative ones as their places
    table = w.constant(numpy.array([math.remainder(n, math.tau) for n in angles], kind.numpy))
    params: dict[str, ir.Param] = {"axis": ir.i32(0)}
    angle = w.reshape(w.emit("Gather", [table, place], place.shape, params, kind), source.shape)
    w.graph.set_inputs(op, [w.binary(ADD, angle, part)])
    return True
