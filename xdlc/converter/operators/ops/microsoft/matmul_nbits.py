"""MatMulNBits and GatherBlockQuantized: 2, 4 or 8 bits with one scale per block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._formulas import fully_connected
from xdlc.converter.operators.ops.gather import gather
from xdlc.converter.operators.ops.microsoft._blocks import Blocks, unpacked, unpacked_array
from xdlc.converter.operators.registry import ANY, MICROSOFT, Node, importer
from xdlc.converter.values import Value
from xdlc.ir import TensorData
from xdlc.ir.data import Array


@importer("MatMulNBits", domain=MICROSOFT, ignores=("accuracy_level",))
def matmul_nbits(node: Node, b: Builder) -> Value:
    """Map onto FullyConnected of the input; ``accuracy_level`` only permits rounding."""
    units, width, bits = (int(node.attr(name, usual)) for name, usual in (("N", 0), ("K", 0), ("bits", 4)))
    size = int(node.attr("block_size", 0))
    _check(node, bits, size)
    if node.input(4) is not None or node.attr("weight_prepacked", 0):
        raise node.problem("reordered or prepacked weights are not supported", "export them in input order")
    x, count = node.required(0), -(-width // size)
    packed = _data(node, 1, "the weights").reshape((units, count * size * bits // 8))
    scales = _known(node, 2, "the scales").reshape(units, count)
    zeros = node.static(3, "the zero points")
    if zeros is None:
        zeros = np.full((units, count), 1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        zeros = unpacked_array(zeros.reshape(units, -1), bits, count)
    blocks = Blocks(bits, 1, size, scales, zeros.reshape(units, count).astype(np.float32))
    weight = b.const(blocks.reals(unpacked(packed, bits, width)), node.required(1).tensor.name)
    if x.shape[-1:] != (width,) or weight.dtype is not x.dtype:
        raise node.problem(f"input {x.dtype} {list(x.shape)} for weights {weight.dtype} {[units, width]}")
    return fully_connected(b, x, weight, node.input(5))


@importer("GatherBlockQuantized", domain=MICROSOFT, layout=ANY)
def gather_block_quantized(node: Node, b: Builder) -> Value:
    """Map onto Gather from the floats that the blocks denote."""
    bits, size = int(node.attr("bits", 4)), int(node.attr("block_size", 128))
    _check(node, bits, size)
    table, stored = node.required(0), _data(node, 0, "the table")
    if stored.dtype != np.uint8 or table.bits is not None:
        raise node.problem(f"a table of type {table.dtype} in {table.bits or table.dtype.bits} bits")
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
        raise node.problem(f"{bits} bits in blocks of {size}", "use 2, 4 or 8 bits")


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
