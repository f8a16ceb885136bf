"""Cast."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("Cast", since=6, layout=ANY, dynamic=True)
def cast(node: Node, b: Builder) -> Value:
    """Convert to another data type."""
    _check_rounding(node)
    target = node.attr("to")
    try:
        dtype = ir.dtype.from_numpy(protobuf.numpy_dtype(target))
    except (KeyError, TypeError):
        raise node.problem(f"ONNX data type {target} is not supported by QNN") from None
    return b.cast(node.required(0), dtype)


def _check_rounding(node: Node) -> None:
    """Refuse attributes that ONNX does not define; they concern floats of 8 bits only."""
    node.flag("saturate", 1)
    if node.attr("round_mode", "up") not in ("up", "down", "nearest"):
        raise node.invalid(f"round_mode is {node.attr('round_mode')!r:.40}")


@importer("CastLike", since=15, layout=ANY, dynamic=True)
def cast_like(node: Node, b: Builder) -> Value:
    """Convert to the data type of the second input."""
    _check_rounding(node)
    return b.cast(node.required(0), node.required(1).dtype)
