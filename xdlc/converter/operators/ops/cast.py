"""Cast."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("Cast", since=6, layout=ANY, ignores=("round_mode",), dynamic=True)
def cast(node: Node, b: Builder) -> Value:
    """Convert to another data type."""
    node.flag("saturate", 1)  # it concerns floats of 8 bits only
    target = node.attr("to")
    try:
        dtype = ir.dtype.from_numpy(protobuf.numpy_dtype(target))
    except (KeyError, TypeError):
        raise node.problem(f"QNN has no data type for ONNX's number {target}") from None
    return b.cast(node.required(0), dtype)


@importer("CastLike", since=15, layout=ANY, ignores=("round_mode",), dynamic=True)
def cast_like(node: Node, b: Builder) -> Value:
    """Convert to the data type of the second input."""
    node.flag("saturate", 1)
    return b.cast(node.required(0), node.required(1).dtype)
