"""Inputs and outputs of a plugin's op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.dtype import BY_NAME, DType
from xdlc.opdefs.model import DescriptionPart, TensorDef

MAX_RANK = 16
LAYOUTS = ("", "NHWC", "NCHW", "NHCW")
STANDARD_TYPES = ("float32",)


@dataclass(frozen=True, slots=True)
class DeclaredTensor:
    """An input or output.

    Attributes:
        name: An identifier.
        dtypes: Names of allowed data types, like ``float32``.
        rank: Number of axes; None for any.
        optional: Whether it may be omitted.
        static: Whether it holds data of the model.
        repeated: Whether it is any number of tensors; the last one only.
        layout: ``NHWC``, ``NCHW`` or ``NHCW``; empty for the source's axis order, or that of its format.
        description: What it is.
    """

    name: str
    dtypes: Sequence[str] = STANDARD_TYPES
    rank: int | None = None
    optional: bool = False
    static: bool = False
    repeated: bool = False
    layout: str = ""
    description: str = ""


class Input(DeclaredTensor):
    """An input of a plugin's op."""

    __slots__ = ()


class Output(DeclaredTensor):
    """An output of a plugin's op."""

    __slots__ = ()


def tensor_def(given: object, kind: type[DeclaredTensor]) -> TensorDef:
    """Return the definition of a listed input or output; a name alone is one.

    Raises:
        UsageError: If it is neither a name nor of the class, or its fields are wrong.
    """
    declared = kind(given) if isinstance(given, str) else given
    if not isinstance(declared, kind):
        raise UsageError(
            f"{kind.__name__.lower()}s hold {given!r}", fix=f"list names or {kind.__name__}(...) objects"
        )
    name = declared.name
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise UsageError(f"{name!r} is no name of a tensor", fix="use letters, digits and underscores")
    if isinstance(declared.dtypes, str):
        raise UsageError(
            f"dtypes of {name} is the string {declared.dtypes!r}", fix=f"write dtypes=({declared.dtypes!r},)"
        )
    rank = declared.rank
    if rank is not None and not (isinstance(rank, int) and 1 <= rank <= MAX_RANK):
        raise UsageError(f"rank of {name} is {rank!r}", fix=f"give None or 1 to {MAX_RANK}")
    if declared.layout not in LAYOUTS:
        choices = ", ".join(LAYOUTS[1:])
        raise UsageError(f"layout of {name} is {declared.layout!r}", fix=f"give {choices}, or omit it")
    dtypes = tuple(data_type(dtype) for dtype in declared.dtypes)
    if any(dtype.kind == "string" for dtype in dtypes):
        raise UsageError(
            f"{name} is a tensor of strings, which models do not hold",
            fix="make it a parameter of kind Strs",
        )
    return TensorDef(
        name,
        not declared.optional,
        dtypes,
        rank,
        layout=declared.layout,
        repeated=declared.repeated,
        is_static=declared.static,
        description=described(declared.description),
    )


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
        UsageError: If it is no text.
    """
    if not isinstance(text, str):
        raise UsageError(f"description is {text!r}", fix="give a string")
    return (DescriptionPart(text),) if text else ()
