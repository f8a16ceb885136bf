"""EmbedLayerNormalization: word, position and segment embeddings, normalized."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, part, reduced
from xdlc.converter.operators.ops._formulas import normalized, plus
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value, check_table, identity
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import EQUAL


@importer("EmbedLayerNormalization", domain=MICROSOFT, ignores=("mask_index_type",))
def embed_layer_normalization(node: Node, b: Builder) -> list[Value]:
    """Map onto Gather, additions and LayerNorm."""
    words, segments, mask = node.required(0), node.input(1), node.input(7)
    total = plus(
        b,
        _looked_up(b, node.required(2), words),
        _positions(node, b, words),
        None if segments is None else _looked_up(b, node.required(4), segments),
    )
    made = normalized(b, total, node.required(5), node.required(6), node.attr("epsilon", 1e-12), rms=False)
    return [made, _counted(b, mask, words.shape[0]), total]


def _looked_up(b: Builder, table: Value, indices: Value) -> Value:
    """Return rows of a table [rows, width] as [..., width]."""
    if indices.is_static:
        indices = b.const(indices.numpy().astype(np.int32), indices.tensor.name)
    inputs = [b.source_order(table), b.source_order(b.cast(indices, INT32))]
    out = b.emit("Gather", inputs, (*indices.shape, table.shape[1]), table.dtype, {"axis": ir.i32(0)})
    return Value(out, identity(out.rank))


def _positions(node: Node, b: Builder, words: Value) -> Value:
    """Return the embeddings of stated positions, else of 0, 1, 2 and so on."""
    table, given = node.required(3), node.input(8)
    if given is not None:
        return _looked_up(b, table, given)
    length = words.shape[1]
    if length > table.shape[0]:
        raise node.problem(f"{length} words, but embeddings of {table.shape[0]} positions")
    rows = part(b, table, 0, 0, length)
    return b.reshape(rows, (1, *rows.shape))


def _counted(b: Builder, mask: Value | None, batch: int) -> Value:
    """Return how many numbers of each row of a mask are 1; 0 without a mask."""
    if mask is None:
        check_table(batch)
        return b.const(np.zeros(batch, np.int32))
    if mask.is_static:
        return b.const((mask.numpy() == 1).sum(axis=1, dtype=np.int32))
    words = compare(b, EQUAL, b.cast(mask, INT32), b.const(np.asarray([1], np.int32)))
    return reduced(b, "ReduceSum", b.cast(words, INT32), [1], keep=False)
