"""Tensors of a TFLite model: data types, quantization, constants, sparse weights.

The stored elements are visited level by level, as ``traversal_order`` lists the dimensions of a tensor and,
after these, its block dimensions.  A dense level has every index; a compressed one has, for each entry of the
level before it, the indices from ``segments[i]`` to ``segments[i + 1]`` (schema of TFLite; the format is that
of the tensor algebra compiler TACO).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from xdlc.errors import ModelError, UnsupportedOp, damaged
from xdlc.ir import DType
from xdlc.ir.dtype import from_numpy

Array = Any  # numpy.ndarray
_CSR = 1


class Level(NamedTuple):
    """A level of the traversal.

    Attributes:
        dim: Dimension: of the tensor, then its block dimensions.
        size: Its number of indices, compressed or not.
        segments: First entries of each entry of the level before; None for a dense level.
        indices: Indices of the entries of a compressed level.
    """

    dim: int
    size: int
    segments: Array | None = None
    indices: Array | None = None


class Layout(NamedTuple):
    """Places of the stored elements of a tensor.

    Attributes:
        levels: The levels of the traversal, from outside.
        blocks: Dimension of the tensor that each block dimension divides.
        shape: Shape of the dense tensor.
        stored: Number of stored elements.
    """

    levels: Sequence[Level]
    blocks: Sequence[int]
    shape: tuple[int, ...]
    stored: int

    def dense(self, elements: Array) -> Array:
        """Return the dense array of the stored elements [stored], zero elsewhere."""
        coordinates: dict[int, Array] = {}
        count = 1
        for level in self.levels:
            if level.segments is None:
                coordinates = {
                    dim: np.repeat(positions, level.size) for dim, positions in coordinates.items()
                }
                coordinates[level.dim] = np.tile(np.arange(level.size), count)
                count *= level.size
            else:
                times = np.diff(level.segments)
                coordinates = {dim: np.repeat(positions, times) for dim, positions in coordinates.items()}
                coordinates[level.dim] = level.indices
                count = len(coordinates[level.dim])
        sizes = {level.dim: level.size for level in self.levels}
        rank = len(self.shape)
        for block, dim in enumerate(self.blocks, rank):
            coordinates[dim] = coordinates[dim] * sizes[block] + coordinates[block]
        found = np.zeros(self.shape, elements.dtype)
        found[tuple(coordinates[dim] for dim in range(rank))] = elements
        return found


def layout(table: Any, shape: Sequence[int], where: str) -> Layout:
    """Return the positions of stored elements by a ``SparsityParameters`` table.

    Args:
        shape: Shape of the dense tensor.

    Raises:
        ModelError: If the table contradicts itself or the shape.
    """

    def check(fits: bool, problem: str) -> None:
        if not fits:
            raise damaged(f"the sparse form of the tensor has {problem}", where)

    order, blocks = list(table.traversal_order or ()), list(table.block_map or ())
    metadata = list(table.dim_metadata or ())
    rank = len(shape)
    check(
        sorted(order) == list(range(rank + len(blocks))), f"the traversal order {order[:16]} at rank {rank}"
    )
    check(len(metadata) == len(order), f"{len(metadata)} levels for {len(order)} dimensions")
    check(len(set(blocks)) == len(blocks) and all(0 <= dim < rank for dim in blocks), f"the blocks {blocks}")
    sizes = list(shape) + [0] * len(blocks)
    for dim, entry in zip(order, metadata, strict=True):
        if dim >= rank:
            size, of = entry.dense_size, blocks[dim - rank]
            check(entry.format != _CSR and size > 0 and shape[of] % size == 0, f"blocks of {size}")
            sizes[dim], sizes[of] = size, shape[of] // size
    levels, count = [], 1
    for dim, entry in zip(order, metadata, strict=True):
        if entry.format != _CSR:
            check(entry.format == 0, f"a level of format {entry.format}")
            check(entry.dense_size == sizes[dim], f"{entry.dense_size} indices of dimension {dim} of {sizes}")
            levels.append(Level(dim, sizes[dim]))
            count *= sizes[dim]
            continue
        segments, indices = _integers(entry.array_segments), _integers(entry.array_indices)
        fits = len(segments) == count + 1 and not segments[0] and (np.diff(segments) >= 0).all()
        check(bool(fits) and segments[-1] == len(indices), f"{len(segments)} segments of {count} entries")
        check(bool(((indices >= 0) & (indices < sizes[dim])).all()), f"an index not below {sizes[dim]}")
        levels.append(Level(dim, sizes[dim], segments, indices))
        count = len(indices)
    return Layout(levels, blocks, tuple(shape), count)


def _integers(table: Any) -> Array:
    return np.asarray(_values(getattr(table, "values", None)), np.int64)


def _values(given: Any) -> Any:
    return np.frombuffer(bytes(given), np.uint8) if hasattr(given, "start") else given or ()


DTYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(dtype)
    for number, dtype in {
        0: np.float32,
        1: np.float16,
        2: np.int32,
        3: np.uint8,
        4: np.int64,
        6: np.bool_,
        7: np.int16,
        9: np.int8,
        10: np.float64,
        12: np.uint64,
        15: np.uint32,
        16: np.uint16,
        17: ml_dtypes.int4,
        18: ml_dtypes.bfloat16,
        19: ml_dtypes.int2,
        20: ml_dtypes.uint4,
        21: ml_dtypes.float8_e4m3fn,
        22: ml_dtypes.float8_e5m2,
    }.items()
}
"""Numpy dtypes by the number of TensorType in the TFLite schema."""
OTHERS = {5: "string", 8: "complex64", 11: "complex128", 13: "resource", 14: "variant"}
"""Types of TensorType that no tensor of a DLC has."""
_CONVERT = "convert the model again: the quantization parameters do not fit the tensor"
PACKED = {"int4": 4, "uint4": 4, "int2": 2}
"""Bits of the types that are packed into bytes, low bits first."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantization:
    """Quantization of a tensor: real = (q - zero point) * scale.

    Attributes:
        scales: Scales in float32: one, or one for each index of ``axis``; with blocks, of the tensor's shape
            but for ``axis``, which is divided.
        zero_points: Zero points, of the shape of the scales.
        axis: Axis of several scales; 0 for one.
        block_size: Elements along ``axis`` that have one scale; 0: no blocks.
    """

    scales: np.ndarray[Any, np.dtype[np.float32]]
    zero_points: np.ndarray[Any, np.dtype[np.int64]]
    axis: int = 0
    block_size: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TensorInfo:
    """A tensor of a sub-graph.

    Attributes:
        index: Its number in the sub-graph.
        name: Its name, unique in the sub-graph.
        stated: The name in the file, which may be empty.
        shape: Its shape, 1 for dimensions that the file leaves open.
        signature: Its shape, -1 for dimensions that the file leaves open.
        type: Number of its type.
        quantization: Its quantization, if it has one.
        is_variable: Whether it keeps its value between invocations.
        buffer: Number of its buffer.
        external: Id of its buffer in another file; 0 if it has none.
        sparsity: Table of the sparse form of its data, if they have one.
        stored: The quantized tensor whose float values it has.
    """

    index: int
    where: str
    name: str
    stated: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    type: int
    quantization: Quantization | None
    is_variable: bool
    buffer: int
    external: int = 0
    sparsity: Any = None
    stored: TensorInfo | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype.

        Raises:
            UnsupportedOp: If tensors of a DLC have no such type.
            ModelError: If the format has none.
        """
        dtype = DTYPES.get(self.type)
        if self.type in OTHERS:
            raise UnsupportedOp(
                f"the tensor has type {OTHERS[self.type]}, which a DLC cannot hold",
                where=self.where,
                fix="cut the graph after the operators on it, or convert a model without these operators",
                code="XD405",
            )
        if dtype is None:
            raise damaged(f"the tensor has type {self.type}, which TFLite does not define", self.where)
        return dtype

    @property
    def qnn_dtype(self) -> DType:
        """The data type of QNN.

        Raises:
            UnsupportedOp: If QNN has no such type.
            ModelError: If the format has no such type.
        """
        try:
            return from_numpy(self.dtype)
        except TypeError as error:
            problem = f"the tensor has a type that a DLC cannot hold: {error}"
            fix = "cut the graph after the operators on it, or convert the model with other types"
            raise UnsupportedOp(problem, where=self.where, fix=fix) from error


def unpacked(array: Any, dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
    """Return packed integers of 2 or 4 bits, low bits first, as an array of ``shape``."""
    bits = PACKED[dtype.name]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (array[:, None] >> shifts & ((1 << bits) - 1)).reshape(-1)[: math.prod(shape)]
    if dtype.name.startswith("int"):
        parts = (parts.astype(np.int8) ^ (1 << bits - 1)) - (1 << bits - 1)
    return parts.astype(dtype).reshape(shape)


def reals(array: Any, quantization: Quantization) -> Any:
    """Return the float32 values that integers denote."""
    scales, zeros = quantization.scales, quantization.zero_points
    if scales.size == 1:
        scales, zeros = scales.reshape(()), zeros.reshape(())
    elif quantization.block_size:
        scales, zeros = (
            np.repeat(entry, quantization.block_size, quantization.axis) for entry in (scales, zeros)
        )
    else:
        along = [-1 if axis == quantization.axis else 1 for axis in range(array.ndim)]
        scales, zeros = scales.reshape(along), zeros.reshape(along)
    return (array.astype(np.int64) - zeros).astype(np.float32) * scales


def read_quantization(table: Any, shape: Sequence[int], where: str) -> Quantization | None:
    """Return the quantization that a ``QuantizationParameters`` table states, or None.

    Raises:
        ModelError: If the parameters fit neither the tensor nor each other.
    """
    scales = np.asarray(getattr(table, "scale", None) or (), np.float32)
    if not scales.size or not scales.any():
        return None
    zeros = np.asarray(table.zero_point or (0,), np.int64)
    if zeros.size not in (1, scales.size) or not np.isfinite(scales).all() or (scales < 0).any():
        raise ModelError(
            f"the tensor has {scales.size} scales, but {zeros.size} zero points", where=where, fix=_CONVERT
        )
    axis = table.quantized_dimension if scales.size > 1 and len(shape) > 1 else 0  # biases may state another
    if scales.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scales.size):
        raise ModelError(
            f"the tensor has {scales.size} scales along axis {axis} of {list(shape)}",
            where=where,
            fix=_CONVERT,
        )
    # A channel of zeros may have scale 0: any scale denotes its values.
    scales = np.where(scales > 0, scales, scales.max() or 1).astype(np.float32)
    return Quantization(scales, np.broadcast_to(zeros, scales.shape).copy(), axis)


def read_blocks(
    shape: Sequence[int], axes: Sequence[int], scales: Any, zero_points: Any, where: str
) -> Quantization:
    """Return quantization whose parameters are tensors: by several axes, or by block.

    Args:
        axes: The axes of the scales, if those have fewer than the tensor.
        scales: Scales: each of their dimensions divides that of the tensor.
        zero_points: Zero points of their shape, or None.

    Raises:
        ModelError: If the parameters do not fit the tensor, or blocks lie along two axes.
    """
    grid = list(scales.shape)
    if len(axes) == len(grid) < len(shape) and all(0 <= axis < len(shape) for axis in axes):
        grid = [1] * len(shape)
        for axis, size in zip(axes, scales.shape, strict=True):
            grid[axis] = size
    fits = len(grid) == len(shape) and math.prod(grid) == scales.size and scales.size
    if not fits or any(not part or dim % part for dim, part in zip(shape, grid, strict=True)):
        raise ModelError(
            f"the tensor has scales {list(scales.shape)} for {list(shape)}", where=where, fix=_CONVERT
        )
    scales = scales.astype(np.float32).reshape(grid)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise ModelError("the tensor has a scale that is not a positive number", where=where, fix=_CONVERT)
    zeros = np.zeros(grid, np.int64)
    if zero_points is not None:
        if zero_points.dtype.kind != "i" or zero_points.size not in (1, scales.size):
            raise ModelError(f"the tensor has {zero_points.size} zero points", where=where, fix=_CONVERT)
        held = zero_points.astype(np.int64)
        zeros = np.broadcast_to(held.reshape(grid if held.size > 1 else [1] * len(grid)), grid).copy()
    scales = np.where(scales > 0, scales, scales.max() or 1).astype(np.float32)
    several = [axis for axis, part in enumerate(grid) if part > 1]
    if len(several) < 2 and all(grid[axis] == shape[axis] for axis in several):
        return Quantization(scales.reshape(-1), zeros.reshape(-1), *several)
    blocked = [axis for axis in several if grid[axis] < shape[axis]] or [len(shape) - 1]
    if len(blocked) > 1:
        raise ModelError(
            f"the tensor has blocks along axes {blocked}",
            where=where,
            fix="export the model with blocks along one axis",
        )
    for axis, part in enumerate(grid):
        if axis != blocked[0] and part < shape[axis]:
            scales, zeros = (np.repeat(entry, shape[axis] // part, axis) for entry in (scales, zeros))
    return Quantization(scales, zeros, blocked[0], shape[blocked[0]] // grid[blocked[0]])
