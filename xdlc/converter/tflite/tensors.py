"""Tensors of a TFLite model: data types, quantization, constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import DType
from xdlc.ir.dtype import from_numpy

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
_CONVERT = "the quantization parameters do not fit the tensor: convert the model again"
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
                f"is of type {OTHERS[self.type]}, which a DLC cannot hold",
                where=self.where,
                fix="cut the graph after the operators on it, or convert the model without them",
            )
        if dtype is None:
            raise ModelError(
                f"is of type {self.type}, which TFLite does not define",
                where=self.where,
                fix="the file is damaged: obtain it again",
            )
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
            problem = f"is of a type that a DLC cannot hold: {error}"
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
        raise ModelError(f"has {scales.size} scales and {zeros.size} zero points", where=where, fix=_CONVERT)
    axis = table.quantized_dimension if scales.size > 1 and len(shape) > 1 else 0  # biases may state another
    if scales.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scales.size):
        raise ModelError(
            f"has {scales.size} scales along axis {axis} of {list(shape)}",
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
        raise ModelError(f"has scales {list(scales.shape)} for {list(shape)}", where=where, fix=_CONVERT)
    scales = scales.astype(np.float32).reshape(grid)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise ModelError("has a scale that is not a positive number", where=where, fix=_CONVERT)
    zeros = np.zeros(grid, np.int64)
    if zero_points is not None:
        if zero_points.dtype.kind != "i" or zero_points.size not in (1, scales.size):
            raise ModelError(f"has {zero_points.size} zero points", where=where, fix=_CONVERT)
        held = zero_points.astype(np.int64)
        zeros = np.broadcast_to(held.reshape(grid if held.size > 1 else [1] * len(grid)), grid).copy()
    scales = np.where(scales > 0, scales, scales.max() or 1).astype(np.float32)
    several = [axis for axis, part in enumerate(grid) if part > 1]
    if len(several) < 2 and all(grid[axis] == shape[axis] for axis in several):
        return Quantization(scales.reshape(-1), zeros.reshape(-1), *several)
    blocked = [axis for axis in several if grid[axis] < shape[axis]] or [len(shape) - 1]
    if len(blocked) > 1:
        raise ModelError(f"has blocks along axes {blocked}", where=where, fix="export blocks along one axis")
    for axis, part in enumerate(grid):
        if axis != blocked[0] and part < shape[axis]:
            scales, zeros = (np.repeat(entry, shape[axis] // part, axis) for entry in (scales, zeros))
    return Quantization(scales, zeros, blocked[0], shape[blocked[0]] // grid[blocked[0]])
