"""Faults of the host's kernels, which compute something else than ONNX specifies: such nodes are refused.

Found by the node tests of the onnx package, with onnxruntime 1.31.
"""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.operators.registry import Node
from xdlc.ir.dtype import FLOAT64


def check_results(node: Node) -> None:
    """Refuse a node that the host would execute wrongly.

    Raises:
        UnsupportedOp: With what differs.
    """
    rule = _RULES.get(node.type) if not node.domain else None
    found = rule(node) if rule is not None else None
    if found is not None:
        raise node.problem(*found)


def _max_unpool(node: Node) -> tuple[str, str] | None:
    if node.input(2) is None:
        return None
    return (
        "onnxruntime reads the indices as positions in output_shape, ONNX as positions in the pooled input",
        "make output_shape a constant, or omit it",
    )


def _dft(node: Node) -> tuple[str, str] | None:
    x = node.input(0)
    if x is not None and x.dtype is FLOAT64:
        return None
    if not node.attributes.get("inverse", 0) or node.attributes.get("onesided", 0):
        return None
    return (
        "an inverse DFT of complex values: ONNX's single-precision algorithm is not the host's, "
        "and what cancels out differs",
        "write it as a product with the matrix of the transform",
    )


_RULES: dict[str, Callable[[Node], tuple[str, str] | None]] = {
    "DFT": _dft,
    "MaxUnpool": _max_unpool,
}
