"""RotaryEmbedding of com.microsoft: pairs rotated by position-dependent angles."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import joined, part
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value, check_table, identity
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, SUBTRACT


@importer("RotaryEmbedding", domain=MICROSOFT, ignores=("scale",))
def rotary_embedding(node: Node, b: Builder) -> Value:
    """Write the rotation as products and sums of halves.

    onnxruntime's kernels leave ``scale`` unread.
    """
    x, positions, cosines, sines = (node.required(index) for index in range(4))
    if node.flag("is_packed_batching"):
        raise node.problem("packed batches are not supported")
    count, turned = int(node.attr("num_heads", 0)), int(node.attr("rotary_embedding_dim", 0))
    if x.rank not in (3, 4):
        raise node.problem(f"input of rank {x.rank}")
    if x.rank == 4:
        apart = b.transpose(x, (0, 2, 1, 3))
    else:
        size = x.shape[2] // count if turned and count else 2 * cosines.shape[1]
        apart = b.reshape(x, (*x.shape[:2], x.shape[2] // size, size))
    batch, length = apart.shape[:2]
    rows = placed(b, positions, batch, length)
    turned_x = rotated(
        b,
        apart,
        angles(b, cosines, rows),
        angles(b, sines, rows),
        interleaved=node.flag("interleaved"),
    )
    return b.transpose(turned_x, (0, 2, 1, 3)) if x.rank == 4 else b.reshape(turned_x, x.shape)


def placed(b: Builder, positions: Value, batch: int, length: int) -> Value:
    """Return positions [batch, length], or counted on from one number, as int32."""
    check_table(length)
    steps = np.arange(length, dtype=np.int32).reshape(1, length)
    if positions.is_static:
        known = positions.numpy().astype(np.int32)
        return b.const(known if known.size != 1 or length * batch == 1 else known.reshape(1, 1) + steps)
    held = b.cast(positions, INT32)
    if positions.size == 1 and positions.rank < 2:
        return b.binary(ADD, b.reshape(held, (1, 1)), b.const(steps))
    return held


def angles(b: Builder, table: Value, rows: Value) -> Value:
    """Return rows of a table of cosines or sines as [batch or 1, length, 1, angles]."""
    if table.is_static and rows.is_static:
        return b.const(table.numpy()[rows.numpy()][:, :, None, :], table.tensor.name)
    shape = (*rows.shape, table.shape[1])
    found = b.emit(
        "Gather", [b.source_order(table), b.source_order(rows)], shape, table.dtype, {"axis": ir.i32(0)}
    )
    return b.reshape(Value(found, identity(3)), (*rows.shape, 1, table.shape[1]))


def rotated(b: Builder, x: Value, cosine: Value, sine: Value, *, interleaved: bool) -> Value:
    """Return [batch, length, heads, size] with its first elements rotated.

    Args:
        cosine: Cosines [batch or 1, length, 1, angles].
        sine: Sines.
        interleaved: Whether elements 0 and 1 are a pair, else those of the first and the second half.
    """
    count = cosine.shape[3]
    head, tail = part(b, x, 3, 0, 2 * count), None
    if 2 * count < x.shape[3]:
        tail = part(b, x, 3, 2 * count, x.shape[3])
    lead = x.shape[:3]
    if interleaved:
        pairs = b.reshape(head, (*lead, count, 2))
        left, right = (b.reshape(part(b, pairs, 4, at, at + 1), (*lead, count)) for at in (0, 1))
    else:
        left, right = part(b, head, 3, 0, count), part(b, head, 3, count, 2 * count)
    first = b.binary(SUBTRACT, b.binary(MULTIPLY, left, cosine), b.binary(MULTIPLY, right, sine))
    second = b.binary(ADD, b.binary(MULTIPLY, right, cosine), b.binary(MULTIPLY, left, sine))
    if interleaved:
        pairs = joined(b, [b.reshape(half, (*lead, count, 1)) for half in (first, second)], 4)
        made = [b.reshape(pairs, (*lead, 2 * count))]
    else:
        made = [first, second]
    parts = made if tail is None else [*made, tail]
    return parts[0] if len(parts) == 1 else joined(b, parts, 3)
