"""Weights of float operations: stored as integers, and dequantized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdlc import ir
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, Encoding, Graph, Op, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import BY_NAME, FLOAT16, SFIXED4, UFIXED4, DType
from xdlc.ir.quantization import float_data
from xdlc.opdefs.traits import traits
from xdlc.passes._fixed_point_rules import suits_fixed_point, weight_axes
from xdlc.passes._static_fixed_point import stored_weight
from xdlc.passes.base import graph_pass

_WIDEST = 16  # bits; wider integers take no less room than float32
_NIBBLE_BITS = 4
_NIBBLE = {True: SFIXED4, False: UFIXED4}


@graph_pass(stage="storage", needs=(ir.Dequantized,))
def store_quantized_weights(graph: Graph) -> bool:
    """Restore the quantized values and the encoding of dequantized weights.

    Runs once, when all other passes are through: those read weights as floats.  The float values
    are the same to the last bit.  Up to four bits are packed two a byte.
    """
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
    """Return whether an op reads a tensor only as its weights."""
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


@graph_pass(
    stage="htp", after=("widen_bytes",), needs=[dtype for dtype in BY_NAME.values() if dtype.is_fixed]
)
def dequantize_weights(graph: Graph, *, refused_only: bool = True) -> bool:
    """Dequantize static fixed-point operands of float operations.

    HTP supports none beside float32.  Beside float16 it supports weights of 8 bits with a scale for each
    channel, of Conv2d in kernels of 1x1 only (emulation of SDK 2.51, SM8650); scales per block it supports
    only as blockwise expansion.

    Args:
        refused_only: Whether operands stay that HTP supports.
    """
    made: dict[tuple[Tensor, DType], Tensor] = {}
    changed = [_dequantize(graph, op, made, refused_only) for op in list(graph.ops)]
    for (stored, _), real in made.items():
        graph.supersede(stored, real)
    return any(changed)


def _dequantize(graph: Graph, op: Op, reals: dict[tuple[Tensor, DType], Tensor], refused_only: bool) -> bool:
    dtype = _computed_in(op)
    if dtype is None or not any(_is_stored(tensor) for tensor in op.inputs):
        return False
    inputs = [_real(tensor, dtype, reals) for tensor in op.inputs]
    if refused_only and _is_taken(op, inputs):
        return False
    for tensor in inputs:
        if tensor is not None and graph.tensors.get(tensor.name) is not tensor:
            tensor.name = graph.unique_name(f"{tensor.name}_{dtype}")
    graph.set_inputs(op, inputs)
    return True


def _computed_in(op: Op) -> DType | None:
    """Return the float type that an op computes in, or None."""
    if op.package != ir.NATIVE_PACKAGE or traits(op).recodes or op.type == "Cast":
        return None
    computed = [
        tensor.dtype for tensor in (*op.inputs, *op.outputs) if tensor is not None and not tensor.is_static
    ]
    reals = {dtype for dtype in computed if dtype.is_float or dtype.is_fixed}
    found = reals.pop() if len(reals) == 1 else None
    return found if found is not None and found.is_float else None


def _is_stored(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.is_static and tensor.dtype.is_fixed


def _real(tensor: Tensor | None, dtype: DType, reals: dict[tuple[Tensor, DType], Tensor]) -> Tensor | None:
    if tensor is None or not _is_stored(tensor):
        return tensor
    if (tensor, dtype) not in reals:
        data = float_data(tensor).cast(dtype.numpy)
        reals[tensor, dtype] = Tensor(tensor.name, tensor.shape, dtype, None, data, Role.STATIC)
    return reals[tensor, dtype]


def _is_taken(op: Op, reals: Sequence[Tensor | None]) -> bool:
    """Return whether HTP supports an op at least as well as it does with floats."""
    stored = [tensor for tensor in op.inputs if tensor is not None and _is_stored(tensor)]
    if any(isinstance(tensor.encoding, BlockScaleOffset) for tensor in stored):
        return False
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    if weight is not None and _is_stored(weight) and _computed_in(op) is FLOAT16:
        has_kernel = op.type == "Conv2d" and weight.shape[:2] != (1, 1)
        if has_kernel or isinstance(weight.encoding, ScaleOffset):
            return False
    real = Op(op.type, reals, op.outputs, op.params, name=op.name, package=op.package)
    return suits_fixed_point(op, real)
