"""Element-wise operations of one operand."""

from __future__ import annotations

import numpy

from xdlc.ir import HOST_PACKAGE, Op
from xdlc.opdefs import args
from xdlc.opdefs.elementwise_enums import UNARY as OPERATIONS
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import is_uint64, lowering

# Numbers of parameter `operation`: OpDef of ElementWiseUnary.
DIRECT = {name: name for name in OPERATIONS if name not in ("Rsqrt", "SquareRoot")} | {"SquareRoot": "Sqrt"}
FLOAT_ONLY = frozenset(OPERATIONS) - {"Abs", "Neg", "Sign", "Not"}
BOOL = numpy.dtype(numpy.bool_)


def _lower(op: Op, b: Builder, operation: str) -> None:
    source, target = args.operand(op, 0), args.result(op)
    order = b.orders(source)[0] if b.orders(source) else None
    dtype = b.dtype(source)
    if operation == "Not":
        dtype = BOOL
    elif operation in FLOAT_ONLY and dtype.kind != "f":
        dtype = numpy.dtype(numpy.float32)
    value = b.read(source, order, dtype=dtype)
    if is_uint64(source) and operation in ("Abs", "Sign"):
        value = value if operation == "Abs" else b.cast(b.cast(value, BOOL), dtype)
    elif operation == "Rsqrt":
        value = b.node("Reciprocal", [b.node("Sqrt", [value])])
    else:
        value = b.node(DIRECT[operation], [value])
    if operation in ("Abs", "Neg") and dtype == b.dtype(target):
        value = b.wrapped(value, target)
    b.write(target, value, order, dtype=dtype)


@lowering("ElementWiseUnary")
def unary(op: Op, b: Builder) -> None:
    """Lower the operation that parameter ``operation`` names."""
    _lower(op, b, args.operation(op, OPERATIONS))


@lowering(*(f"ElementWise{name}" for name in OPERATIONS))
def named(op: Op, b: Builder) -> None:
    """Lower an operation that has an op type of its own."""
    _lower(op, b, op.type.removeprefix("ElementWise"))


@lowering("IsNan")
def is_nan(op: Op, b: Builder) -> None:
    """Lower to IsNaN."""
    b.write(args.result(op), b.node("IsNaN", [b.read(args.operand(op, 0))]), dtype=BOOL)


@lowering("IsInf")
def is_inf(op: Op, b: Builder) -> None:
    """Lower to IsInf."""
    value = b.node(
        "IsInf",
        [b.read(args.operand(op, 0))],
        detect_negative=int(op.param("detect_negative", True)),
        detect_positive=int(op.param("detect_positive", True)),
    )
    b.write(args.result(op), value, dtype=BOOL)


@lowering("Erf", package=HOST_PACKAGE)
def erf(op: Op, b: Builder) -> None:
    """Lower to Erf."""
    source = args.operand(op, 0)
    order = b.orders(source)[0] if b.orders(source) else None
    b.write(args.result(op), b.node("Erf", [b.read(source, order)]), order)
