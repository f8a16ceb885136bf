"""LayerNormalization, InstanceNormalization, LpNormalization and LRN."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.registry import ANY, CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last, identity


# Tools of onnxruntime misspell epsilon; onnxruntime passes over what it does not know.
@importer("LayerNormalization", ignores=("stash_type", "epsion"))
def layer_normalization(node: Node, b: Builder) -> Value:
    """Map onto LayerNorm over the axes from ``axis`` on."""
    x, scale, bias = node.required(0), node.required(1), node.input(2)
    if any(node.outputs[1:]):
        raise node.problem("its mean or deviation output is used; QNN gives none", "export for inference")
    axis = node.attr("axis", -1) % x.rank
    features = math.prod(x.shape[axis:])
    flat = b.reshape(x, (*x.shape[:axis], features))  # backends take the last axis only
    inputs = [b.source_order(flat), b.source_order(b.reshape(scale, (features,)))]
    if bias is not None:
        inputs.append(b.source_order(b.reshape(bias, (features,))))
    params: dict[str, ir.Param] = {
        "axes": ir.static("", np.asarray([axis], np.uint32)),
        "epsilon": ir.f32(node.attr("epsilon", 1e-5)),
    }
    out = b.emit("LayerNorm", inputs, flat.shape, x.dtype, params)
    return b.reshape(Value(out, identity(flat.rank)), x.shape)


@importer("InstanceNormalization", since=6, layout=CHANNEL_LAST)
def instance_normalization(node: Node, b: Builder) -> Value:
    """Map onto InstanceNorm."""
    x = node.required(0)
    inputs = [b.channel_last(x), b.source_order(node.required(1)), b.source_order(node.required(2))]
    order = channel_last(x.rank)
    params = {"epsilon": ir.f32(node.attr("epsilon", 1e-5))}
    return Value(
        b.emit("InstanceNorm", inputs, tuple(x.shape[axis] for axis in order), x.dtype, params), order
    )


@importer("LpNormalization", layout=ANY)
def lp_normalization(node: Node, b: Builder) -> Value:
    """Map onto L2Norm."""
    x = node.required(0)
    if node.attr("p", 2) != 2:
        raise node.problem(f"p = {node.attr('p')}; QNN has the L2 norm only")
    params = {"axis": ir.u32(x.axis(node.attr("axis", -1))), "epsilon": ir.f32(1e-12)}
    return b.unary("L2Norm", x, params)


@importer("LRN", layout=CHANNEL_LAST)
def lrn(node: Node, b: Builder) -> Value:
    """Map onto Lrn across channels; QNN's alpha is per element, ONNX's for the whole window."""
    x = node.required(0)
    size = node.attr("size")
    if not size or size % 2 == 0:
        raise node.problem(f"size {size} is even; QNN's window is 2 * radius + 1", "use an odd size")
    params = {
        "alpha": ir.f32(node.attr("alpha", 1e-4) / size),
        "beta": ir.f32(node.attr("beta", 0.75)),
        "bias": ir.f32(node.attr("bias", 1.0)),
        "radius": ir.i32(size // 2),
    }
    order = channel_last(x.rank)
    return Value(
        b.emit("Lrn", [b.channel_last(x)], tuple(x.shape[axis] for axis in order), x.dtype, params), order
    )
