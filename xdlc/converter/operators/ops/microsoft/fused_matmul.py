"""Matrix products with transpositions, a factor or an activation fused into them."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._formulas import linear, tanh_gelu, times
from xdlc.converter.operators.ops.matmul import gemm, multiply
from xdlc.converter.operators.ops.microsoft._activations import activated
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value


@importer("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul(node: Node, b: Builder) -> Value:
    """Map onto MatMul; transpositions only change its operands' layouts."""
    x, y = (_turned(node, b, index, side) for index, side in ((0, "A"), (1, "B")))
    product = times(b, multiply(node, b, x, y), node.attr("alpha", 1.0))
    given = [node.attr(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    if node.attr("activation_axis") is not None:
        raise node.problem("activations along an axis are not supported")
    return activated(node, b, product, given)


def _turned(node: Node, b: Builder, index: int, side: str) -> Value:
    """Return an operand with its axes where MatMul expects them, vectors unchanged."""
    value = node.required(index)
    rank = value.rank
    across = node.attr(f"transBatch{side}", 0)
    if across and rank > 2:
        value = b.transpose(value, (*range(1, rank - 1), 0, rank - 1))
    if node.attr(f"trans{side}", 0) and rank > 1:
        value = b.transpose(value, (*range(rank - 2), rank - 1, rank - 2))
    return value


@importer("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: Node, b: Builder) -> Value:
    """Map as Gemm, then the activation."""
    given = [node.attr(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return activated(node, b, gemm(node, b), given)


@importer("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(node: Node, b: Builder) -> Value:
    """Map onto a matrix product with biases, then the approximation of Gelu."""
    return tanh_gelu(b, linear(node, b, node.required(0), node.required(1), node.input(2)))
