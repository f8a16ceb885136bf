"""Layer normalization of a sum, and onnxruntime's forms of RMS normalization."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._formulas import normalized, plus, silu
from xdlc.converter.operators.ops.neuron import neuron
from xdlc.converter.operators.ops.rms_norm import rms_normalization
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import MULTIPLY, SIGMOID


@importer("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: Node, b: Builder) -> list[Value]:
    """Map onto additions and LayerNorm; the last output is the sum."""
    return _skip(node, b, node.input(3), node.input(4), rms=False)


@importer("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(node: Node, b: Builder) -> list[Value]:
    """Map onto additions and RmsNorm; the last output is the sum."""
    return _skip(node, b, None, node.input(3), rms=True)


def _skip(node: Node, b: Builder, shift: Value | None, bias: Value | None, *, rms: bool) -> list[Value]:
    if any(node.outputs[1:3]):
        raise node.problem("its mean or deviation output is not supported", "export for inference")
    total = plus(b, node.required(0), node.required(1), bias)
    made = normalized(b, total, node.required(2), shift, node.attr("epsilon", 1e-12), rms=rms)
    return [made, made, made, total]


@importer("SimplifiedLayerNormalization", ignores=("stash_type",))
def simplified_layer_normalization(node: Node, b: Builder) -> Value:
    """Map as RMSNormalization of newer opsets, which it became."""
    if any(node.outputs[1:]):
        raise node.problem("its deviation output is not supported", "export for inference")
    return rms_normalization(node, b)


@importer("GatedRMSNorm", domain=MICROSOFT)
def gated_rms_norm(node: Node, b: Builder) -> Value:
    """Map onto RmsNorm of each group of channels, times the activated gate."""
    x, scale, gate = (node.required(index) for index in range(3))
    activation = node.attr("activation", "silu")
    if activation not in ("silu", "swish", "sigmoid"):
        raise node.problem(f"activation {activation!r}")
    size = scale.shape[-1]
    grouped = b.reshape(x, (*x.shape[:-1], x.shape[-1] // size, size))
    made = b.reshape(normalized(b, grouped, scale, None, node.attr("epsilon", 1e-5), rms=True), x.shape)
    return b.binary(MULTIPLY, made, neuron(b, gate, SIGMOID) if activation == "sigmoid" else silu(b, gate))
