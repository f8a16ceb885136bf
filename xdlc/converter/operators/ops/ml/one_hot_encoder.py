"""OneHotEncoder."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare
from xdlc.converter.operators.registry import ML, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32, INT32
from xdlc.opdefs.elementwise_enums import EQUAL


@importer("OneHotEncoder", domain=ML)
def one_hot_encoder(node: Node, b: Builder) -> Value:
    """Compare elements with categories; unknown ones get zeros, and require ``zeros``."""
    x = node.required(0)
    categories = np.asarray(node.attr("cats_int64s") or [], np.int64)
    if node.attr("cats_strings") or not categories.size:
        raise node.problem("string categories are not supported", "encode them before the network")
    if np.abs(categories).max() >= 1 << 31 or np.unique(categories).size != categories.size:
        raise node.problem("categories that repeat, or exceed 32 bits, are not supported")
    if not node.attr("zeros", 1):
        raise node.problem("zeros = 0 is not supported: it rejects unknown categories", "use zeros = 1")
    wide = b.reshape(b.cast(x, INT32), (*x.shape, 1))
    return b.cast(compare(b, EQUAL, wide, b.const(categories.astype(np.int32))), FLOAT32)
