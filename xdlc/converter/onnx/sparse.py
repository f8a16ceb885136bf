"""Sparse tensors of a model, made dense when they are used.

A ``SparseTensorProto`` lists the values that are not zero and where they stand: by one number each, their
place in row-major order, or by one number for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdlc.converter.operators.protobuf import INT64
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import TensorData

if TYPE_CHECKING:
    from xdlc.converter.onnx.reader import OnnxFile
    from xdlc.ir.data import Array

DENSE_BYTES = 1 << 30
"""Most bytes of the sparse tensors of a model when they are dense."""


def too_large(where: str) -> UnsupportedOp:
    """Return the error of sparse tensors of more than ``DENSE_BYTES`` bytes."""
    return UnsupportedOp(
        f"the sparse tensors of the model have more than {DENSE_BYTES} bytes when they are dense",
        where=where,
        fix="store as dense tensors what is not almost empty, or leave the embedding out of the model",
    )


def dense(file: OnnxFile, tensor: Any) -> TensorData:
    """Return the dense elements of a ``SparseTensorProto``, computed when used.

    Args:
        file: The model.
        tensor: The tensor.

    Raises:
        ModelError: If shapes and positions contradict each other, or positions are not in ascending order.
        UnsupportedOp: If it holds strings, or is too large.
    """
    where = f"{file.path}: sparse tensor {tensor.values.name!r}"
    shape = tuple(tensor.dims)
    if not shape or min(shape) < 1:
        raise ModelError(f"has impossible dimensions {list(shape)}", where=where)
    count = tensor.values.dims[0] if len(tensor.values.dims) == 1 else -1
    listed = tuple(tensor.indices.dims)
    if count < 0 or listed not in ((count,), (count, len(shape))) or tensor.indices.data_type != INT64:
        raise ModelError(
            f"of shape {list(shape)} has values of shape {list(tensor.values.dims)} at positions of shape "
            f"{list(listed)}",
            where=where,
            fix="positions are int64, one for each value, or one for each value and axis",
        )
    values = file.data(tensor.values)
    if math.prod(shape) * values.dtype.itemsize > DENSE_BYTES:
        raise too_large(where)
    places = _places(file.data(tensor.indices).numpy(), shape, where)

    def spread(array: Array) -> Array:
        import numpy

        made: Array = numpy.zeros(math.prod(shape), array.dtype)
        made[places] = array
        return made.reshape(shape)

    return values.transform(spread, shape=shape)


def _places(indices: Array, shape: Sequence[int], where: str) -> Array:
    """Return the place of each value in row-major order."""
    import numpy

    bounds = list(shape) if indices.ndim == 2 else [math.prod(shape)]
    columns = indices.reshape(len(indices), len(bounds))
    for column, bound in zip(columns.T, bounds, strict=True):
        if len(column) and (int(column.min()) < 0 or int(column.max()) >= bound):
            raise ModelError(f"has positions outside of its shape {list(shape)}", where=where)
    places = numpy.zeros(len(columns), numpy.int64)
    for column, bound in zip(columns.T, bounds, strict=True):
        places = places * bound + column
    if (places[1:] <= places[:-1]).any():
        raise ModelError(
            "its positions are not in ascending order, or not distinct",
            where=where,
            fix="sort the positions and their values",
        )
    return places
