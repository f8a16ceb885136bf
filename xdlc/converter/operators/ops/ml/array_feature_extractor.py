"""ArrayFeatureExtractor."""

from __future__ import annotations

import math

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops.gather import index_value
from xdlc.converter.operators.registry import ML, Node, importer
from xdlc.converter.values import Value, identity


@importer("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(node: Node, b: Builder) -> Value:
    """Map onto Gather along the last axis; one axis of data is one row."""
    x, indices = node.required(0), node.required(1)
    count = math.prod(indices.shape)
    if not x.rank or not count:
        raise node.invalid(f"{count} indices into {list(x.shape)}")
    positions = b.reshape(index_value(node, b, indices, x.shape[-1]), (count,))
    if x.rank == 1:
        x = b.reshape(x, (1, *x.shape))
    shape = (*x.shape[:-1], count)
    params: dict[str, ir.Param] = {"axis": ir.i32(x.rank - 1)}
    out = b.emit("Gather", [b.source_order(x), b.source_order(positions)], shape, x.dtype, params)
    return Value(out, identity(out.rank))
