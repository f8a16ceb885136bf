"""Cast."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("Cast", since=6, layout=ANY)
def cast(node: Node, b: Builder) -> Value:
    """Convert to another data type."""
    import onnx

    target = node.attr("to")
    try:
        dtype = ir.dtype.from_numpy(onnx.helper.tensor_dtype_to_np_dtype(target))
    except (KeyError, TypeError):
        name = onnx.TensorProto.DataType.Name(target) if target is not None else None
        raise node.problem(f"QNN has no data type {name}") from None
    return b.cast(node.required(0), dtype)


@importer("CastLike", since=15, layout=ANY)
def cast_like(node: Node, b: Builder) -> Value:
    """Convert to the data type of the second input."""
    return b.cast(node.required(0), node.required(1).dtype)
