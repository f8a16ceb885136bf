"""Storage of the weights of float operations as the integers of the source model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdlc import ir
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, Encoding, Graph, Op, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import SFIXED4, UFIXED4
from xdlc.passes._fixed_point_rules import weight_axes
from xdlc.passes._static_fixed_point import stored_weight
from xdlc.passes.base import graph_pass

_WIDEST = 16  # bits; wider integers take no less room than float32
_NIBBLE_BITS = 4
_NIBBLE = {True: SFIXED4, False: UFIXED4}


@graph_pass(stage="storage")
@dataclass(frozen=True, slots=True)
class StoreQuantizedWeights:
    """Restore the quantized values and the encoding of dequantized weights.

    Runs once, when all other passes are through: those read weights as floats.  The float values
    are the same to the last bit.  Up to four bits are packed two a byte.
    """

    name: str = "store_quantized_weights"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        found = [tensor for tensor in graph.tensors.values() if isinstance(tensor.data, ir.Dequantized)]
        stored = [_store(graph, tensor) for tensor in found]
        return any(stored)


def _store(graph: Graph, tensor: Tensor) -> bool:
    data = tensor.data
    readers = graph.consumers(tensor)
    if not isinstance(data, ir.Dequantized) or data.fixed.bits > _WIDEST or graph.is_output(tensor):
        return False
    if not readers or not all(_takes(op, tensor) for op in readers):
        return False
    stored = stored_weight(tensor, _channels(readers[0], tensor))
    if stored is None:  # no encoding that HTP has for weights of fixed-point ops, but these are float
        stored = Tensor(tensor.name, tensor.shape, data.fixed, data.encoding, data.stored, Role.STATIC)
    if (data.encoding.bits or data.fixed.bits) <= _NIBBLE_BITS and stored.data is not None:
        stored.dtype, stored.encoding = _NIBBLE[data.fixed.is_signed], _unmarked(stored.encoding)
        stored.data = ir.packed(stored.data)
    tensor.dtype, tensor.encoding, tensor.data = stored.dtype, stored.encoding, stored.data
    return True


def _takes(op: Op, tensor: Tensor) -> bool:
    """Return whether an op reads a tensor as its weights only."""
    positions = [index for index, operand in enumerate(op.inputs) if operand is tensor]
    return op.package == ir.NATIVE_PACKAGE and positions == [_weight_position(op)]


def _weight_position(op: Op) -> int | None:
    if op.type == "Gather":
        return 0
    return 1 if 1 in weight_axes(op) else None


def _channels(op: Op, tensor: Tensor) -> int | None:
    return weight_axes(op).get(op.inputs.index(tensor))


def _unmarked(encoding: Encoding | None) -> Encoding | None:
    """Return an encoding that uses all bits of its type."""
    if isinstance(encoding, ScaleOffset | AxisScaleOffset | BlockScaleOffset):
        return replace(encoding, bits=None)
    return encoding
