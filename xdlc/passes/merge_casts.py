"""Merging of consecutive Casts if the first Cast is lossless."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import DType, Graph, Op, Tensor
from xdlc.ir.dtype import FLOAT32, INT32, UINT8
from xdlc.opdefs.elementwise_enums import (
    ADD,
    CEIL,
    FLOOR,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    RELU,
    RELU_MIN_MAX,
    ROUND,
    SUBTRACT,
)
from xdlc.opdefs.traits import traits
from xdlc.passes._match import made, match
from xdlc.passes.base import op_pass

EXACT = {16: 11, 32: 24, 64: 53}
"""Bits of whole numbers that floats of a width hold exactly (IEEE 754)."""
_CASTS = made("Cast", made("Cast", "x", name="middle"))
_DEEPEST = 8
_LARGEST = 1 << 10
_KEEPING = {  # what makes whole numbers of whole numbers
    "ElementWiseBinary": (ADD, MAXIMUM, MINIMUM, MULTIPLY, SUBTRACT),
    "ElementWiseNeuron": (RELU, RELU_MIN_MAX),
}


@op_pass("Cast", stage="converter", after=("merge_views",))
def merge_casts(graph: Graph, op: Op) -> bool:
    """Join a Cast with a lossless one before it, and drop pairs without effect.

    A Cast to integers keeps floats that are rounded and clipped to their range, as in quantization with
    scales that are computed.
    """
    result = op.outputs[0]
    named = match(graph, _CASTS, result)
    if named is None or named["x"].is_static:
        return False
    source, middle = named["x"], named["middle"]
    before = middle.producer
    assert before is not None
    if not keeps_all(source.dtype, middle.dtype) and not _fits(source, middle.dtype):
        return False
    if (source.dtype, middle.dtype, result.dtype) == (UINT8, INT32, FLOAT32):
        return False  # HTP makes 0 and 1 of bytes that become floats at once
    if result.dtype.is_fixed:  # means quantized values for some widths, and numbers for others
        return False
    if source.dtype is not result.dtype:
        graph.set_inputs(op, [source])
        op.origin = op.origin.merged(before.origin)
    elif graph.is_output(result):
        return False
    else:
        graph.replace(result, source)
        graph.remove(op)
    graph.discard(before)
    return True


def _fits(source: Tensor, dtype: DType) -> bool:
    """Return whether floats are whole numbers in the range of an integer type."""
    origin, op = source, source.producer
    while op is not None and traits(op).view and op.package == ir.NATIVE_PACKAGE and op.inputs[0] is not None:
        origin = op.inputs[0]
        op = origin.producer
    if op is None or not dtype.is_integer or not source.dtype.is_float:
        return False
    if op.type != "ElementWiseNeuron" or op.param("operation") != RELU_MIN_MAX:
        return False
    least, most = dtype.limits
    return least <= op.param("min_value") and op.param("max_value") <= most and _is_whole(origin, _DEEPEST)


def _is_whole(tensor: Tensor | None, depth: int) -> bool:
    """Return whether floats are known to be whole numbers."""
    if tensor is None or not depth:
        return False
    if tensor.data is not None:
        array = tensor.data.numpy() if tensor.size <= _LARGEST and tensor.encoding is None else None
        return array is not None and bool((array == array.round()).all())
    op = tensor.producer
    if op is None or op.package != ir.NATIVE_PACKAGE:
        return False
    source, operation = op.inputs[0], op.param("operation")
    if op.type == "ElementWiseUnary":
        return operation in (CEIL, FLOOR, ROUND)
    if op.type == "Cast":
        return source is not None and source.dtype.is_integer
    is_clamp = op.type == "ElementWiseNeuron" and operation == RELU_MIN_MAX
    if is_clamp and not all(op.param(f"{end}_value").is_integer() for end in ("min", "max")):
        return False
    if traits(op).view or operation in _KEEPING.get(op.type, ()):
        return all(_is_whole(operand, depth - 1) for operand in op.inputs)
    return False


def keeps_all(narrow: DType, wide: DType) -> bool:
    """Return whether a type represents every value of another type.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32, INT32, INT64
        >>> keeps_all(INT32, INT64), keeps_all(INT32, FLOAT32)
        (True, False)
    """
    if narrow.kind == "bool":
        return wide.is_integer or wide.is_float or wide.kind == "bool"
    if narrow.is_integer and wide.is_integer:
        (low, high), (least, most) = narrow.limits, wide.limits
        return least <= low and high <= most
    if narrow.is_integer and wide.is_float and wide.name != "bfloat16":
        return narrow.bits - narrow.is_signed <= EXACT[wide.bits]
    if narrow.is_float and wide.is_float:
        return wide.bits > narrow.bits or wide is narrow
    return False
