"""Marks of functions in Python files, and imports of modules in their folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
_ATTRIBUTE = "__xdlc_udo__"
_BROUGHT = "__xdlc_udo_functions__"


@dataclass(frozen=True, slots=True)
class Mark:
    """Role of a function.

    Attributes:
        role: ``kernel`` or ``shape_function``.
    """

    role: str
    package: str
    type: str


def kernel(package: str, type: str) -> Callable[[Function], Function]:
    """Mark a function as the kernel of an operation.

    It is called as ``f(inputs, params, outputs)``: arrays by position, None for an omitted input;
    parameters by name, an enumeration under the name of its value; a :class:`xdlc.opdefs.op_view.TensorSpec`
    for each output.  It returns an array, or a sequence of one for each output, of these shapes and types.
    Quantized values, static ones included, and halves come and go as float32; arrays that come
    cannot be written.

    Example:
        >>> @kernel("Math", "Double")
        ... def double(inputs, params, outputs):
        ...     return inputs[0] * 2
        >>> _marks_of(double)
        (Mark(role='kernel', package='Math', type='Double'),)
    """
    return _marked(Mark("kernel", package, type))


def shape_function(package: str, type: str) -> Callable[[Function], Function]:
    """Mark a function as the shape function of an operation.

    It is called with an :class:`xdlc.opdefs.op_view.OpView` and returns a ``TensorSpec`` or a shape, which
    is a tensor of the type of the first input, or a sequence of one for each output.
    """
    return _marked(Mark("shape_function", package, type))


def _marked(mark: Mark) -> Callable[[Function], Function]:
    for word in (mark.package, mark.type):
        if not isinstance(word, str) or not word:
            raise TypeError(f'{mark.role} needs names, as in @{mark.role}("Package", "Type"), not {word!r}')

    def note(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, (*_marks_of(function), mark))
        return function

    return note


def _marks_of(function: Any) -> tuple[Mark, ...]:
    """Return the marks of a function; () for other objects."""
    found = getattr(function, _ATTRIBUTE, ())
    return found if isinstance(found, tuple) else ()


def functions_of(entry: Any) -> list[tuple[Mark, Callable[..., Any]]]:
    """Return the functions of an object: a marked function, or those of a class.

    A class brings functions by a class method ``__xdlc_udo_functions__``, which returns what this does.
    """
    brought = getattr(entry, _BROUGHT, None) if isinstance(entry, type) else None
    return list(brought()) if brought is not None else [(mark, entry) for mark in _marks_of(entry)]


@contextmanager
def on_path(folder: str) -> Iterator[None]:
    """Add a folder to the end of the import path, for the time of the context."""
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]
