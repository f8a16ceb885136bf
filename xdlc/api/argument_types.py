"""Types of arguments, checked against the annotations of the verbs."""

from __future__ import annotations

import builtins
import collections.abc as abc
import inspect
import math
import os
import re
import types
from collections.abc import Hashable, Mapping
from numbers import Real
from typing import Any, Literal, Union, get_args, get_origin

from xdlc.errors import UsageError

_CONTAINERS = (abc.Sequence, abc.Collection, abc.Iterable, tuple, list, set, frozenset)


def check(verb: str, option: str, value: Any, annotation: str, names: Mapping[str, Any]) -> None:
    """Check that an argument is of a type that its annotation has.

    Elements of lists and mappings are checked too; names that are known to checkers of types alone fit all.

    Args:
        verb: Name of the verb, for the error.
        option: Name of the option.
        value: The argument.
        annotation: Its annotation, as text.
        names: Names of the module that has the annotation.

    Raises:
        UsageError: If it is not.
    """
    if isinstance(value, str) and annotation.startswith("Sequence[str]") and "| str" not in annotation:
        # its letters would be read as names
        raise UsageError(f"{option} is the string {value!r}", fix=f"give a list: {option}=[{value!r}]")
    if not _fits(value, eval(annotation, {"__builtins__": {}}, _Names(names))):
        if _is_nan(value):
            raise UsageError(f"{verb}: {option} is nan", fix="give a number, or omit the option")
        problem = f"{verb}: {option} is of type {type(value).__name__}"
        if callable(value) and not isinstance(value, type) and "function" in _in_words(annotation):
            problem = f"{verb}: {option} has other arguments"
        elif isinstance(value, list | tuple | set | Mapping) and value:
            problem += ", or has an element of another type"
        raise UsageError(problem, fix=f"give {_in_words(annotation)}")


_WORDS = {
    r"\bPathLike\b|\bos\.PathLike\[str\]": "path",
    r"\bNames\b": "str | list[str]",
    r"\bPaths\b": "path | list[path] | None",
    r"\b(Sequence|Iterable|Collection)\b": "list",
    r"\bMapping\[": "dict[",
    r"\bArray\b": "array",
    r"\bNotify\b": "function(line)",
    r"\bStep\b": "function(title, done, total)",
    r"\bCallable(\[.*\])?": "function",
    r" \| ": " or ",
}
"""Words for parts of annotations, in order."""


def _in_words(annotation: str) -> str:
    for part, words in _WORDS.items():
        annotation = re.sub(part, words, annotation)
    return annotation


class _Names(dict[str, Any]):
    """Names of a module, in which those of imports for checkers of types alone are Any."""

    def __missing__(self, name: str) -> Any:
        if name.startswith("__"):
            raise KeyError(name)
        return getattr(builtins, name, Any)


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if kind is None or kind is types.NoneType:
        return value is None
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, Hashable)  # the verb lists the values that there are
    if kind in (bool, int, float):  # numbers of numpy have an empty shape
        plain = {bool: int, int: int, float: Real}[kind]
        is_number = isinstance(value, plain) or getattr(value, "shape", None) == ()
        return (
            is_number
            and not (kind is int and (isinstance(value, bool) or not hasattr(value, "__index__")))
            and not _is_nan(value)  # which every check of a limit passes
        )
    if origin is abc.Callable:
        return callable(value) and (inner[0] is Ellipsis or _has_arguments(value, len(inner[0])))
    if origin is abc.Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, inner[0]) and _fits(held, inner[1]) for key, held in value.items()
        )
    if origin is tuple and not isinstance(value, tuple | list):
        return False
    if origin in _CONTAINERS:
        if origin is abc.Iterable or not isinstance(value, abc.Collection):
            return isinstance(value, abc.Iterable)
        if isinstance(value, bytes):
            return False
        return all(any(_fits(one, each) for each in inner if each is not Ellipsis) for one in value)
    if origin is os.PathLike:
        return isinstance(value, os.PathLike)
    return not isinstance(kind, type) or isinstance(value, kind)


def _has_arguments(function: Any, count: int) -> bool:
    """Return whether a function may be called with so many arguments; without a signature it may."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def _is_nan(value: Any) -> bool:
    return isinstance(value, Real) and math.isnan(value)
