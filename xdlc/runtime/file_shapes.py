"""Shapes of an input's arrays in files: dynamic dimensions of the graph follow from the file.

A raw file has a size only, from which one dynamic dimension follows; ``.npy`` files have their shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdlc.ir import Tensor

Shape = tuple[int, ...]


def unit_shape(tensor: Tensor) -> Shape:
    """Return the shape of an input whose dynamic dimensions are 1."""
    return tuple(1 if axis in tensor.dynamic_axes else dim for axis, dim in enumerate(tensor.shape))


def holds_integers(tensor: Tensor) -> bool:
    """Return whether raw files of an input hold its own type by default: integers and bools."""
    return tensor.dtype.is_integer or tensor.dtype.kind == "bool"


def of_size(found: int, full: int, unit: int, tensor: Tensor) -> Shape | None:
    """Return the shape of what has a size, None if it does not fit or does not determine the shape.

    Args:
        found: The size, in elements or bytes.
        full: Size of the shape that the input states.
        unit: Size if all dynamic dimensions are 1.
        tensor: The input; a single item of its batch fits too if no dimension is dynamic.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> of_size(12, 3, 3, Tensor("x", (1, 3), FLOAT32, dynamic_axes=(0,)))
        (4, 3)
    """
    if found == full:
        return tensor.shape
    if not tensor.dynamic_axes:
        batch = tensor.shape[0] if tensor.shape else 1
        return (1, *tensor.shape[1:]) if batch > 1 and found * batch == full else None
    if found == unit:
        return unit_shape(tensor)
    if len(tensor.dynamic_axes) > 1 or unit == 0 or found == 0 or found % unit:
        return None
    (axis,) = tensor.dynamic_axes
    return (*tensor.shape[:axis], found // unit, *tensor.shape[axis + 1 :])


def of_array(shape: Sequence[int], tensor: Tensor) -> Shape | None:
    """Return the shape that an array has for an input, None if it does not fit.

    Arrays of another shape but the same size fit where no dimension is dynamic.
    """
    if not tensor.dynamic_axes:
        return of_size(math.prod(shape), tensor.size, tensor.size, tensor)
    fits = len(shape) == tensor.rank and all(
        dim == wanted or axis in tensor.dynamic_axes
        for axis, (dim, wanted) in enumerate(zip(shape, tensor.shape, strict=True))
    )
    return tuple(shape) if fits else None


def size_problem(path: object, found: int, unit: int, tensor: Tensor, kind: str) -> tuple[str, str]:
    """Return the problem of a raw file's size and its fix.

    Args:
        path: The file.
        found: Its bytes.
        unit: Bytes of the input if all dynamic dimensions are 1.
        tensor: The input.
        kind: Data type of the file.
    """
    title = f"{path} has {found} bytes, input {tensor.name!r}"
    if len(tensor.dynamic_axes) > 1:
        return (
            f"{title} has {len(tensor.dynamic_axes)} dynamic dimensions ({shown(tensor)} of {kind}), which "
            "do not follow from a raw file",
            "save the array as .npy, which has its shape, or bind dimensions with --input_dim at conversion",
        )
    multiple = " or a multiple of it" if tensor.dynamic_axes else ""
    return (
        f"{title} takes {unit}{multiple} ({shown(tensor)} of {kind})",
        "write the file in the type and layout of the input; xdlc-info shows both",
    )


def shown(tensor: Tensor) -> str:
    """Return the shape of an input for a message, ``?`` for a dynamic dimension."""
    dims = ("?" if axis in tensor.dynamic_axes else str(n) for axis, n in enumerate(tensor.shape))
    return "x".join(dims) or "a scalar"
