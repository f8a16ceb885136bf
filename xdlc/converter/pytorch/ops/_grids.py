"""Integers in steps of a scale, as operators of quantization round floats to them.

Constant scales make QuantizeLinear and DequantizeLinear, of which encodings become; those that are
computed from values, as dynamic quantization has them, make arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.functions.shapes import cast, dims, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir import NATIVE_PACKAGE, DType
from xdlc.ir import dtype as types
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, INT32

PT2E = "quantized_decomposed"
_AFFINE = ("torchao", "pt2e_quant", "quant")
"""Namespaces of affine operators: of torchao, of torch, and of torchao before version 0.11."""
_NARROW = 4
"""Bits of weights that are stored in 8."""
F = TypeVar("F", bound=Callable[..., Any])


def affine(*types: str) -> Callable[[F], F]:
    """Return the decorator of a handler of affine operators."""

    def register(function: F) -> F:
        for domain in _AFFINE:
            aten(*types, domain=domain, layout=ANY)(function)
        return function

    return register


@dataclass(frozen=True, slots=True)
class Grid:
    """The quantized values of a tensor.

    Attributes:
        scale: Step between them, one for each block in row-major order.
        zero: Integer of the value 0, one for each block or for all; None: 0.
        blocks: Size of a block along each axis; empty: the tensor is one block.
        late: Whether the zero point is added before rounding, not after.
    """

    scale: Value
    zero: Value | None
    low: int
    high: int
    blocks: tuple[int, ...] = ()
    late: bool = False

    def counts(self, x: Value) -> tuple[int, ...]:
        """Return the number of blocks of ``x`` along each axis."""
        return tuple(-(-size // block) for size, block in zip(x.shape, self.blocks, strict=False))

    def fits(self, x: Value) -> bool:
        """Return whether the blocks divide ``x`` and have a scale each."""
        if not self.blocks or x.is_dynamic:
            return self.scale.size == 1 and not self.blocks
        counts = self.counts(x)
        whole = len(counts) == x.rank and all(
            size % block == 0 for size, block in zip(x.shape, self.blocks, strict=True)
        )
        return whole and self.scale.size == math.prod(counts) and _size(self.zero) in (1, self.scale.size)


def _size(value: Value | None) -> int:
    return 1 if value is None else value.size


# ---------------------------------------------------------------------- integers of floats, and back


def _stored_in(low: int, high: int, dtype: DType) -> DType | None:
    """Return the 8- or 16-bit type that stores a range, preferably the source's."""
    for made in (dtype, types.UINT8, types.INT8, types.UINT16, types.INT16):
        if made.is_integer and made.bits <= 16 and made.limits[0] <= low <= high <= made.limits[1]:
            return made
    return None


def _zeros(grid: Grid, dtype: DType) -> Array | None:
    """Return constant zero points in the scales' shape; None if the type lacks them."""
    found = np.zeros(1, np.int64) if grid.zero is None else grid.zero.numpy()
    whole = np.broadcast_to(np.rint(found.astype(np.float64)).reshape(-1), (grid.scale.size,))
    if (whole != found.reshape(-1)).any() or whole.min() < dtype.limits[0] or whole.max() > dtype.limits[1]:
        return None
    return whole.astype(dtype.numpy)


def _scales(grid: Grid) -> Array | None:
    """Return constant scales in float32; None if an encoding cannot represent them."""
    found = grid.scale.numpy().astype(np.float32).reshape(-1)
    return found if np.all(np.isfinite(found) & (found > 0)) else None


def _parameters(
    g: Operators, x: Value, grid: Grid, dtype: DType
) -> tuple[list[Value], dict[str, int]] | None:
    """Return scale, zero point and attributes of QuantizeLinear; None if not possible."""
    if not grid.scale.is_static or not (grid.zero is None or grid.zero.is_static) or not grid.fits(x):
        return None
    scales, zeros = _scales(grid), _zeros(grid, dtype)
    if scales is None or zeros is None:
        return None
    counts = grid.counts(x) or (1,) * x.rank
    split = [axis for axis, count in enumerate(counts) if count > 1]
    shape: tuple[int, ...] = ()
    attributes: dict[str, int] = {}
    if len(split) == 1 and grid.blocks[split[0]] == 1:
        shape, attributes = (scales.size,), {"axis": split[0]}
    elif split:
        sizes = [(axis, block) for axis, block in enumerate(grid.blocks) if block > 1]
        if len(sizes) != 1:
            return None
        shape, attributes = counts, {"axis": sizes[0][0], "block_size": sizes[0][1]}
    return [g.builder.const(each.reshape(shape)) for each in (scales, zeros)], attributes


