"""Tensors of TensorFlow files as lazy data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter import weights
from xdlc.converter.protobuf_fields import Blobs
from xdlc.converter.tensorflow.messages import dtype_name
from xdlc.errors import UnsupportedOp, damaged
from xdlc.options import spell

LARGEST = 1 << 31
"""Dimensions of tensors are below."""
REPEATED = 1 << 27
"""Bytes that a list of values is repeated to at most."""
_VALUES = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "float16": "half_val",
    "bfloat16": "half_val",
    "complex64": "scomplex_val",
    "complex128": "dcomplex_val",
}
"""Fields of TensorProto that hold the values of a type; ``int_val`` those of the others."""


def numpy_dtype(name: str, where: str) -> Any:
    """Return the numpy dtype of a TensorFlow type; a quantized one's integers.

    Raises:
        UnsupportedOp: If no DLC holds elements of the type.
    """
    plain = name[1:] if name.startswith("q") else name
    if plain == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    if plain in _VALUES or plain in ("int8", "int16", "int32", "uint8", "uint16"):
        return np.dtype(plain)
    raise UnsupportedOp(
        f"the tensor holds elements of type {name}, which a DLC cannot hold",
        where=where,
        fix=f"end or begin the graph at tensors of numbers: {spell('out_node')}, {spell('input_dims')}",
    )


def shape_of(shape: Any, where: str) -> tuple[int | None, ...] | None:
    """Return the sizes of a ``TensorShapeProto``; None for an unknown size or rank.

    Raises:
        ModelError: If a size is impossible.
    """
    if shape.unknown_rank:
        return None
    sizes = [dim.size for dim in shape.dim]
    if any(not -1 <= size < LARGEST for size in sizes) or len(sizes) > 254:
        raise damaged(f"the tensor has invalid dimensions {sizes[:8]}", where)
    return tuple(None if size == -1 else size for size in sizes)


def known_shape(shape: Any, where: str) -> tuple[int, ...]:
    """Return the sizes of a ``TensorShapeProto`` of a stored tensor.

    Raises:
        ModelError: If one is unknown, or there are too many elements.
    """
    sizes = shape_of(shape, where)
    if sizes is None or None in sizes or math.prod(filter(None, sizes)) >= LARGEST * 8:
        raise damaged("the stored tensor has invalid dimensions", where)
    return tuple(size for size in sizes if size is not None)


def tensor_data(tensor: Any, file: ir.MappedFile | None, blobs: Blobs | None, where: str) -> ir.TensorData:
    """Return the elements of a ``TensorProto`` as lazy data.

    Args:
        file: The file that it was read from; None for text.
        blobs: Ranges that were cut out of the file.

    Raises:
        ModelError: If the data do not fit type and shape.
        UnsupportedOp: If the elements are strings, resources and the like.
    """
    name = dtype_name(tensor.dtype)
    dtype, shape = numpy_dtype(name, where), known_shape(tensor.tensor_shape, where)
    found = blobs.find(tensor.tensor_content) if blobs is not None and tensor.tensor_content else None
    if found is not None and file is not None:
        return weights.mapped(file, *found, shape, dtype, where)
    count = math.prod(shape)
    if tensor.tensor_content:
        stated, nbytes = len(tensor.tensor_content), count * dtype.itemsize
        if stated != nbytes:
            raise damaged(f"the tensor has {stated} bytes, but {name}{list(shape)} needs {nbytes}", where)
        return ir.ArrayData(np.frombuffer(tensor.tensor_content, dtype.newbyteorder("<")).reshape(shape))
    if count * dtype.itemsize > REPEATED:
        raise damaged(f"the tensor has {count} elements, but too few values", where)
    values = _values(tensor, name, dtype)
    if values.size > count:
        raise damaged(f"the tensor has {values.size} values for {count} elements", where)
    if values.size <= 1:  # one value, or zeros
        value = values[0] if values.size else dtype.type(0)
        return ir.fill(ir.ArrayData(np.full((), value, dtype)), shape)
    tail = np.full(count - values.size, values[-1])  # a short list repeats its last value
    return ir.ArrayData(np.concatenate([values, tail]).reshape(shape))


def _values(tensor: Any, name: str, dtype: Any) -> Any:
    """Return the typed list of a ``TensorProto``."""
    elements: Sequence[Any] = getattr(tensor, _VALUES.get(name, "int_val"))
    if name in ("float16", "bfloat16"):
        return np.asarray(elements, np.int64).astype(np.uint16).view(dtype)
    if dtype.kind == "c":
        parts = np.asarray(elements[: len(elements) // 2 * 2], np.float64)
        return (parts[::2] + 1j * parts[1::2]).astype(dtype)
    return np.asarray(elements).astype(dtype)


def ir_dtype(name: str, where: str) -> ir.DType:
    """Return the data type of an input.

    Raises:
        UnsupportedOp: If no DLC has it.
    """
    try:
        return ir.dtype.from_numpy(numpy_dtype(name, where))
    except TypeError as error:
        raise UnsupportedOp(
            str(error), where=where, fix="insert a Cast after the input in the model"
        ) from error
