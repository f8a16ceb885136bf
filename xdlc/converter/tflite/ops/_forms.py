"""What handlers read from nodes: inputs, data types, numbers of several names."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.session.node import Node
from xdlc.converter.tflite.tensors import TensorInfo
from xdlc.converter.values import Value
from xdlc.ir import DType


def values_of(node: Node) -> list[Value]:
    """Return the inputs, none of them missing.

    Raises:
        ModelError: If one is omitted.
    """
    return [node.required(index) for index in range(len(node.inputs))]


def dtype_of(node: Node, output: int = 0) -> DType:
    """Return the data type that the file states of an output.

    Raises:
        ModelError: If a DLC has no such type.
    """
    tensor: TensorInfo = node.message.outputs[output]
    return tensor.qnn_dtype


def stated_dims(node: Node) -> Sequence[int] | None:
    """Return the first output's shape that the file states; None if open."""
    tensor = node.message.outputs[0]
    return None if -1 in tensor.signature else tensor.shape


def padding_of(node: Node) -> str:
    """Return the padding of a window.

    Raises:
        ModelError: If the schema has no such padding.
    """
    given = node.attr("padding", 0)
    if given not in (0, 1):
        raise node.invalid(f"padding {given} is unknown")
    return ("SAME", "VALID")[given]


def sizes_of(node: Node, pattern: str, axes: str = "hw", default: int = 0) -> list[int]:
    """Return options by axis: ``stride_h`` and ``stride_w`` for ``stride_%s``."""
    return [node.attr(pattern % axis, default) for axis in axes]