def stored(node: AtenNode, g: Operators, x: Value, grid: Grid, dtype: DType) -> Value:
    """Return the integers that floats round to, in a type no wider than ``dtype``.

    Those of weights have their name.
    """
    made = _integers(node, g, x, grid, dtype)
    return g.builder.const(made.tensor.data, x.tensor.name) if made.tensor.data is not None else made


def _integers(node: AtenNode, g: Operators, x: Value, grid: Grid, dtype: DType) -> Value:
    if not dtype.is_integer:
        raise node.problem(f"xdlc does not support rounding to {dtype}", "quantize to 8- or 16-bit integers")
    x = cast(g, x, FLOAT32)
    storage = _stored_in(grid.low, grid.high, dtype)
    rescaling = _parameters(g, x, grid, storage) if storage is not None else None
    if storage is None or rescaling is None or "block_size" in rescaling[1]:
        return cast(g, _over_blocks(node, g, x, grid, _rounded), dtype)
    parameters, attributes = rescaling
    if (grid.low, grid.high) != storage.limits and x.is_static:
        return cast(g, _over_blocks(node, g, x, grid, _rounded), storage)
    limits = _limits(grid, parameters, storage)
    if limits is not None:
        x = g(
            "Min", [g("Max", [x, _along(g, x, limits[0], attributes)]), _along(g, x, limits[1], attributes)]
        )
    return g("QuantizeLinear", [x, *parameters], **attributes)


def _limits(grid: Grid, parameters: Sequence[Value], held: DType) -> list[Array] | None:
    """Return the floats of the lowest and highest integer; None for those of the type."""
    if (grid.low, grid.high) == held.limits:
        return None
    scales, zeros = (each.numpy() for each in parameters)
    return [((end - zeros.astype(np.int64)) * scales).astype(np.float32) for end in (grid.low, grid.high)]


def _along(g: Operators, x: Value, numbers: Array, attributes: dict[str, int]) -> Value:
    shape = [1] * x.rank
    if numbers.ndim:
        shape[attributes["axis"]] = -1
        numbers = numbers.reshape(shape)
    return g.builder.const(numbers)


def real(node: AtenNode, g: Operators, x: Value, grid: Grid) -> Value:
    """Return the floats that integers denote."""
    if not x.dtype.is_integer:
        raise node.problem(f"xdlc cannot dequantize {x.dtype}", "quantize to 8- or 16-bit integers")
    x = _narrowed(g, x, grid)
    found = _parameters(g, x, grid, x.dtype) if x.dtype.bits <= 16 or x.dtype is INT32 else None
    if found is None or (not x.is_static and (x.dtype.bits > 16 or "block_size" in found[1])):
        return _over_blocks(node, g, x, grid, _restored)
    return g("DequantizeLinear", [x, *found[0]], **found[1])


def _narrowed(g: Operators, x: Value, grid: Grid) -> Value:
    """Return integers in their storage type: widened ones narrowed, 4 bits marked."""
    op = x.tensor.producer
    while op is not None and op.type == "Cast" and op.package == NATIVE_PACKAGE:
        source = op.inputs[0]
        if source is None or not source.dtype.is_integer or not _holds(x.dtype, source.dtype):
            break
        x, op = replace(x, tensor=source, forms={}), source.producer
    data = x.tensor.data
    if data is None:
        return x
    made = _stored_in(grid.low, grid.high, x.dtype)
    if made is not None and made is not x.dtype:
        array = data.numpy()
        fits = array.size and made.limits[0] <= array.min() and array.max() <= made.limits[1]
        x = cast(g, x, made) if fits else x
    return _four_bits(g, x, grid)


def _holds(wide: DType, narrow: DType) -> bool:
    return wide.is_integer and wide.limits[0] <= narrow.limits[0] and narrow.limits[1] <= wide.limits[1]


