"""Imputer."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, number, select
from xdlc.converter.operators.registry import ANY, ML, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.elementwise_enums import EQUAL


@importer("Imputer", domain=ML, layout=ANY)
def imputer(node: Node, b: Builder) -> Value:
    """Select the imputed values where x is the replaced one, which may be NaN."""
    x = node.required(0)
    kind = "float" if x.dtype.is_float else "int64"
    imputed = np.asarray(node.attr(f"imputed_value_{kind}s") or [], x.dtype.numpy)
    missing = node.attr(f"replaced_value_{kind}", 0.0 if x.dtype.is_float else 0)
    if not x.rank or imputed.size not in (1, x.shape[-1]):
        raise node.invalid(f"{imputed.size} imputed values for {list(x.shape)}")
    if math.isnan(missing):
        gap = b.unary("IsNan", x, dtype=BOOL8)
    else:
        gap = compare(b, EQUAL, x, number(b, x, missing))
    return select(b, gap, b.const(imputed), x)
