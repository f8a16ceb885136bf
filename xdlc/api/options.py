"""What the verbs share: their types, and checks of the options they are given."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from xdlc.errors import UsageError, nearest_names

Array: TypeAlias = Any  # numpy.ndarray of any dtype
PathLike: TypeAlias = "str | os.PathLike[str]"
MAX_EXTENT = 2**32 - 1


def check_options(
    verb: str, function: Callable[..., Any], options: Mapping[str, Any], more: Sequence[str] = ()
) -> None:
    """Refuse options that neither the function takes by name only nor ``more`` lists.

    Raises:
        UsageError: If there is one; the fix names the nearest known, or else all of them.
    """
    known = [*keywords(function), *more]
    for name in options:
        if name not in known:
            hint = nearest_names(name, known) or f"options: {', '.join(known)}"
            raise UsageError(f"{verb} has no option {name!r}", fix=hint)


def keywords(function: Callable[..., Any]) -> list[str]:
    """Return the names of the options that a function takes by name only."""
    import inspect

    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]


def check_lists(**given: Sequence[str]) -> None:
    """Refuse a string where a list of names belongs: its letters would be taken for names.

    Raises:
        UsageError: If there is one.
    """
    for name, value in given.items():
        if isinstance(value, str):
            raise UsageError(f"{name} is the string {value!r}", fix=f"give a list: {name}=[{value!r}]")


def by_name(feeds: Mapping[str, Array], what: str) -> Mapping[str, Array]:
    """Return the arrays or shapes, which have to come by name.

    Raises:
        UsageError: If they do not.
    """
    if not isinstance(feeds, Mapping):
        raise UsageError(f"{what} is of type {type(feeds).__name__}", fix="give a mapping {name: array}")
    return feeds


def checked_dims(dims: Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]] | None:
    """Return shapes by input name with each extent as an int.

    Raises:
        UsageError: If an extent is no whole number, or none that a DLC can hold.
    """
    if dims is None:
        return None
    checked = {}
    for name, shape in by_name(dims, "input_dims").items():
        try:
            checked[name] = tuple(map(operator.index, shape))
        except TypeError as error:
            raise UsageError(
                f"input_dims gives {name!r} the shape {shape!r}",
                fix="give whole numbers, like (1, 3, 224, 224)",
            ) from error
        if any(extent > MAX_EXTENT for extent in checked[name]):
            raise UsageError(
                f"input_dims gives {name!r} the shape {list(checked[name])}",
                fix=f"give extents of at most {MAX_EXTENT}, which is what a DLC can hold",
            )
    return checked
