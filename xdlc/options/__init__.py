"""Options of verbs and tools, each defined once as a key of a typed mapping.

A verb has ``**options: Unpack[Mapping]``; its signature, its documentation and the checks of its arguments
follow from the mapping (``xdlc.api.verbs``), and so do the flags of the tools (``xdlc.cli.params``).  Texts
for users name an option by ``spell``.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import inf
from typing import Any, ForwardRef, TypeAlias

from xdlc.errors import UsageError, nearest_names
from xdlc.records import record

PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Sequence[PathLike] | None
Names: TypeAlias = Sequence[str] | str
Notify: TypeAlias = Callable[[str], None]
Step: TypeAlias = Callable[[str, int, int], None]
Spelling: TypeAlias = Callable[[str, Any], str]
"""Returns an option, by name and value, as callers write it; without a value (None), its name."""
MAX_DIM = 2**32 - 1
"""Largest dimension of a DLC."""
DEFAULT_SOC = "sm8650"
"""The SoC of the vendor's tools where a call names none."""


@record(frozen=True)
class Option:
    """An option in a type: ``Annotated[int, Option("Bits of weights.", default=8)]``.

    Attributes:
        help: Sentences for help and documentation; ``{name}`` refers to another option of the mapping.
        default: Value of an omitted option.
        default_text: Default in words, where it is computed.
        choices: Values, or values of each element of a mapping.
        is_open: Whether there are other values, which are checked where they are used.
        limits: Smallest and largest number; None: unlimited.
        metavar: Form of the value of the flag, with its unit.
        flags: Names of the flag, as click declares them; default: ``--name``, for a switch that is on by
            default ``--name/--no-name``.
    """

    help: str
    default: Any = None
    default_text: str = ""
    choices: Sequence[Any] = ()
    is_open: bool = False
    limits: tuple[float | None, float | None] = (None, None)
    metavar: str | None = None
    flags: Sequence[str] = ()


def spell(name: str, value: Any = None) -> str:
    """Return an option in the caller's spelling, for use in texts.

    Args:
        name: The option; ``prepare.partition`` is one of another verb, which the text then names too.
        value: The value to write; None: the option alone.

    Example:
        >>> f"use {spell('act_bitwidth', 16)}, or {spell('prepare.partition', True)}"
        'use act_bitwidth=16, or xdlc.prepare(..., partition=True)'
    """
    return _spellings[-1](name, value)


@contextmanager
def spelling(function: Spelling) -> Iterator[None]:
    """Let ``spell`` use a function in the context, as tools do for flags."""
    _spellings.append(function)
    try:
        yield
    finally:
        _spellings.remove(function)


def _as_keyword(name: str, value: Any) -> str:
    verb, _, option = name.rpartition(".")
    text = option if value is None else f"{option}={value!r}"
    return f"xdlc.{verb}(..., {text})" if verb else text


_spellings: list[Spelling] = [_as_keyword]
"""Ways to write options; the last one counts, in all threads."""


@cache
def options_of(mapping: type) -> Mapping[str, Option]:
    """Return the options of a typed mapping by name, in order."""
    return {name: annotation.__metadata__[0] for name, annotation in mapping.__annotations__.items()}


def type_of(mapping: type, name: str) -> Any:
    """Return the type of an option; types that only type checkers import are Any."""
    kind = mapping.__annotations__[name].__origin__
    return Any if isinstance(kind, ForwardRef) else kind


def check_values(mapping: type, values: Mapping[str, Any]) -> None:
    """Check that values of options, or their elements, are choices within limits.

    Raises:
        UsageError: If one is not.
    """
    for name, value in values.items():
        option = options_of(mapping)[name]
        by_name = isinstance(value, Mapping)
        for place, element in value.items() if by_name else [(name, value)]:
            misfit = _misfit(option, element)
            if misfit is not None:
                misfit.where = f"{spell(name)} of {place!r}" if by_name else spell(name)
                raise misfit


def _misfit(option: Option, element: Any) -> UsageError | None:
    """Return the error for an element that an option does not accept, or None."""
    if getattr(element, "shape", None) == () and hasattr(element, "item"):  # a number of numpy
        element = element.item()
    is_checked = option.choices and not option.is_open and isinstance(element, str | int)
    if is_checked and element not in option.choices:
        listed = ", ".join(map(str, option.choices))
        fix = nearest_names(str(element), map(str, option.choices)) or f"pass one of {listed}"
        return UsageError(f"expected one of {listed}, found {element!r}", fix=fix)
    least, most = option.limits
    lowest, highest = -inf if least is None else least, inf if most is None else most
    if isinstance(element, int | float) and not lowest <= element <= highest:
        limits = f"from {least} on" if most is None else f"from {least} to {most}"
        return UsageError(f"expected a number {limits}, found {element!r}", fix=f"pass a number {limits}")
    return None
