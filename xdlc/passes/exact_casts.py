"""Replacement of Casts that HTP computes differently from their definition."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Origin, ScaleOffset, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, UFIXED16
from xdlc.opdefs.elementwise_enums import ABS, CEIL, FLOOR, MULTIPLY, NOT_EQUAL, ROUND, SIGN
from xdlc.opdefs.verify import verify_op
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass

_CUT = "HTP omits a Cast to integers and back"
_PLAIN = ("int", "uint")
_STEPS = ScaleOffset(2.0**-24, -(1 << 15))


@graph_pass(stage="htp", after=("narrow_integers",))
def exact_casts(graph: Graph) -> bool:
    """Replace Casts that HTP rounds by exact ops.

    Casts between fixed point and numbers become Quantize and Dequantize, those to bool8
    NotEqual.

    HTP's Cast reads and writes quantized values, whatever their encoding, and makes False
    of negative numbers (emulation of SDK 2.51, v68 and v75).  Casts between fixed point and plain integers of
    its width stay: they mean the quantized values on the host as well.  A Cast of floats
    to integers that another to floats follows gets whole numbers: the library removes such a pair.
    """
    cut = [_cut_fraction(graph, op) for op in graph.ops if op.type == "Cast" and _is_undone(graph, op)]
    changed = [_make_exact(graph, op) for op in graph.ops if op.type == "Cast" and not _keeps_stored(op)]
    return any((*cut, *changed))


def _is_undone(graph: Graph, op: Op) -> bool:
    """Return whether a Cast from float to integer is followed by a Cast to float."""
    source, result = op.inputs[0], op.outputs[0]
    if op.package != ir.NATIVE_PACKAGE or source is None:
        return False
    if not (source.dtype.is_float and result.dtype.is_integer):
        return False
    readers = list(graph.consumers(result))
    for reader in readers:
        if reader.type == "Reshape":
            readers += graph.consumers(reader.outputs[0])
    return any(reader.type == "Cast" and not reader.outputs[0].dtype.is_integer for reader in readers)


def _cut_fraction(graph: Graph, op: Op) -> bool:
    """Truncate values before a Cast, unless they are whole numbers."""
    source = op.inputs[0]
    writer = source.producer if source is not None else None
    if source is None or (writer is not None and (writer.origin.reason == _CUT or _is_whole(writer))):
        return False
    graph.set_inputs(op, [truncated(graph, op, source)])
    return True


def _is_whole(op: Op) -> bool:
    return op.type == "ElementWiseUnary" and op.param("operation") in (CEIL, FLOOR, ROUND)


def truncated(graph: Graph, op: Op, x: Tensor) -> Tensor:
    """Insert ops before an op that truncate floats; return their result."""
    writer = Writer(graph, op, _CUT)
    whole = writer.unary(FLOOR, writer.unary(ABS, x))
    return writer.binary(MULTIPLY, writer.unary(SIGN, x), whole)


def _make_exact(graph: Graph, op: Op) -> bool:
    """Replace a Cast by ops that HTP computes correctly; return whether that is done."""
    source = op.inputs[0] if op.package == ir.NATIVE_PACKAGE else None
    if source is None or source.is_static:
        return False
    result = op.outputs[0]
    if result.dtype is BOOL8:
        return _compare(graph, op, source)
    if source.dtype.is_fixed is result.dtype.is_fixed:
        return False
    axes = result.dynamic_axes
    real = Tensor(graph.unique_name(f"{result.name}_real"), result.shape, FLOAT32, dynamic_axes=axes)
    if result.dtype.is_fixed:
        if not _is_taken("Quantize", real, result):
            return False
        if source.dtype is not FLOAT32:
            _insert(graph, op, "Cast", source, real)
            source = real
        last = Op("Quantize", [source], [result], name=op.name, origin=op.origin)
    else:
        if not _is_taken("Dequantize", source, real):
            return False
        if result.dtype is FLOAT32:
            last = Op("Dequantize", [source], [result], name=op.name, origin=op.origin)
        else:
            _insert(graph, op, "Dequantize", source, real)
            if result.dtype.is_integer and result.dtype is not INT32:  # its Cast to bytes may round
                name = graph.unique_name(f"{result.name}_int32")
                whole = Tensor(name, result.shape, INT32, dynamic_axes=axes)
                _insert(graph, op, "Cast", real, whole)
                real = whole
            last = Op("Cast", [real], [result], name=op.name, origin=op.origin)
    graph.replace_op(op, last)
    return True


def _keeps_stored(op: Op) -> bool:
    source, result = op.inputs[0], op.outputs[0]
    if source is None or source.dtype.bits != result.dtype.bits:
        return False
    pair = sorted((source.dtype, result.dtype), key=lambda dtype: dtype.is_fixed)
    return pair[1].is_fixed and pair[0].kind in _PLAIN


def _is_taken(type: str, source: Tensor, result: Tensor) -> bool:
    return not verify_op(Op(type, [source], [result], name=type), backend="htp")


def _compare(graph: Graph, op: Op, source: Tensor) -> bool:
    """Replace a Cast to bool8 by a comparison with zero, if HTP supports its type.

    Float values are compared as the quantized values they come from, or as saturated steps of the least
    float16: generations without floats take that too.
    """
    writer = source.producer
    quantized = writer.inputs[0] if writer is not None and writer.type == "Dequantize" else None
    real, source = source, source if quantized is None else quantized
    stored = 0
    if source.dtype.is_fixed:
        low, high = source.dtype.limits
        if not isinstance(source.encoding, ScaleOffset) or not low <= -source.encoding.offset <= high:
            return False
        stored = -source.encoding.offset
    elif source.dtype is FLOAT32:
        steps = Tensor(graph.unique_name(f"{source.name}_steps"), source.shape, UFIXED16, _STEPS)
        steps.dynamic_axes = source.dynamic_axes
        _insert(graph, op, "Quantize", source, steps)
        source, stored = steps, -_STEPS.offset
    elif source.dtype is not INT32:
        return False
    name = graph.unique_name(f"{source.name}_zero")
    data = numpy.full((1,) if source.rank else (), stored, source.dtype.numpy)
    zero = ir.static(name, data, source.dtype, source.encoding)
    params = {"operation": ir.u32(NOT_EQUAL)}
    compared = Op("ElementWiseBinary", [source, zero], op.outputs, params, name=op.name, origin=op.origin)
    graph.replace_op(op, compared)
    if (
        quantized is not None
        and writer is not None
        and not graph.consumers(real)
        and not graph.is_output(real)
    ):
        graph.remove(writer)
    return True


def _insert(graph: Graph, op: Op, type: str, source: Tensor, result: Tensor) -> None:
    origin = Origin(op.origin.nodes, "HTP computes this Cast differently")
    name = f"{op.name}_{type.lower()}"
    graph.insert_before(op, ir.make_op(graph, type, [source], [result], name=name, origin=origin))
