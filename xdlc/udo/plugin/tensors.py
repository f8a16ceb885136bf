"""Inputs and outputs of a plugin's op, and helpers for their shapes.

Shapes are those of the source: a tensor of two axes has two, whatever a device makes of it.  A negative
axis therefore counts from the end of just this shape, as in the source framework.  (Toolchains that pad
every shape to four axes before shape inference have to shift negative axes by what they padded.)
"""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.dtype import BY_NAME, DType
from xdlc.opdefs.model import LAYOUTS, DescriptionPart, TensorDef
from xdlc.opdefs.op_view import TensorSpec
from xdlc.runtime.udo.descriptor import MAX_RANK

Extent = int | None


def tensor(
    name: str,
    dtypes: Sequence[str] = ("float32",),
    rank: int | None = None,
    optional: bool = False,
    static: bool = False,
    repeated: bool = False,
    layout: str = "",
    description: str = "",
) -> TensorDef:
    """Return the definition of an input or output.

    Args:
        name: An identifier.
        dtypes: Names of allowed data types, like ``float32``.
        rank: Number of axes; None for any.
        optional: Whether it may be omitted.
        static: Whether it holds data of the model; inputs only.
        repeated: Whether it is any number of tensors; the last one only.
        layout: ``NHWC``, ``NCHW`` or ``NHCW``; empty for the source's axis order, or that of its format.
        description: What it is.

    Raises:
        UsageError: If an argument is wrong.
    """
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise UsageError(f"{name!r} is not a name of a tensor", fix="use letters, digits and underscores")
    if isinstance(dtypes, str):
        raise UsageError(f"dtypes of {name} is the string {dtypes!r}", fix=f"write dtypes=({dtypes!r},)")
    if layout not in ("", *LAYOUTS):
        raise UsageError(f"layout of {name} is {layout!r}", fix=f"use {', '.join(LAYOUTS)}, or no layout")
    allowed = tuple(map(data_type, dtypes))
    if any(dtype.kind == "string" for dtype in allowed):
        raise UsageError(
            f"{name} is a tensor of strings, which models cannot hold",
            fix="declare a parameter of kind Strs instead",
        )
    return TensorDef(
        name,
        not optional,
        allowed,
        checked_rank(rank, name),
        layout=layout,
        repeated=repeated,
        is_static=static,
        description=described(description),
    )


Input = Output = tensor


def checked_rank(rank: int | None, name: str) -> int | None:
    """Return a number of axes.

    Raises:
        UsageError: If no tensor has it.
    """
    if rank is not None and not (isinstance(rank, int) and 1 <= rank <= MAX_RANK):
        raise UsageError(f"rank of {name} is {rank!r}", fix=f"give None or 1 to {MAX_RANK}")
    return rank


def data_type(name: object) -> DType:
    """Return a data type by name.

    Raises:
        UsageError: If there is no such type, or tensors cannot have it.

    Example:
        >>> data_type("uint8")
        uint8
    """
    found = BY_NAME.get(name) if isinstance(name, str) else None
    if found is None or found.name == "undefined":
        raise UsageError(f"there is no data type {name!r}", fix=nearest_names(str(name), BY_NAME) or None)
    return found


def described(text: str) -> tuple[DescriptionPart, ...]:
    """Return a text in the form of definitions.

    Raises:
        UsageError: If it is not text.
    """
    if not isinstance(text, str):
        raise UsageError(f"description is {text!r}", fix="give a string")
    return (DescriptionPart(text),) if text else ()


def same_as(spec: TensorSpec | None, dtype: str | None = None) -> TensorSpec:
    """Return an output like an input.

    Args:
        dtype: Name of the output's data type, if it is another.

    Raises:
        UsageError: If the input is omitted, or there is no such type.
    """
    found = _there(spec)
    return TensorSpec(found.shape, found.dtype if dtype is None else data_type(dtype), layout=found.layout)


def with_shape(spec: TensorSpec | None, shape: Sequence[Extent]) -> TensorSpec:
    """Return an output of another shape than an input, and of its type.

    Raises:
        UsageError: If the input is omitted.
    """
    found = _there(spec)
    return TensorSpec(tuple(shape), found.dtype, layout=found.layout)


def broadcast(*specs: TensorSpec | None) -> TensorSpec:
    """Return an output of the first input's type, in the broadcast shape of all.

    Raises:
        UsageError: If the shapes do not fit each other, or one is omitted.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> broadcast(TensorSpec((2, 1, 4), FLOAT32), TensorSpec((3, None), FLOAT32)).shape
        (2, 3, 4)
    """
    found = [_there(spec) for spec in specs]
    rank = max(len(spec.shape) for spec in found)
    padded = [(1,) * (rank - len(spec.shape)) + tuple(spec.shape) for spec in found]
    return with_shape(found[0], [_common(dims, found) for dims in zip(*padded, strict=True)])


def _common(dims: Sequence[Extent], specs: Sequence[TensorSpec]) -> Extent:
    wide = {dim for dim in dims if dim not in (1, None)}
    if len(wide) > 1:
        shapes = " and ".join(str(list(spec.shape)) for spec in specs)
        raise UsageError(
            f"shapes {shapes} cannot be broadcast", fix="correct the model or infer_shape_and_type"
        )
    if wide:
        return wide.pop()
    return None if None in dims else 1


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front; negative axes count from the end.

    Raises:
        UsageError: If there is no such axis.

    Example:
        >>> axis_of(-1, 4), axis_of(2, 4)
        (3, 2)
    """
    if not -rank <= axis < rank:
        raise UsageError(
            f"axis {axis} is not within {-rank}..{rank - 1} of {rank} axes",
            fix="give an axis that the input has",
        )
    return axis + rank if axis < 0 else axis


def reduced(spec: TensorSpec | None, axes: Sequence[int] | None = None, *, keep: bool = False) -> TensorSpec:
    """Return an output that lacks some axes of an input.

    Args:
        axes: The axes, negative ones counted from the end; None for all.
        keep: Whether they stay, with size 1.

    Raises:
        UsageError: If the input is omitted, or has no such axis.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> reduced(TensorSpec((2, 3, 4), FLOAT32), [-1]).shape
        (2, 3)
        >>> reduced(TensorSpec((2, 3, 4), FLOAT32), [0, -1], keep=True).shape
        (1, 3, 1)
    """
    found = _there(spec)
    rank = len(found.shape)
    gone = set(range(rank)) if axes is None else {axis_of(axis, rank) for axis in axes}
    dims = [1 if axis in gone else dim for axis, dim in enumerate(found.shape)]
    return with_shape(found, dims if keep else [dims[axis] for axis in range(rank) if axis not in gone])


def _there(spec: TensorSpec | None) -> TensorSpec:
    if spec is None:
        raise UsageError(
            "the output has the shape of an omitted input", fix="use another input, or return None"
        )
    return spec
