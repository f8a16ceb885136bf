"""Weights of float operations: stored as integers, and dequantized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy

from xdlc import ir
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Graph,
    Op,
    Role,
    ScaleOffset,
    Tensor,
)
from xdlc.ir.data import Array
from xdlc.ir.derived_data import StaticEncoding
from xdlc.ir.dtype import BY_NAME, FLOAT16, FLOAT32, SFIXED4, SFIXED8, UFIXED4, UFIXED8, DType
from xdlc.ir.quantization import float_data, unpacked
from xdlc.opdefs import args
from xdlc.opdefs.traits import traits
from xdlc.passes._fixed_point_plan import suits_fixed_point, weight_axes
from xdlc.passes._static_fixed_point import stored_weight
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass
from xdlc.records import record

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
    """Return an encoding without a number of bits, but for blocks of fewer than 4."""
    if isinstance(encoding, BlockScaleOffset) and encoding.bits != _NIBBLE_BITS:
        return encoding
    if isinstance(encoding, ScaleOffset | AxisScaleOffset | BlockScaleOffset):
        return replace(encoding, bits=None)
    return encoding


_KERNEL_RANK = 4
_BLOCK_BITS = (2, 4, 8)
WORD = 32
"""Bits that the integers of a block have to fill: HTP computes other blocks wrongly."""
_SCALE_ERROR = 2.0**-10
"""Largest relative error of all scales of a weight in float16, by which HTP multiplies."""


@graph_pass(
    stage="htp",
    after=("widen_bytes",),
    needs=(ScaleOffset, AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion),
)
def multiply_blocks(graph: Graph) -> bool:
    """Compute float products in float16 where that keeps integer weights.

    HTP has FullyConnected and Conv2d of 1x1 with signed weights of 2, 4 and 8 bits beside float16
    activations, with a float scale per block of input channels (emulation of SDK 2.51, v69 to v81).  With
    offsets all weights are a little too large there: offsets are added to the integers, which may need more
    bits, or a negative scale, as ggml's Q4_0 has.  A row of FullyConnected is a block too.  MatMul by a
    matrix becomes FullyConnected: HTP returns NaN for MatMul by blocks.
    """
    turned: dict[tuple[Tensor, bool], Tensor] = {}
    for op in list(graph.ops):
        _turn(graph, op, turned)
    kept: dict[Tensor, Tensor] = {}
    halves: dict[Tensor, Tensor] = {}
    ops = [op for op in graph.ops if not _multiplies_blocks(op)]
    products = [(op, weight) for op in ops if (weight := _integer_weight(op)) is not None]
    for op, weight in products:
        if weight not in kept:
            kept[weight] = _signed_blocks(graph, weight)
        _multiply(graph, op, kept[weight], halves)
    matrices = {weight: matrix for (weight, _), matrix in turned.items()}
    for old, new in (matrices | kept | halves).items():
        graph.supersede(old, new)
    return bool(products)


def _turn(graph: Graph, op: Op, turned: dict[tuple[Tensor, bool], Tensor]) -> None:
    """Turn MatMul by an integer matrix into FullyConnected, if that keeps it.

    Args:
        turned: Matrices with a row per unit, by the matrices and whether ops transpose these; gets new ones.
    """
    matrix = _kept_matrix(op) if op.type == "MatMul" else None
    if matrix is None:
        return
    source, weight, bias = args.operand(op, 0), args.operand(op, 1), op.inputs[2:]
    result, dtype = op.outputs[0], _computed_in(op)
    assert dtype is not None
    key = weight, bool(op.param("transpose_in1", False))
    if key not in turned:
        matrix.name = graph.unique_name(f"{weight.name}_t")
        turned[key] = graph.add_tensor(matrix)
    units, features = turned[key].shape
    w, name = Writer(graph, op, "HTP multiplies by integers in FullyConnected"), op.name
    rows = w.reshape(source, (source.size // features, features))
    inputs = [rows, turned[key], *bias]
    product = w.emit("FullyConnected", inputs, (rows.shape[0], units), {"keep_dims": ir.b8(False)}, dtype)
    layer = product.producer
    assert layer is not None
    w.finish(w.reshape(product, result.shape))
    graph.rename_op(layer, name)


def _kept_matrix(op: Op) -> Tensor | None:
    """Return the integer matrix of MatMul as weights of FullyConnected, or None."""
    if _computed_in(op) not in (FLOAT16, FLOAT32):
        return None
    source, weight = op.inputs[:2]
    if source is None or source.rank < 2 or not _is_stored(weight) or weight.rank != 2:
        return None
    if op.outputs[0].dynamic_axes or not op.outputs[0].size:
        return None
    matrix = _rows_of_units(weight, is_turned=not op.param("transpose_in1", False))
    is_kept = matrix is not None and _blocks(matrix) is not None and not op.param("transpose_in0", False)
    return matrix if is_kept else None


def expanded_products(graph: Graph, *, has_blocks: bool) -> list[str]:
    """Return the names of float products whose weights in blocks HTP gets as floats.

    Args:
        has_blocks: Whether the SoC has the form of ``multiply_blocks``.
    """
    names = []
    for op in graph.ops:
        is_product = _computed_in(op) in (FLOAT16, FLOAT32) and bool(traits(op).macs)
        weight = op.inputs[1] if is_product and len(op.inputs) > 1 else None
        if not _is_stored(weight):
            continue
        kept = _kept_matrix(op) if op.type == "MatMul" else _integer_weight(op)
        is_kept = has_blocks and kept is not None
        if isinstance(weight.encoding, BlockScaleOffset | BlockwiseExpansion) and not is_kept:
            names.append(op.name)
    return names


def _rows_of_units(weight: Tensor, *, is_turned: bool) -> Tensor | None:
    """Return a matrix of integers in a byte each, [output channels, input channels]."""
    encoding, fixed = weight.encoding, SFIXED8 if weight.dtype.is_signed else UFIXED8
    if weight.dtype.bits > fixed.bits or not isinstance(encoding, StaticEncoding):
        return None
    used = encoding.bits or weight.dtype.bits
    data: ir.TensorData = ir.Dequantized(unpacked(weight), fixed, replace(encoding, bits=used))
    data = data.transpose((1, 0)) if is_turned else data
    assert isinstance(data, ir.Dequantized)
    return Tensor(weight.name, data.shape, fixed, data.encoding, data.stored, Role.STATIC)


def _multiplies_blocks(op: Op) -> bool:
    """Return whether an op has the form of ``multiply_blocks``."""
    weight = _integer_weight(op)
    return weight is not None and _computed_in(op) is FLOAT16 and _is_signed_blocks(weight)


def _is_signed_blocks(weight: Tensor) -> bool:
    encoding = weight.encoding
    if weight.dtype is not SFIXED8 or not isinstance(encoding, BlockScaleOffset):
        return False
    return not numpy.asarray(encoding.offsets).any()


def _integer_weight(op: Op) -> Tensor | None:
    """Return the weight of a float product that HTP multiplies as integers."""
    if op.package != ir.NATIVE_PACKAGE or op.type not in ("FullyConnected", "Conv2d"):
        return None
    weight = op.inputs[1]
    if not _is_stored(weight) or _computed_in(op) not in (FLOAT16, FLOAT32):
        return None
    if op.type == "FullyConnected":
        is_point = weight.rank == 2
    else:
        is_point = weight.rank == _KERNEL_RANK and weight.shape[:2] == (1, 1) and op.param("group", 1) == 1
    return weight if is_point and _blocks(weight) is not None else None


@record(frozen=True)
class _Blocks:
    """Signed integers of a weight without offsets.

    Attributes:
        scales: Scales, [output channels, blocks]; those of negated integers are negative.
        moves: What is added to the stored integers, of that shape.
        signs: What the sums are multiplied by, 1 or -1.
        bits: Bits that the products need: 2, 4 or 8.
    """

    scales: Array
    moves: Array
    signs: Array
    bits: int


def _blocks(weight: Tensor) -> _Blocks | None:
    """Return the form of a weight in signed blocks; None if HTP has no right one."""
    bits = getattr(weight.encoding, "bits", None) or weight.dtype.bits
    grid = _grid(weight) if weight.size and bits <= SFIXED8.bits else None
    if grid is None:
        return None
    scales, moves = grid
    least = -(1 << (bits - 1)) if weight.dtype.is_signed else 0
    low = moves.astype(numpy.int64) + least
    high = low + (1 << bits) - 1
    for wide in _BLOCK_BITS:
        half = 1 << (wide - 1)
        fits = (low >= -half) & (high < half)
        if (fits | ((low > -half) & (high <= half))).all():
            break
    else:
        return None
    if weight.size // scales.size * wide % WORD:
        return None
    with numpy.errstate(over="ignore"):
        rounded = scales.astype(numpy.float16).astype(numpy.float32)
    is_exact = numpy.linalg.norm(rounded - scales) <= _SCALE_ERROR * numpy.linalg.norm(scales)
    is_finite = numpy.abs(scales).max() * half <= FLOAT16.largest
    signs = numpy.where(fits, numpy.int8(1), numpy.int8(-1))
    return _Blocks(scales * signs, moves, signs, wide) if is_exact and is_finite else None


def _grid(weight: Tensor) -> tuple[Array, Array] | None:
    """Return scales and offsets, [output channels, blocks], or None.

    Rows of matrices are blocks; other channels have kernels of their own.
    """
    encoding, is_matrix = weight.encoding, weight.rank == 2
    units = weight.shape[0 if is_matrix else 3]
    if isinstance(encoding, BlockScaleOffset):
        size = encoding.block_shape[-1 if is_matrix else -2]
        shape = (1, size) if is_matrix else (1, 1, size, 1)
        if encoding.block_shape != shape or len(encoding.scales) * size != weight.size:
            return None
        by_block = (numpy.asarray(numbers) for numbers in (encoding.scales, encoding.offsets))
        scales, offsets = (
            numbers.reshape(units, -1) if is_matrix else numbers.reshape(-1, units).T for numbers in by_block
        )
        return scales, offsets
    if isinstance(encoding, BlockwiseExpansion) and encoding.axis == (0 if is_matrix else 3):
        count = encoding.blocks_per_axis
        if len(encoding.block_scales) != units * count or len(encoding.scales) != units:
            return None
        steps = numpy.array(encoding.block_scales, numpy.float32).reshape(units, count)
        scales = steps * numpy.array(encoding.scales, numpy.float32)[:, None]
        return scales, numpy.repeat(numpy.array(encoding.offsets, numpy.int32)[:, None], count, 1)
    if is_matrix and isinstance(encoding, ScaleOffset):
        rows = numpy.ones((units, 1), numpy.int32)
        return (rows * encoding.scale).astype(numpy.float32), rows * encoding.offset
    if not is_matrix or not isinstance(encoding, AxisScaleOffset):
        return None
    if encoding.axis != 0 or len(encoding.scales) != units:
        return None
    scales = numpy.array(encoding.scales, numpy.float32)[:, None]
    return scales, numpy.array(encoding.offsets, numpy.int32)[:, None]


def _signed_blocks(graph: Graph, weight: Tensor) -> Tensor:
    """Add a weight as signed integers in 8 bits with scales per block."""
    if _is_signed_blocks(weight):
        return weight
    blocks, data = _blocks(weight), unpacked(weight)
    assert blocks is not None
    size, is_matrix = weight.size // blocks.scales.size, weight.rank == 2
    if blocks.moves.any() or blocks.signs.min() < 0:
        moves, signs = (
            numbers[:, :, None] if is_matrix else numbers.T[:, None]
            for numbers in (blocks.moves.astype(numpy.int16), blocks.signs)
        )
        parts = (*moves.shape[:2], size) if is_matrix else (moves.shape[0], size, moves.shape[2])
        data = data.transform(
            lambda array: ((array.reshape(parts) + moves) * signs).astype(numpy.int8).reshape(array.shape),
            dtype=numpy.int8,
        )
    elif not weight.dtype.is_signed:
        data = data.cast(numpy.int8)
    shape = (1, size) if is_matrix else (1, 1, size, 1)
    scales = blocks.scales if is_matrix else blocks.scales.T
    encoding = BlockScaleOffset(shape, scales.reshape(-1), (), blocks.bits)
    name = graph.unique_name(f"{weight.name}_blocks")
    return graph.add_tensor(Tensor(name, weight.shape, SFIXED8, encoding, data, Role.STATIC))


def _multiply(graph: Graph, op: Op, weight: Tensor, halves: dict[Tensor, Tensor]) -> None:
    """Let an op compute in float16 with a weight.

    Args:
        halves: The tensors in float16 that other ops read in place of float32 ones; takes new ones.
    """
    source, result, name = op.inputs[0], op.outputs[0], op.name
    if _computed_in(op) is FLOAT16:
        graph.set_inputs(op, [source, weight, *op.inputs[2:]])
        return
    w = Writer(graph, op, "HTP multiplies integer weights by float16")
    operands = [_half(w, tensor, halves) for tensor in (source, *op.inputs[2:])]
    product = w.emit(op.type, [operands[0], weight, *operands[1:]], result.shape, op.params, FLOAT16)
    product.dynamic_axes = result.dynamic_axes
    w.finish(w.cast(product, result.dtype))
    assert product.producer is not None
    graph.rename_op(product.producer, name)


def _half(w: Writer, tensor: Tensor | None, halves: dict[Tensor, Tensor]) -> Tensor | None:
    """Return an operand in float16."""
    if tensor is None:
        return None
    if tensor in halves:
        return halves[tensor]
    if tensor.is_static:
        data = float_data(tensor).cast(numpy.dtype(numpy.float16))
        name = w.graph.unique_name(f"{tensor.name}_{FLOAT16}")
        half = w.graph.add_tensor(Tensor(name, tensor.shape, FLOAT16, None, data, Role.STATIC))
    else:
        half = w.cast(tensor, FLOAT16)
        half.dynamic_axes = tensor.dynamic_axes
    halves[tensor] = half
    return half


@graph_pass(
    stage="htp", after=("multiply_blocks",), needs=[dtype for dtype in BY_NAME.values() if dtype.is_fixed]
)
def dequantize_weights(graph: Graph, *, refused_only: bool = True) -> bool:
    """Dequantize static fixed-point operands of float operations.

    HTP supports none beside float32.  Beside float16 it supports weights of 8 bits with a scale for each
    channel, of Conv2d in kernels of 1x1 only (emulation of SDK 2.51, SM8650), and what ``multiply_blocks``
    makes.

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


def _is_stored(tensor: Tensor | None) -> TypeGuard[Tensor]:
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
    if _multiplies_blocks(op):
        return True
    stored = [tensor for tensor in op.inputs if tensor is not None and _is_stored(tensor)]
    if any(isinstance(tensor.encoding, BlockScaleOffset) for tensor in stored):
        return False
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    if weight is not None and _is_stored(weight) and _computed_in(op) is FLOAT16:
        has_kernel = op.type == "Conv2d" and weight.shape[:2] != (1, 1)
        if has_kernel or isinstance(weight.encoding, ScaleOffset):
            return False
    real = Op(op.type, reals, op.outputs, op.params, name=op.name, package=op.package)
    return suits_fixed_point(op, lambda: real)
