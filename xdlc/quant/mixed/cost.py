"""What widths cost: bits that are multiplied, and bytes of activations and weights that are moved."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc.ir import Graph, Op
from xdlc.opdefs.traits import macs
from xdlc.quant.mixed.groups import has_weights
from xdlc.quant.op_specs import float_tensors, is_real
from xdlc.quant.placement import Placement
from xdlc.quant.precision import Precision


@dataclass(frozen=True, slots=True)
class Cost:
    """What an inference costs.

    Attributes:
        bit_operations: Multiply-accumulates times bits of one factor times bits of the other.
        bytes: Bytes of activations and weights that ops read and write, Convert included.
    """

    bit_operations: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both."""
        return Cost(self.bit_operations + other.bit_operations, self.bytes + other.bytes)

    def relative(self, unit: Cost) -> float:
        """Return the cost in units of another: the mean of both shares."""
        shares = [
            mine / theirs
            for mine, theirs in ((self.bit_operations, unit.bit_operations), (self.bytes, unit.bytes))
            if theirs
        ]
        return sum(shares) / len(shares) if shares else 0.0


def graph_cost(graph: Graph, placement: Placement, precision: Precision, float_bits: int) -> Cost:
    """Return the cost of all ops of a float graph under some widths.

    Args:
        graph: The float graph.
        placement: Where its ops are placed under ``precision``.
        precision: Bits of weights.
        float_bits: Bits of what stays float.
    """
    total = Cost()
    for op in graph.ops:
        total += op_cost(op, placement.fixed.get(op), precision.weight_bits_of(op), float_bits)
    for tensor in graph.tensors.values():
        if tensor.is_static or not is_real(tensor):
            continue
        own = placement.bits_of(graph, tensor)
        writer_is_float = tensor.producer is not None and not placement.is_written_fixed(tensor)
        for bits in (dtype.bits for dtype in placement.converted(graph, tensor)):
            total += Cost(bytes=tensor.size * ((float_bits if writer_is_float else own or bits) + bits) / 8)
        if own is not None:
            mixed = writer_is_float or None in placement.readers(graph, tensor)
            total += Cost(bytes=tensor.size * (own + float_bits) / 8 if mixed else 0.0)
    return total


def op_cost(op: Op, bits: int | None, weight_bits: int, float_bits: int) -> Cost:
    """Return the cost of an op.

    Args:
        op: Any op.
        bits: Bits of its activations; None: it stays float.
        weight_bits: Bits of its weights.
        float_bits: Bits of a float.
    """
    acts = bits or float_bits
    weight = op.inputs[1] if has_weights(op) else None
    factor = acts if weight is None or bits is None else weight_bits
    moved = sum(tensor.size * acts for tensor in float_tensors(op) if tensor is not weight)
    moved += weight.size * factor if weight is not None else 0
    return Cost(float(macs(op) * acts * factor), moved / 8)
