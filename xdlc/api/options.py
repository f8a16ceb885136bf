"""Types of the verbs, and checks of their options."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from xdlc.api import argument_types
from xdlc.boundary.options import Options as BoundaryOptions
from xdlc.errors import UsageError, XdlcError, nearest_names, reword
from xdlc.ir.files import kept_apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]
else:
    Array = Any
PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Sequence[PathLike] | None
Names: TypeAlias = Sequence[str] | str
Notify: TypeAlias = Callable[[str], None]
Step: TypeAlias = Callable[[str, int, int], None]
P = ParamSpec("P")
R = TypeVar("R")
MAX_DIM = 2**32 - 1


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """Return a verb of the Python interface, whose errors are all XdlcErrors.

    Calls that do not fit the signature are UsageErrors, which name the nearest option.  Options of a typed
    mapping, ``**options: Unpack[Options]``, are its keys.
    """
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")
    checked_there = BoundaryOptions.__annotations__
    defaults = {each.name: each.default for each in signature.parameters.values()}
    known = {option: kind for option, kind in _named(function).items() if option != "self"}
    never_none = {  # None by name is their default, as it is that of others
        option
        for option, default in defaults.items()
        if default not in (None, inspect.Parameter.empty) and not re.search("None|Any", known.get(option, ""))
    }

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        unknown = next((option for option in options if option not in known), None)
        if unknown is not None:
            hint = nearest_names(unknown, known) or f"options: {', '.join(known)}"
            raise UsageError(f"{name} has no option {unknown!r}", fix=hint)
        for option in [name for name in options if options[name] is None and name in never_none]:
            del options[option]
        try:
            bound = signature.bind(*args, **options).arguments
        except TypeError as error:
            raise UsageError(f"{name}: {error}", fix=f"see help(xdlc.{name})") from None
        for option, value in {**bound, **options}.items():
            if option in known and option not in checked_there and value is not defaults.get(option):
                argument_types.check(name, option, value, known[option], function.__globals__)
        try:
            with kept_apart():
                return function(*args, **options)
        except XdlcError as error:
            if not SPEAKS_FLAGS.get():
                reword(error, in_python)
            raise

    _OPTIONS.update(known)
    return call


def _named(function: Callable[..., Any]) -> dict[str, str]:
    """Return the types of a verb's options by name."""
    found: dict[str, str] = {}
    for each in inspect.signature(function).parameters.values():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            mapping = function.__globals__[each.annotation.removeprefix("Unpack[")[:-1]]
            types = mapping.__annotations__.items()
            found |= {name: getattr(kind, "__forward_arg__", str(kind)) for name, kind in types}
        else:
            found[each.name] = each.annotation
    return found


SPEAKS_FLAGS: ContextVar[bool] = ContextVar("SPEAKS_FLAGS", default=False)
"""Whether the caller is a tool, whose options are flags."""

_OPTIONS: dict[str, str] = {}
"""Type of each option of a verb, by name."""

_VERBS = {
    "xdlc-graph-prepare": "xdlc.prepare",
    "xdlc-quant": "xdlc.quantize",
    "xconv-onnx-to-dlc": "xdlc.convert",
    "xdlc-to-onnx": "xdlc.to_onnx",
}
_OTHER_NAMES = {
    "input_network": "path",
    "predict_net": "path",
    "input_dim": "input_dims",
    "set_input": "set_inputs",
    "caffe_bin": "weights",
    "exec_net": "weights",
    "htp_socs": "socs",
    "hta_partitions": "partitions",
    "hta_reorder": "reorder",
}


def in_python(text: str) -> str:
    """Return a text with flags as options of verbs; other flags, and command lines with values, stay.

    Text between backticks is a command line and stays.

    Example:
        >>> in_python("give --input_dim; prepare with xdlc-graph-prepare --partition, or --htp_archs")
        'give input_dims; prepare with xdlc.prepare(..., partition=True), or htp_archs'
    """
    return _FLAG.sub(_as_option, text)


_FLAG = re.compile(rf"`[^`]*`|(?:({'|'.join(_VERBS)}) )?--([a-z][a-z_]+)\b")


def _as_option(flag: re.Match[str]) -> str:
    if flag[2] is None:
        return flag[0]
    name = _OTHER_NAMES.get(flag[2], flag[2])
    if name not in _OPTIONS:
        return flag[0]
    is_switch = _OPTIONS[name].startswith("bool")
    if flag[1]:
        return f"{_VERBS[flag[1]]}(..., {name}=True)" if is_switch else flag[0]
    return f"{name}=True" if is_switch else name


def given(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options by name only of a verb that differ from their defaults.

    Args:
        function: The verb.
        values: Its arguments by name, as ``locals()`` in its first line returns them.
    """
    parameters = inspect.signature(function).parameters
    return {
        name: value
        for name, value in values.items()
        if name in parameters and parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        if value is not parameters[name].default
    }


def keywords(function: Callable[..., Any]) -> list[str]:
    """Return the names of the options that a function takes by name only."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]


def checked_path(path: PathLike, what: str) -> PathLike:
    """Return the path of a file.

    Raises:
        UsageError: If it is something else.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"the path is of type {type(path).__name__}", fix=f"give the path of {what}")
    return path


def by_name(feeds: Mapping[str, R], what: str) -> Mapping[str, R]:
    """Return arrays or shapes by name.

    Raises:
        UsageError: If they are no mapping.
    """
    if not isinstance(feeds, Mapping):
        raise UsageError(f"{what} is of type {type(feeds).__name__}", fix="give a mapping {name: array}")
    return feeds


def checked_dims(dims: Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]] | None:
    """Return shapes by input name with each dimension as an int.

    Raises:
        UsageError: If a dimension is no whole number, or none that a DLC can hold.
    """
    if dims is None:
        return None
    if not isinstance(dims, Mapping):
        fix = "give shapes by name, like {'x': (1, 3, 224, 224)}; tensors of a module are example_inputs"
        raise UsageError(f"input_dims is of type {type(dims).__name__}", fix=fix)
    checked = {}
    for name, shape in dims.items():
        try:
            checked[name] = tuple(map(operator.index, shape))
        except TypeError as error:
            raise UsageError(
                f"input_dims has the shape {shape!r} for {name!r}",
                fix="give whole numbers, like (1, 3, 224, 224)",
            ) from error
        if any(size > MAX_DIM for size in checked[name]):
            raise UsageError(
                f"input_dims has the shape {list(checked[name])} for {name!r}",
                fix=f"give dimensions of at most {MAX_DIM}, the most that a DLC can hold",
            )
    return checked
