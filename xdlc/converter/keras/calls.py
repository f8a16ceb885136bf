"""Calls of layers as files state them: tensors, constants, slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from xdlc.errors import ModelError
from xdlc.json_fields import fits

SAVE = "save the model again with model.save('model.keras')"
_NAMES: Mapping[type, str] = {dict: "object of JSON", list: "list"}
T = TypeVar("T", list[Any], dict[str, Any])
_DEPTH = 32
"""Most lists inside one another."""


def invalid(problem: str, where: str) -> ModelError:
    """Return the error of a part of a file that contradicts itself or the form of Keras."""
    return ModelError(problem, where=where, fix=SAVE)


class Ref(NamedTuple):
    """A tensor: an output of a call of a layer.

    Attributes:
        layer: Name of the layer.
        call: Number of the call, as the file counts.
        output: Number of the output.
    """

    layer: str
    call: int
    output: int


class Call(NamedTuple):
    """A call of a layer.

    Attributes:
        args: Positional arguments; tensors are ``Ref``.
        kwargs: Arguments by name.
    """

    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def call_of(given: Any, place: str) -> Call:
    """Return a call as a file states it: with ``args`` and ``kwargs``, or as a list of tensors (Keras 2).

    Raises:
        ModelError: If it is neither.
    """
    if isinstance(given, dict):
        args = in_form(given.get("args"), list, "args", place)
        kwargs = in_form(given.get("kwargs", {}), dict, "kwargs", place)
        return Call(
            [argument(each, place) for each in args],
            {name: argument(each, place) for name, each in kwargs.items()},
        )
    entries = in_form(given, list, "inbound_nodes", place)
    if is_leaf(given) or entries[:1] == ["_CONSTANT_VALUE"]:
        entries = [given]
    tensors: list[Any] = []
    kwargs = {}
    for entry in entries:
        parts = in_form(entry, list, "an inbound node", place)
        if len(parts) not in (3, 4):
            raise invalid(f"an inbound node has {len(parts)} parts", place)
        tensors.append(parts[2] if parts[0] == "_CONSTANT_VALUE" else _ref(parts[:3], place))
        kwargs |= in_form(parts[3], dict, "kwargs", place) if len(parts) == 4 else {}
    named = {name: _legacy_argument(each, place, 0) for name, each in kwargs.items()}
    return Call([tensors[0] if len(tensors) == 1 else tensors], named)


def is_leaf(given: Any) -> bool:
    """Return whether a list is one tensor: the name of a layer, the number of a call, and of an output."""
    return fits(given, list) and len(given) in (3, 4) and fits(given[:3], (str, int, int))


def _ref(given: Sequence[Any], place: str) -> Ref:
    name, call, output = given if len(given) == 3 else (None, None, None)
    if not (isinstance(name, str) and type(call) is int and type(output) is int) or min(call, output) < 0:
        raise invalid(f"a tensor is stated as {given!r:.80}", place)
    return Ref(name, call, output)


def argument(given: Any, place: str, depth: int = 0) -> Any:
    """Return an argument of Keras 3: tensors as ``Ref``, slices and tuples as Python's, lists, numbers, text.

    Raises:
        ModelError: If it is none of these.
    """
    if depth > _DEPTH:
        raise invalid("an argument nests too deep", place)
    if isinstance(given, list):
        return [argument(each, place, depth + 1) for each in given]
    if not isinstance(given, dict):
        return given
    kind, config = given.get("class_name"), given.get("config")
    if kind == "__keras_tensor__" and isinstance(config, dict):
        return _ref(in_form(config.get("keras_history"), list, "keras_history", place), place)
    if kind == "__slice__" and isinstance(config, dict):
        return slice(*(argument(config.get(name), place, depth + 1) for name in ("start", "stop", "step")))
    if kind == "__tuple__":
        return [
            argument(each, place, depth + 1) for each in in_form(given.get("items"), list, "items", place)
        ]
    if kind == "__ellipsis__":
        return ...
    if kind in ("__tensor__", "__numpy__") and isinstance(config, dict):
        return _array(config, place)
    if kind == "DTypePolicy" and isinstance(config, dict):
        return config.get("name")
    return {str(name): argument(each, place, depth + 1) for name, each in given.items()}


def _array(config: Mapping[str, Any], place: str) -> Any:
    try:
        return np.asarray(config.get("value"), np.dtype(str(config.get("dtype", "float32"))))
    except (TypeError, ValueError) as error:
        raise invalid(f"an array cannot be read: {error}", place) from error


def _legacy_argument(given: Any, place: str, depth: int) -> Any:
    """Return an argument of Keras 2, in which ``["name", 0, 0]`` is a tensor."""
    if depth > _DEPTH:
        raise invalid("an argument nests too deep", place)
    if is_leaf(given) and len(given) == 3:
        return _ref(given, place)
    if isinstance(given, list) and given[:1] == ["_CONSTANT_VALUE"] and len(given) > 2:
        return given[2]
    if isinstance(given, list):
        return [_legacy_argument(each, place, depth + 1) for each in given]
    if isinstance(given, dict) and given.get("class_name") == "__tuple__":
        return _legacy_argument(given.get("items"), place, depth + 1)
    if isinstance(given, dict) and given.get("class_name") == "__ellipsis__":
        return ...
    if isinstance(given, dict):
        return {str(name): _legacy_argument(each, place, depth + 1) for name, each in given.items()}
    return given


def tensors(given: Any, place: str, depth: int = 0) -> list[Ref]:
    """Return the tensors of a structure in the order of ``tree.flatten``: dictionaries by sorted keys.

    Raises:
        ModelError: If there is something else in it.
    """
    if isinstance(given, Ref):
        return [given]
    if is_leaf(given):
        return [_ref(given[:3], place)]
    if depth > _DEPTH or not isinstance(given, list | dict):
        raise invalid(f"a tensor is stated as {given!r:.80}", place)
    entries = [given[key] for key in sorted(given)] if isinstance(given, dict) else given
    return [each for entry in entries for each in tensors(entry, place, depth + 1)]


def in_form(given: Any, form: type[T], what: str, place: str) -> T:
    """Return an object or a list of JSON.

    Raises:
        ModelError: If it is something else.
    """
    if not fits(given, form):
        raise invalid(f"{what} is {given!r:.60}, no {_NAMES[form]}", place)
    return cast("T", given)
