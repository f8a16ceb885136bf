"""Frame of the verbs: signatures from options, checks, errors for Python."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import os
import re
import types
from collections import abc
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from inspect import Parameter
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, Union, get_args, get_origin

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.files import kept_apart
from xdlc.options import MAX_DIM, Notify, Option, Step, check_values, options_of, spell, type_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]
else:
    Array = TypeVar("array")  # any value; errors show the name
P = ParamSpec("P")
R = TypeVar("R")
_CONTAINERS = (abc.Sequence, abc.Collection, abc.Iterable, tuple, list, set, frozenset)


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """Return a verb of the Python interface, whose errors are all XdlcErrors.

    Options of a typed mapping, ``**options: Unpack[Options]``, become keywords of its signature and lines of
    its documentation.  Calls that do not fit the signature are UsageErrors, which name the nearest option.
    The function gets no option that is None or has its default.
    """
    name = function.__qualname__.removesuffix(".__init__")
    parameters = inspect.signature(function).parameters.values()
    names = function.__globals__
    unpacked = [each.annotation for each in parameters if each.kind is Parameter.VAR_KEYWORD]
    mapping: type | None = names[unpacked[0].removeprefix("Unpack[").removesuffix("]")] if unpacked else None
    options = options_of(mapping) if mapping else {}
    signature = _signature(parameters, mapping, options)
    accepted = [option for option in signature.parameters if option != "self"]

    def is_omitted(option: str, value: Any) -> bool:
        parameter = signature.parameters[option]
        if option in options:
            return value is None or value is parameter.default
        has_default = parameter.default not in (None, Parameter.empty)
        return value is None and has_default and not re.search("None|Any", parameter.annotation)

    @functools.wraps(function)
    def call(*args: P.args, **arguments: P.kwargs) -> R:
        for option in arguments:
            if option not in accepted:
                hint = nearest_names(option, accepted) or f"use one of {', '.join(accepted)}"
                raise UsageError(f"{name} has no option {option!r}", fix=hint)
        stated = {option: value for option, value in arguments.items() if not is_omitted(option, value)}
        try:
            bound = signature.bind(*args, **stated).arguments
        except TypeError as error:
            raise UsageError(f"{name}: {error}", fix=f"see help(xdlc.{name})") from None
        for option, value in bound.items():
            if option != "self" and value is not signature.parameters[option].default:
                kind = signature.parameters[option].annotation
                kind = evaluated(kind, names) if isinstance(kind, str) else kind
                check_type(name, option, value, kind)
        chosen = {option: value for option, value in bound.items() if option in options}
        if mapping and chosen:
            check_values(mapping, chosen)
        with kept_apart():
            return function(*args, **stated)  # type: ignore[arg-type]

    returned = function.__annotations__.get("return", Parameter.empty)
    call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    call.__doc__ = _documentation(function, options)
    return call


def _signature(
    parameters: Iterable[Parameter], mapping: Any, options: Mapping[str, Option]
) -> inspect.Signature:
    """Return a signature with the options of a typed mapping as keywords."""
    own = [parameter for parameter in parameters if parameter.kind is not Parameter.VAR_KEYWORD]
    keywords = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=option.default, annotation=type_of(mapping, name))
        for name, option in options.items()
    ]
    return inspect.Signature([*own, *keywords])


def _documentation(function: Callable[..., Any], options: Mapping[str, Option]) -> str | None:
    """Return a function's docstring with a line for each option."""
    written = {name: f"``{name}``" for name in options}
    lines = []
    for name, option in options.items():
        choices = ", ".join(f"``{choice}``" for choice in option.choices)
        text = option.help.format_map(written) + (f" One of {choices}." if choices else "")
        default = f" Default: {option.default_text.format_map(written)}." if option.default_text else ""
        lines.append(f"        {name}: {text}{default}")
    return function.__doc__ and re.sub(
        r" +\*\*options:.*(?=\n)", lambda _: "\n".join(lines), function.__doc__
    )


def checked_dims(dims: Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]] | None:
    """Return shapes by input name with each dimension as an int.

    Raises:
        UsageError: If a dimension is no whole number, or none that a DLC can hold.
    """
    if dims is None:
        return None
    if not isinstance(dims, Mapping):
        fix = "give shapes by name, like {'x': (1, 3, 224, 224)}; pass tensors of a module as example_inputs"
        raise UsageError(f"{spell('input_dims')} is of type {type(dims).__name__}, not a mapping", fix=fix)
    checked = {}
    for name, shape in dims.items():
        try:
            checked[name] = tuple(map(operator.index, shape))
        except TypeError as error:
            raise UsageError(
                f"{spell('input_dims')} has the shape {shape!r} for {name!r}",
                fix="pass whole numbers, like (1, 3, 224, 224)",
            ) from error
        if any(size > MAX_DIM for size in checked[name]):
            raise UsageError(
                f"{spell('input_dims')} has the shape {list(checked[name])} for {name!r}",
                fix=f"pass dimensions of at most {MAX_DIM}, the limit of a DLC",
            )
    return checked


def check_type(verb: str, option: str, value: Any, kind: Any) -> None:
    """Check that an argument has an option's type, elements included.

    Args:
        verb: Name of the verb, for the error.
        option: Name of the option.
        value: The argument.
        kind: The type; names that only checkers of types know are Any.

    Raises:
        UsageError: If it is not.
    """
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if isinstance(value, str) and abc.Sequence[str] in kinds and str not in kinds:
        # its letters would be read as names
        raise UsageError(f"{option} is the string {value!r}", fix=f"pass a list: {option}=[{value!r}]")
    if not _fits(value, kind):
        if _is_nan(value):
            raise UsageError(f"{verb}: {option} is nan", fix="pass a number, or omit the option")
        problem = f"{verb}: {option} is of type {type(value).__name__}"
        if callable(value) and not isinstance(value, type) and "function" in _in_words(kind):
            problem = f"{verb}: {option} does not accept the arguments that xdlc passes"
        elif isinstance(value, list | tuple | set | Mapping) and value:
            problem += ", or has an element of another type"
        raise UsageError(problem, fix=f"pass {_in_words(kind)}")


def evaluated(annotation: str, names: Mapping[str, Any]) -> Any:
    """Return the type of an annotation; names only for type checkers are Any.

    Args:
        annotation: The annotation, as text.
        names: Names of the module that has it.
    """
    return eval(annotation, {"__builtins__": {}}, _Names(names))


_WORDS = {Notify: "function(line)", Step: "function(title, done, total)", types.NoneType: "None"}


def _in_words(kind: Any) -> str:
    """Return the description of a type for users, like ``path or list[path] or None``."""
    if kind in _WORDS:
        return _WORDS[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        apart = [each for each in inner if each is not str or os.PathLike[str] not in inner]
        return " or ".join(dict.fromkeys(map(_in_words, apart)))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is os.PathLike:
        return "path"
    if origin is abc.Callable:
        return "function"
    if inner:
        name = {abc.Mapping: "dict", tuple: "tuple"}.get(origin, "list")
        return f"{name}[{', '.join(map(_in_words, inner))}]"
    return getattr(kind, "__name__", repr(kind))


class _Names(dict[str, Any]):
    """Names of a module; names that only type checkers import are Any."""

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
    """Return whether a function may be called with a number of arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def _is_nan(value: Any) -> bool:
    return isinstance(value, Real) and math.isnan(value)
