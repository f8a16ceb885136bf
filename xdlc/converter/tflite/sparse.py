"""Sparse TFLite weights, densified: levels of dense and compressed dimensions.

The stored elements are visited level by level, as ``traversal_order`` lists the dimensions of a tensor and,
after these, its block dimensions.  A dense level has every index; a compressed one has, for each entry of the
level before it, the indices from ``segments[i]`` to ``segments[i + 1]`` (schema of TFLite; the format is that
of the tensor algebra compiler TACO).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xdlc.errors import ModelError

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
            raise ModelError(
                f"its sparse form has {problem}", where=where, fix="the file is damaged: obtain it again"
            )

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
