"""Trilu and EyeLike."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.ops._compose import number, select
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("Trilu", since=14, layout=ANY)
def trilu(node: Node, b: Builder) -> Value:
    """Map onto selection by a static mask, so that even infinities are cut to 0."""
    x = node.required(0)
    if x.rank < 2:
        raise node.invalid(f"requires two axes, found {list(x.shape)}")
    diagonal = node.static(1, "the diagonal k")
    k = 0 if diagonal is None else int(diagonal.reshape(-1)[0])
    b.check_table(*x.shape[-2:])
    ones = np.ones(x.shape[-2:], np.bool_)
    k = max(-ones.shape[0], min(k, ones.shape[1]))
    mask = np.triu(ones, k) if node.flag("upper", 1) else np.tril(ones, k)
    return select(b, b.const(mask, f"{b.stem}_mask"), x, number(b, x, 0))


@importer("EyeLike", since=9)
def eye_like(node: Node, b: Builder) -> Value:
    """Give the ones on a diagonal, which are known with the shape."""
    x = node.required(0)
    if x.rank != 2:
        raise node.invalid(f"requires two axes, found {list(x.shape)}")
    given = node.attr("dtype")
    dtype = x.dtype if given is None else ir.dtype.from_numpy(protobuf.numpy_dtype(given))
    rows, columns = x.shape
    b.check_table(rows, columns)
    return b.const(np.eye(rows, columns, node.attr("k", 0), dtype.numpy), node.outputs[0])
