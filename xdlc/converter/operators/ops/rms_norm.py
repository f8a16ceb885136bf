"""RMSNormalization."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value, check_table, identity
from xdlc.opdefs.elementwise_enums import MULTIPLY


@importer("RMSNormalization", since=23, ignores=("stash_type",))
def rms_normalization(node: Node, b: Builder) -> Value:
    """Map onto RmsNorm over the axes from ``axis`` on.

    They are joined to one: backends support the last axis only.
    """
    x, scale = node.required(0), node.required(1)
    axis = node.axis(node.attr("axis", -1), x.rank)
    features = math.prod(x.shape[axis:])
    flat = b.reshape(x, (*x.shape[:axis], features))
    whole = scale.shape == x.shape[axis:]
    check_table(1 if whole else features)
    factor = b.reshape(scale, (features,)) if whole else b.const(np.ones(features, x.dtype.numpy))
    params: dict[str, ir.Param] = {
        "axes": ir.u32s([axis]),
        "epsilon": ir.f32(node.attr("epsilon", 1e-5)),
    }
    inputs = [b.source_order(flat), b.source_order(factor)]
    made = b.reshape(
        Value(b.emit("RmsNorm", inputs, flat.shape, x.dtype, params), identity(axis + 1)), x.shape
    )
    return made if whole else b.binary(MULTIPLY, made, scale)
