"""Element-wise operations of one and two operands, and ElementWiseSelect."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from xdlc.ir import HOST_PACKAGE, Op, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.elementwise_enums import BINARY, UNARY
from xdlc.runtime import htp_fusion
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic.u8 import is_u8_sum, write_u8_sum
from xdlc.runtime.onnx_emitter import Perm
from xdlc.runtime.ops import divide_uint64, flip_sign_bit, is_uint64, lowering

# Numbers of parameter `operation`: OpDef of ElementWiseUnary.
DIRECT = {name: name for name in UNARY if name not in ("Rsqrt", "SquareRoot")} | {"SquareRoot": "Sqrt"}
FLOAT_ONLY = frozenset(UNARY) - {"Abs", "Neg", "Sign", "Not"}

# Numbers of parameter `operation`: OpDef of ElementWiseBinary.
ARITHMETIC = {
    "Add": "Add", "Divide": "Div", "Maximum": "Max", "Minimum": "Min", "Multiply": "Mul", "Power": "Pow",
    "Subtract": "Sub",
}  # fmt: skip
COMPARISON = {
    "Equal": "Equal", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Less": "Less",
    "LessEqual": "LessOrEqual",
}  # fmt: skip
LOGIC = {"And": "And", "Or": "Or", "Xor": "Xor"}
BOOL = numpy.dtype(numpy.bool_)


def _lower_unary(op: Op, b: Builder, operation: str) -> None:
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
    _lower_unary(op, b, args.operation(op, UNARY))


@lowering(*(f"ElementWise{name}" for name in UNARY))
def named_unary(op: Op, b: Builder) -> None:
    """Lower an operation that has an op type of its own."""
    _lower_unary(op, b, op.type.removeprefix("ElementWise"))


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


def _floor_div(b: Builder, x: str, y: str, dtype: numpy.dtype) -> str:
    if dtype.kind == "f":
        return b.node("Floor", [b.node("Div", [x, y])])
    return b.node("Div", [b.node("Sub", [x, b.node("Mod", [x, y])]), y])


def _mod(b: Builder, x: str, y: str, dtype: numpy.dtype) -> str:
    if dtype.kind != "f":
        return b.node("Mod", [x, y])
    # By way of fmod, which is exact and knows what infinity leaves over; then the divisor's sign.
    zero, rest = b.constant(0, dtype), b.node("Mod", [x, y], fmod=1)
    signs = b.node("Xor", [b.node("Less", [rest, zero]), b.node("Less", [y, zero])])
    differs = b.node("And", [signs, b.node("Not", [b.node("Equal", [rest, zero])])])
    return b.node("Where", [differs, b.node("Add", [rest, y]), rest])


def _fmod(b: Builder, x: str, y: str, dtype: numpy.dtype) -> str:
    return b.node("Mod", [x, y], fmod=1)


def _squared_difference(b: Builder, x: str, y: str, dtype: numpy.dtype) -> str:
    difference = b.node("Sub", [x, y])
    return b.node("Mul", [difference, difference])


COMPOSED: dict[str, Callable[[Builder, str, str, numpy.dtype], str]] = {
    "FloorDiv": _floor_div,
    "Mod": _mod,
    "Fmod": _fmod,
    "SquaredDifference": _squared_difference,
}


def _extreme(type: str) -> Callable[[Builder, str, str], str]:
    return lambda b, x, y: flip_sign_bit(b, b.node(type, [flip_sign_bit(b, x), flip_sign_bit(b, y)]))


# Of unsigned 64-bit integers.
UNSIGNED: dict[str, Callable[[Builder, str, str], str]] = {
    "Maximum": _extreme("Max"),
    "Minimum": _extreme("Min"),
    **dict.fromkeys(("Divide", "FloorDiv"), lambda b, x, y: divide_uint64(b, "Div", x, y)),
    **dict.fromkeys(("Mod", "Fmod"), lambda b, x, y: divide_uint64(b, "Mod", x, y)),
}


def _shared_order(b: Builder, first: Tensor, second: Tensor, target: Tensor) -> Perm | None:
    """Return the axis order that both operands exist in, where shapes permit."""
    if not first.rank == second.rank == target.rank:
        return None
    for tensor, other in ((first, second), (second, first)):
        for order in b.orders(tensor):
            if other.is_static or order in b.orders(other):
                return order
    return None


def _operands(op: Op, b: Builder, dtype: numpy.dtype | None, operation: str) -> tuple[str, str, Perm | None]:
    first, second = args.operand(op, 0), args.operand(op, 1)
    order = _shared_order(b, first, second, args.result(op))
    gate = htp_fusion.gate_of(op) if operation == "Multiply" else None
    x, y = (b.read(tensor, order, dtype=dtype, rounded=tensor is not gate) for tensor in (first, second))
    return x, y, order


def _lower_binary(op: Op, b: Builder, operation: str) -> None:
    target = args.result(op)
    operands = args.operand(op, 0), args.operand(op, 1)
    if operation == "Add" and is_u8_sum(b, *operands, target):
        write_u8_sum(b, *operands, target, _shared_order(b, *operands, target))
        return
    wide = is_uint64(*operands)
    first, second = b.dtype(args.operand(op, 0)), b.dtype(args.operand(op, 1))
    if operation in LOGIC:
        x, y, order = _operands(op, b, BOOL, operation)
        b.write(target, b.node(LOGIC[operation], [x, y]), order, dtype=BOOL)
        return
    common = numpy.promote_types(first, second)
    if operation in COMPARISON or operation == "NotEqual":
        x, y, order = _operands(op, b, common, operation)
        if wide:
            x, y = flip_sign_bit(b, x), flip_sign_bit(b, y)
        value = b.node(COMPARISON.get(operation, "Equal"), [x, y])
        if operation == "NotEqual":
            value = b.node("Not", [value])
        b.write(target, value, order, dtype=BOOL)
        return
    if common == BOOL:
        common = numpy.dtype(numpy.int32)
    x, y, order = _operands(op, b, common, operation)
    if wide and operation in UNSIGNED:
        value = UNSIGNED[operation](b, x, y)
    elif operation in ARITHMETIC:
        value = b.node(ARITHMETIC[operation], [x, y])
    else:
        value = COMPOSED[operation](b, x, y, common)
    if common == b.dtype(target):
        value = b.wrapped(value, target)
    b.write(target, value, order, dtype=common)


@lowering("ElementWiseBinary")
def binary(op: Op, b: Builder) -> None:
    """Lower the operation that parameter ``operation`` names."""
    _lower_binary(op, b, args.operation(op, BINARY))


@lowering(*(f"ElementWise{name}" for name in BINARY))
def named_binary(op: Op, b: Builder) -> None:
    """Lower an operation that has an op type of its own."""
    _lower_binary(op, b, op.type.removeprefix("ElementWise"))


@lowering("ElementWiseSelect")
def select(op: Op, b: Builder) -> None:
    """Lower to Where, of bools through bytes: onnxruntime has none of bools."""
    condition, first, second = (args.operand(op, index) for index in range(3))
    dtype = numpy.promote_types(b.dtype(first), b.dtype(second))
    dtype = numpy.dtype(numpy.uint8) if dtype == numpy.bool_ else dtype
    inputs = [
        b.read(condition, dtype=numpy.dtype(numpy.bool_)),
        b.read(first, dtype=dtype),
        b.read(second, dtype=dtype),
    ]
    b.write(args.result(op), b.node("Where", inputs), dtype=dtype)
