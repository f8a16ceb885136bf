"""Broadcast operands and repetitions."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, POWER, SUBTRACT
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("ElementWiseBinary")
def _base_of_power(w: Writer, op: Op, source: Tensor) -> bool:
    """Broadcast the base of a power of fixed point first."""
    shape = op.outputs[0].shape
    if op.param("operation") != POWER or not source.dtype.is_fixed or source.shape == shape:
        return False
    w.graph.set_inputs(op, [w.expand(source, shape), *op.inputs[1:]])
    return True


@form("ElementWiseSelect")
def _select_operands(w: Writer, op: Op, source: Tensor) -> bool:
    """Broadcast operands of a Select of rank 5 or more first.

    A single number stays one beside a condition of full shape.
    """
    shape = op.outputs[0].shape
    if len(shape) < 5:
        return False
    is_whole = source.shape == shape
    inputs = [x if x is None or (is_whole and x.size == 1) else w.expand(x, shape) for x in op.inputs]
    if inputs == list(op.inputs):
        return False
    w.graph.set_inputs(op, inputs)
    return True


@form("Tile")
def _repeated_last_axis(w: Writer, op: Op, source: Tensor) -> bool:
    """Multiply by ones in place of a Tile of a last axis of 1.

    HTP drops such a Tile before a sum or product.
    """
    result = op.outputs[0]
    if not source.rank or source.shape[-1] != 1 or result.shape[-1] == 1:
        return False
    if not (source.dtype.is_float or source.dtype.is_fixed) or not _is_summed(w.graph, result):
        return False
    ones = w.constant(numpy.ones(result.shape[-1], source.dtype.numpy))
    if source.dtype.is_fixed:
        ones.dtype, ones.encoding = source.dtype, ir.ScaleOffset(1.0, 0)
    params: dict[str, ir.Param] = {"multiples": ir.u32s([*op.param("multiples")[:-1], 1])}
    if max(op.param("multiples")[:-1], default=1) > 1:
        source = w.emit("Tile", [source], (*result.shape[:-1], 1), params, source.dtype, source.encoding)
    w.finish(w.binary(MULTIPLY, source, ones, result.dtype, result.encoding))
    return True


def _is_summed(graph: Graph, x: Tensor) -> bool:
    """Return whether a sum or product reads a tensor, maybe after Reshapes."""
    readers = list(graph.consumers(x))
    for reader in readers:
        if reader.type == "Reshape":
            readers += graph.consumers(reader.outputs[0])
    sums = (ADD, MULTIPLY, SUBTRACT)
    return any(op.type == "ElementWiseBinary" and op.param("operation") in sums for op in readers)