def _four_bits(g: Operators, x: Value, grid: Grid) -> Value:
    """Return static integers marked as of 4 bits, if all are."""
    for low, made in ((0, types.UINT8), (-8, types.INT8)):
        if low <= grid.low and grid.high < low + (1 << _NARROW) and x.dtype.bits == 8:
            array = x.numpy()
            if array.size and low <= array.min() and array.max() < low + (1 << _NARROW):
                return replace(cast(g, x, made), bits=_NARROW)
    return x


def affine_grid(
    node: AtenNode,
    x: Value,
    block_size: Sequence[int],
    scale: Value,
    zero: Value | None,
    dtype: DType,
    low: float | None,
    high: float | None,
) -> Grid:
    """Return the grid of an affine operator."""
    if not dtype.is_integer:
        raise node.problem(f"xdlc does not support quantized {dtype}", "quantize to 8- or 16-bit integers")
    ends = [int(limit if end is None else end) for end, limit in zip((low, high), dtype.limits, strict=True)]
    if len(block_size) != x.rank:
        raise node.invalid(f"blocks {list(block_size)} do not fit {x.rank} axes")
    blocks = tuple(
        size if block in (-1, size) else block for block, size in zip(block_size, x.shape, strict=True)
    )
    return Grid(scale, zero, ends[0], ends[1], () if blocks == x.shape else blocks)


# ---------------------------------------------------------------------- arithmetic


def _over_blocks(
    node: AtenNode, g: Operators, x: Value, grid: Grid, compute: Callable[[Operators, Value, Grid], Value]
) -> Value:
    """Return the result of arithmetic with the scale of each block."""
    if not grid.blocks or _broadcasts(x, grid):
        return compute(g, x, grid)
    if not grid.fits(x):
        raise node.problem(
            f"{grid.scale.size} scales do not fit blocks of {list(grid.blocks)} in {list(x.shape)}",
            "store one scale per block",
        )
    parts, single = split(dims(x), grid.blocks)
    scale = reshape(g, grid.scale, single)
    zero = grid.zero if grid.zero is None or grid.zero.size == 1 else reshape(g, grid.zero, single)
    made = compute(g, reshape(g, x, parts), replace(grid, scale=scale, zero=zero))
    return reshape(g, made, dims(x))


def split(shape: Sequence[int], blocks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return a shape split into blocks and their elements, and that of one per block."""
    counts = [size // block for size, block in zip(shape, blocks, strict=True)]
    parts = [size for pair in zip(counts, blocks, strict=True) for size in pair]
    return parts, [size for count in counts for size in (count, 1)]


def _broadcasts(x: Value, grid: Grid) -> bool:
    """Return whether scales and zero points broadcast along the axes of ``x``.

    The last axis may be one block.
    """
    operands = [grid.scale] if grid.zero is None else [grid.scale, grid.zero]
    return all(
        operand.rank == x.rank
        and operand.shape[-1] == 1
        and operand.dims is not None
        and x.dims is not None
        and operand.dims[:-1] == x.dims[:-1]
        and grid.blocks[-1] in (0, x.shape[-1])
        and set(grid.blocks[:-1]) <= {1}
        for operand in operands
    )


def _real_zero(g: Operators, grid: Grid) -> Value | None:
    zero = grid.zero
    return None if zero is None or (zero.is_static and not zero.numpy().any()) else cast(g, zero, FLOAT32)


def _rounded(g: Operators, x: Value, grid: Grid) -> Value:
    """Return the integers that floats are rounded to, as floats."""
    scale, zero = cast(g, grid.scale, FLOAT32), _real_zero(g, grid)
    inverse = g("Reciprocal", [scale])
    if not inverse.is_static:  # the host would divide, which rounds otherwise between two steps
        inverse = clipped(g, inverse, -FLOAT32.largest, FLOAT32.largest)  # that of 0 times 0 is 0
    steps = g("Mul", [x, inverse])
    if grid.late and zero is not None:
        steps, zero = g("Add", [steps, zero]), None
    whole = g("Round", [steps])
    return clipped(g, whole if zero is None else g("Add", [whole, zero]), grid.low, grid.high)


def _restored(g: Operators, x: Value, grid: Grid) -> Value:
    """Return the floats that integers denote."""
    zero, x = _real_zero(g, grid), cast(g, x, FLOAT32)
    return g("Mul", [x if zero is None else g("Sub", [x, zero]), cast(g, grid.scale, FLOAT32)])
