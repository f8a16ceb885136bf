"""Products of matrices in blocks of a few bits, or quantized dynamically."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, MICROSOFT, Node, importer
from xdlc.converter.ops import quantization
from xdlc.converter.ops._compose import compare, number, reduced, select, unary
from xdlc.converter.ops._formulas import fully_connected, plus
from xdlc.converter.ops.indexing import gather
from xdlc.converter.ops.products import multiply
from xdlc.converter.values import Value
from xdlc.ir import BlockScaleOffset, TensorData
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, EQUAL, MAXIMUM, MINIMUM, MULTIPLY, ROUND, SUBTRACT
from xdlc.records import record


@record(frozen=True)
class Blocks:
    """Mapping of integers to floats, with blocks along an axis.

    Attributes:
        bits: Bits of an integer: 2, 4 or 8.
        axis: Axis that is cut into blocks; the last one may reach over its end.
        scales: One step for each block, of the rank of the integers.
        zeros: Integers that denote 0, one for each block; may have fractions.
    """

    bits: int
    axis: int
    size: int
    scales: Array
    zeros: Array

    def reals(self, stored: TensorData) -> TensorData:
        """Return floats of unsigned integers, typed like the scales, stored small."""
        size, axis = self.size, self.axis
        whole = stored.shape[axis] % size == 0
        exact = self.scales.dtype == np.float32 and np.all(np.isfinite(self.scales))
        if whole and exact and np.array_equal(self.zeros, np.rint(self.zeros)):
            block = tuple(size if at == axis else 1 for at in range(len(stored.shape)))
            if np.all(self.scales > 0):
                return self._offset(stored, block)
            if self.bits <= 4:
                return self._signed(stored, block)
        along = (*(slice(None),) * axis, slice(0, stored.shape[axis]))

        def real(array: Array) -> Array:
            scales, zeros = (np.repeat(held, size, axis)[along] for held in (self.scales, self.zeros))
            return ((array.astype(np.float32) - zeros) * scales).astype(self.scales.dtype)

        return stored.transform(real, dtype=self.scales.dtype)

    def _offset(self, stored: TensorData, block: tuple[int, ...]) -> TensorData:
        """Return integers with zeros as offsets; signed ones if all zeros are the middle."""
        scales, zeros = self.scales.reshape(-1), self.zeros.reshape(-1).astype(np.int32)
        used, middle = (self.bits if self.bits < 8 else None), 1 << (self.bits - 1)
        if np.all(zeros == middle):
            moved = stored.transform(
                lambda array: (array.astype(np.int16) - middle).astype(np.int8), dtype=np.int8
            )
            encoding = BlockScaleOffset(block, scales, bits=used)
            return ir.Dequantized(moved, ir.dtype.SFIXED8, encoding)
        encoding = BlockScaleOffset(block, scales, -zeros, used)
        return ir.Dequantized(stored, ir.dtype.UFIXED8, encoding)

    def _signed(self, stored: TensorData, block: tuple[int, ...]) -> TensorData:
        """Return 8-bit distances from the zeros, negated where the scale is negative."""

        def turned(array: Array) -> Array:
            signs = np.repeat(np.sign(self.scales), self.size, self.axis)
            zeros = np.repeat(self.zeros, self.size, self.axis)
            return ((array - zeros) * signs).astype(np.int8)

        steps = np.where(self.scales == 0, 1, np.abs(self.scales))
        encoding = BlockScaleOffset(block, steps.reshape(-1).tolist())
        return ir.Dequantized(stored.transform(turned, dtype=np.int8), ir.dtype.SFIXED8, encoding)


def unpacked(packed: TensorData, bits: int, length: int) -> TensorData:
    """Return one integer per element, unpacked from last-axis bytes, low bits first.

    Args:
        bits: Bits of an integer: 2, 4 or 8.
        length: Integers along the last axis; later ones are omitted.
    """
    shape = (*packed.shape[:-1], length)
    return packed.transform(lambda array: unpacked_array(array, bits, length), shape=shape, dtype=np.uint8)


def unpacked_array(packed: Array, bits: int, length: int) -> Array:
    """Return the integers packed in bytes, like ``unpacked``."""
    if bits == 8:
        return packed[..., :length]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    apart = (packed[..., None] >> shifts) & ((1 << bits) - 1)
    return apart.reshape(*packed.shape[:-1], -1)[..., :length].astype(np.uint8)


@importer("MatMulNBits", domain=MICROSOFT, ignores=("accuracy_level",))
def matmul_nbits(node: Node, b: Builder, x: Value) -> Value:
    """Map onto FullyConnected of the input; ``accuracy_level`` only permits rounding.

    It computes in float32 also beside scales of 16 bits, so that the weights stay integers.
    """
    units, width, bits = (int(node.attr(name, usual)) for name, usual in (("N", 0), ("K", 0), ("bits", 4)))
    size = int(node.attr("block_size", 0))
    _check(node, bits, size)
    if node.input(4) is not None or node.attr("weight_prepacked", 0):
        raise node.problem(
            "xdlc does not support reordered or prepacked weights", "export the weights in input order"
        )
    count = -(-width // size)
    packed = _data(node, 1, "the weights").reshape((units, count * size * bits // 8))
    scales = _known(node, 2, "the scales").reshape(units, count)
    zeros = node.static(3, "the zero points")
    if zeros is None:
        zeros = np.full((units, count), 1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        zeros = unpacked_array(zeros.reshape(units, -1), bits, count)
    if x.shape[-1:] != (width,) or x.dtype.numpy != scales.dtype:
        raise node.problem(
            f"an input {x.dtype} {list(x.shape)} does not fit weights {scales.dtype} {[units, width]}"
        )
    blocks = Blocks(bits, 1, size, scales.astype(np.float32), zeros.reshape(units, count).astype(np.float32))
    weight = b.const(blocks.reals(unpacked(packed, bits, width)), node.required(1).tensor.name)
    bias = node.input(5)
    wide = None if bias is None else b.cast(bias, weight.dtype)
    return b.cast(fully_connected(b, b.cast(x, weight.dtype), weight, wide), x.dtype)


@importer("GatherBlockQuantized", domain=MICROSOFT, layout=ANY)
def gather_block_quantized(node: Node, b: Builder, table: Value) -> Value:
    """Map onto Gather from the floats that the blocks denote."""
    bits, size = int(node.attr("bits", 4)), int(node.attr("block_size", 128))
    _check(node, bits, size)
    stored = _data(node, 0, "the table")
    if stored.dtype != np.uint8 or table.bits is not None:
        raise node.problem(
            f"tables of {table.dtype} in {table.bits or table.dtype.bits} bits are not supported"
        )
    scales = _known(node, 2, "the scales")
    axis = node.axis(node.attr("quantize_axis", 1), table.rank)
    dim = table.shape[-1] * 8 // bits
    zeros = node.static(3, "the zero points")
    if zeros is None:
        zeros = np.full(scales.shape, 1 << (bits - 1))
    else:
        zeros = unpacked_array(zeros, bits, scales.shape[-1])
    blocks = Blocks(bits, axis, size, scales, zeros.astype(np.float32))
    reals = b.const(blocks.reals(unpacked(stored, bits, dim)), table.tensor.name)
    attributes = {"axis": node.attr("gather_axis", 0)}
    return gather(replace(node, inputs=[reals, node.required(1)], attributes=attributes), b)


def _check(node: Node, bits: int, size: int) -> None:
    if bits not in (2, 4, 8) or size < 1:
        raise node.problem(
            f"xdlc does not support weights of {bits} bits in blocks of {size}",
            "quantize the weights to 2, 4 or 8 bits",
        )


def _data(node: Node, index: int, what: str) -> TensorData:
    data = node.required(index).tensor.data
    if data is None:
        raise node.problem(f"{what} (input {index}) must be constant, but are computed")
    return data


def _known(node: Node, index: int, what: str) -> Array:
    array = node.static(index, what)
    if array is None:
        raise node.problem(f"{what} (input {index}) are missing")
    return array


_STEPS = 255.0


@importer("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(node: Node, b: Builder) -> Value:
    """Round the input to 256 steps between its extremes and 0, then multiply floats."""
    weight = node.required(1)
    real = quantization.real(node, b, weight, quantization.encoding(node, 2, 3, weight, axis=-1))
    return plus(b, multiply(node, b, _rounded(b, node.required(0)), real), node.input(4))


def _rounded(b: Builder, x: Value) -> Value:
    """Return ``x`` after DynamicQuantizeLinear and DequantizeLinear."""
    axes = list(range(x.rank))
    zero, one, most = (number(b, x, value) for value in (0.0, 1.0, _STEPS))
    low = b.binary(MINIMUM, reduced(b, "ReduceMin", x, axes), zero)
    high = b.binary(MAXIMUM, reduced(b, "ReduceMax", x, axes), zero)
    step = b.binary(DIVIDE, b.binary(SUBTRACT, high, low), most)
    step = select(b, compare(b, EQUAL, step, zero), one, step)
    start = unary(b, ROUND, _clamped(b, b.binary(DIVIDE, b.binary(SUBTRACT, zero, low), step), zero, most))
    steps = b.binary(ADD, unary(b, ROUND, b.binary(DIVIDE, x, step)), start)
    return b.binary(MULTIPLY, b.binary(SUBTRACT, _clamped(b, steps, zero, most), start), step)


def _clamped(b: Builder, x: Value, low: Value, high: Value) -> Value:
    return b.binary(MINIMUM, b.binary(MAXIMUM, x, low), high)


@importer("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(node: Node, b: Builder, x: Value, weight: Value, step: Value) -> Value:
    """Multiply the floats that the integers denote; the first input may be computed."""
    start = node.input(4)
    if step.size != 1 or (start is not None and start.size != 1):
        raise node.problem(
            f"xdlc does not support {step.size} scales of input 0", "use one scale for input 0"
        )
    real = b.cast(x, step.dtype)
    if start is not None:
        real = b.binary(SUBTRACT, real, b.reshape(b.cast(start, step.dtype), (1,)))
    real = b.binary(MULTIPLY, real, b.reshape(step, (1,)))
    columns = quantization.real(node, b, weight, quantization.encoding(node, 3, 5, weight, axis=-1))
    return plus(b, multiply(node, b, real, columns), node.input(6))
