"""Activations with a bias or a factor fused into them."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import part
from xdlc.converter.operators.ops._formulas import plus, silu, tanh_gelu
from xdlc.converter.operators.ops.neuron import neuron
from xdlc.converter.operators.registry import ANY, MICROSOFT, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import ADD, GELU, MULTIPLY


@importer("Gelu", domain=MICROSOFT, layout=ANY, dynamic=True)
def gelu(node: Node, b: Builder) -> Value:
    """Map onto Gelu, the form with the error function."""
    return neuron(b, node.required(0), GELU)


@importer("BiasGelu", domain=MICROSOFT, layout=ANY, dynamic=True)
def bias_gelu(node: Node, b: Builder) -> Value:
    """Map onto an addition and Gelu."""
    return neuron(b, b.binary(ADD, node.required(0), node.required(1)), GELU)


@importer("FastGelu", domain=MICROSOFT, layout=ANY, dynamic=True)
def fast_gelu(node: Node, b: Builder) -> Value:
    """Write the approximation with the hyperbolic tangent."""
    return tanh_gelu(b, plus(b, node.required(0), node.input(1)))


@importer("QuickGelu", domain=MICROSOFT, layout=ANY, dynamic=True)
def quick_gelu(node: Node, b: Builder) -> Value:
    """Write x * sigmoid(alpha * x)."""
    return silu(b, node.required(0), node.attr("alpha", 1.702))


@importer("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node: Node, b: Builder) -> Value:
    """Write the left half of the last axis times Gelu of the right half."""
    x = b.binary(ADD, node.required(0), node.required(1))
    axis, middle = x.rank - 1, x.shape[-1] // 2
    right = neuron(b, part(b, x, axis, middle, 2 * middle), GELU)
    return b.binary(MULTIPLY, part(b, x, axis, 0, middle), right)
