"""Pad with a constant, a mirror image or the edge."""

from __future__ import annotations

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

CONSTANT, MIRROR_SYMMETRIC, MIRROR_REFLECT, EDGE = range(4)
MODES = {CONSTANT: "constant", MIRROR_REFLECT: "reflect", EDGE: "edge"}


@lowering("Pad")
def pad(op: Op, b: Builder) -> None:
    """Lower to Pad; the symmetric mirror to a Gather along each padded axis."""
    source, target = args.operand(op, 0), args.result(op)
    scheme = int(args.required(op, "scheme"))
    amounts = args.pads(op, source.rank)
    begins, ends = amounts[: source.rank], amounts[source.rank :]
    value = b.read(source)
    if scheme == MIRROR_SYMMETRIC:
        for axis, amount in enumerate(zip(begins, ends, strict=True)):
            if any(amount):
                if max(amount) > source.shape[axis]:
                    raise ModelError(f"cannot mirror {max(amount)} of {source.shape[axis]} elements")
                index = numpy.pad(numpy.arange(source.shape[axis]), amount, mode="symmetric")
                value = b.node("Gather", [value, b.constant(index, numpy.int64)], axis=axis)
        b.write(target, value)
        return
    if scheme not in MODES:
        raise ModelError(f"parameter 'scheme' is {scheme}; valid values are 0 to 3")
    inputs = [value, b.ints(*amounts)]
    if scheme == CONSTANT:
        inputs.append(b.like(source, op.param("pad_constant_value", 0)))
    b.write(target, b.node("Pad", inputs, mode=MODES[scheme]))
