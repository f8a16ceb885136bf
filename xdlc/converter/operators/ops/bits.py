"""BitShift and BitCast of integers."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.ops._compose import compare, number, select
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value, identity
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, INT32, INT64, UINT8, UINT64
from xdlc.opdefs.elementwise_enums import FLOOR_DIV, LESS, MINIMUM, MULTIPLY

_LONG = 62  # most bits by which one division by a positive 64-bit number shifts


@importer("BitShift", since=11)
def bit_shift(node: Node, b: Builder) -> Value:
    """Write products with powers of two, and divisions by them, rounded down.

    Shifting by as many bits as there are, or by more, leaves what fills up only.
    """
    x, amounts, direction = node.required(0), node.required(1), node.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.invalid(f"direction {direction!r} is unknown")
    if direction == "RIGHT" and x.dtype is UINT64:
        raise node.problem("right shifts of unsigned 64-bit integers are not supported")
    bits = x.dtype.bits
    count = b.cast(amounts, INT64)
    if amounts.dtype.is_signed:
        count = select(b, compare(b, LESS, count, number(b, count, 0)), number(b, count, bits), count)
    count = b.cast(b.binary(MINIMUM, count, number(b, count, bits)), INT32)
    wide = b.cast(x, INT64)
    steps = np.arange(bits + 1)
    if direction == "LEFT":
        powers = np.where(steps < bits, np.uint64(1) << steps.astype(np.uint64) % 64, 0).astype(np.int64)
        return b.cast(b.binary(MULTIPLY, wide, _looked_up(b, powers, count)), x.dtype)
    for part in (np.minimum(steps, _LONG), np.maximum(steps - _LONG, 0)):
        if part.any():
            wide = b.binary(FLOOR_DIV, wide, _looked_up(b, np.int64(1) << part, count))
    return b.cast(wide, x.dtype)


def _looked_up(b: Builder, table: Array, index: Value) -> Value:
    """Return for each index the number that a table holds."""
    if index.is_static:
        return b.const(table[index.numpy()])
    source = b.source_order(b.const(table, f"{b.stem}_powers"))
    places = b.source_order(index)
    out = b.emit("Gather", [source, places], places.shape, INT64, {"axis": ir.i32(0)})
    return Value(out, identity(out.rank)) if index.rank else b.reshape(Value(out, (0,)), ())


@importer("BitCast", since=26)
def bit_cast(node: Node, b: Builder) -> Value:
    """Map integers of one width onto Cast, which wraps around."""
    x = node.required(0)
    dtype = ir.dtype.from_numpy(protobuf.numpy_dtype(node.attr("to")))
    same = x.dtype.is_integer and dtype.is_integer and x.dtype.bits == dtype.bits
    if not same and (x.dtype, dtype) != (BOOL8, UINT8):
        raise node.problem(f"the bits of {x.dtype} as {dtype}")
    return b.cast(x, dtype)
