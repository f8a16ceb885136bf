"""Storage of narrow integers as fixed point, as HTP requires.

Narrow are signed integers of 8 bits, and all of 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy

from xdlc import ir
from xdlc.ir import AxisScaleOffset, Graph, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32, INT8, INT16, SFIXED8, SFIXED16, UFIXED8, UFIXED16, UINT8, UINT16
from xdlc.opdefs import args
from xdlc.opdefs.elementwise_enums import ADD, FLOOR, MULTIPLY
from xdlc.passes._match import turn_into
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass
from xdlc.passes.exact_casts import truncated
from xdlc.passes.widen_bytes import moves

_STORED = {INT8: SFIXED8, INT16: SFIXED16, UINT16: UFIXED16, UINT8: UFIXED8}
_WHOLE = ScaleOffset(1.0, 0)
_REASON = "HTP stores integers of this width as fixed point"


@graph_pass(stage="htp", after=("reinterpret_io",))
def store_integers(graph: Graph) -> bool:
    """Turn int8, int16 and uint16 into fixed point of the same stored values.

    That is done where the ops around them move values, cast them, or reinterpret them as fixed point; callers
    feed and fetch the same bytes.  The scale is that of the reinterpretation, or else 1.  Casts become
    Quantize and Dequantize (``exact_casts``), which HTP may compute in half precision: integers of 16 bits
    are not cast to other integers so.  Scales per axis, which HTP's Dequantize does not support, become
    factors.
    """
    ends = (tensor for op in graph.ops for tensor in (*op.inputs, *op.outputs) if tensor is not None)
    seen: set[Tensor] = set()
    changed = False
    for tensor in dict.fromkeys((*graph.inputs, *ends, *graph.outputs)):
        if tensor.dtype in _STORED and tensor not in seen:
            group, ops = _group(graph, tensor)
            seen |= group
            changed |= _store(graph, group, ops)
    return changed


def _group(graph: Graph, first: Tensor) -> tuple[set[Tensor], list[Op]]:
    """Return the narrow integers sharing values with a tensor, and their ops."""
    group, waiting = {first}, [first]
    ops: dict[Op, None] = {}
    while waiting:
        tensor = waiting.pop()
        for op in (*graph.consumers(tensor), *([tensor.producer] if tensor.producer is not None else [])):
            ops[op] = None
            if op.type not in ("Cast", "Reinterpret"):
                new = _narrow((*op.inputs, *op.outputs)) - group
                group |= new
                waiting += new
    return group, sorted(ops, key=lambda op: op.name)


def _narrow(tensors: Iterable[Tensor | None]) -> set[Tensor]:
    return {tensor for tensor in tensors if tensor is not None and tensor.dtype in _STORED}


def _store(graph: Graph, group: set[Tensor], ops: Sequence[Op]) -> bool:
    readings = [op for op in ops if op.package == ir.HOST_PACKAGE and op.type == "Reinterpret"]
    casts = [op for op in ops if op.package == ir.NATIVE_PACKAGE and op.type == "Cast"]
    others = [op for op in ops if op not in readings and op not in casts]
    if not all(op.package == ir.NATIVE_PACKAGE and moves(op) for op in others):
        return False
    if not all(map(_is_exact, casts)):
        return False
    sides = [side for op in readings for side in (*op.inputs, *op.outputs) if side is not None]
    encodings = {side.encoding for side in sides if side not in group}
    encoding = encodings.pop() if len(encodings) == 1 else None
    by_axis = bool(readings) and all(_is_dequantized(graph, op) for op in readings)
    if not readings and any(tensor.dtype is UINT8 for tensor in group):
        return False  # HTP has bytes of its own, but reads them wrongly as fixed point after a Cast of int32
    if by_axis or not readings:
        encoding = _WHOLE
    elif casts or not isinstance(encoding, ScaleOffset):
        return False
    for tensor in group:
        tensor.dtype, tensor.encoding = _STORED[tensor.dtype], encoding
    for op in readings:
        if by_axis:
            _scale_by_axis(graph, op)
        else:
            turn_into(graph, op, "Reshape")
    for op in casts:
        source = op.inputs[0]
        if source is not None and _is_quantizing(op):
            # Quantize rounds, a few elements down (emulation of SDK 2.51): both find the same here.
            writer = Writer(graph, op, _REASON)
            whole = truncated(graph, op, writer.cast(source, FLOAT32))
            graph.set_inputs(op, [writer.binary(ADD, whole, writer.number(0.25))])
        elif any(_is_quantizing(made) for made in casts):  # the library removes such a pair
            writer = Writer(graph, op, _REASON)
            result = op.outputs[0]
            real = writer.emit("Cast", op.inputs, result.shape)
            writer.finish(writer.cast(writer.unary(FLOOR, real), result.dtype))
    return True


def _is_quantizing(op: Op) -> bool:
    return op.inputs[0] is not None and op.inputs[0].dtype.is_float


def _is_exact(op: Op) -> bool:
    """Return whether Quantize and Dequantize compute a Cast exactly."""
    source, result = op.inputs[0], op.outputs[0]
    if source is None or source.is_static or len(_narrow((source, result))) != 1:
        return False
    narrow, other = (source, result) if source.dtype in _STORED else (result, source)
    return not other.dtype.is_fixed and (
        narrow.dtype.bits == 8 or (narrow is source and other.dtype.is_float)
    )


def _is_dequantized(graph: Graph, op: Op) -> bool:
    result = op.outputs[0]
    readers = graph.consumers(result)
    axis = isinstance(result.encoding, AxisScaleOffset) and result.encoding.bits is None
    return axis and not graph.is_output(result) and all(reader.type == "Dequantize" for reader in readers)


def _scale_by_axis(graph: Graph, op: Op) -> None:
    """Dequantize with scale 1, then apply offsets and scales of an axis."""
    source, encoding = args.operand(op, 0), op.outputs[0].encoding
    assert isinstance(encoding, AxisScaleOffset)
    shape = [1] * source.rank
    shape[encoding.axis] = len(encoding.scales)

    for reader in graph.consumers(op.outputs[0]):
        writer = Writer(graph, reader, _REASON)
        real = writer.emit("Dequantize", [source], source.shape)
        for operation, values in ((ADD, encoding.offsets), (MULTIPLY, encoding.scales)):
            if operation is MULTIPLY or any(values):
                factors = writer.constant(numpy.array(values, numpy.float32).reshape(shape))
                real = writer.binary(operation, real, factors)
        writer.finish(real)
    graph.remove(op)
