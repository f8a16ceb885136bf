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
    """Return the error for a part of a file with an invalid form."""
    return ModelError(problem, where=where, fix=SAVE)


class Ref(NamedTuple):
    """A tensor: an output of a call of a layer.

    Attributes:
        call: Number of the call, as the file counts.
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


def call_of(value: Any, place: str) -> Call:
    """Return a call of a file, with ``args`` and ``kwargs`` or tensors (Keras 2).

    Raises:
        ModelError: If it is neither.
    """
    if isinstance(value, dict):
        args = in_form(value.get("args"), list, "args", place)
        kwargs = in_form(value.get("kwargs", {}), dict, "kwargs", place)
        return Call(
            [argument(item, place) for item in args],
            {name: argument(item, place) for name, item in kwargs.items()},
        )
    entries = in_form(value, list, "inbound_nodes", place)
    if is_leaf(value) or entries[:1] == ["_CONSTANT_VALUE"]:
        entries = [value]
    tensors: list[Any] = []
    kwargs = {}
    for entry in entries:
        parts = in_form(entry, list, "an inbound node", place)
        if len(parts) not in (3, 4):
            raise invalid(f"an inbound node has {len(parts)} parts instead of 3 or 4", place)
        tensors.append(parts[2] if parts[0] == "_CONSTANT_VALUE" else _ref(parts[:3], place))
        kwargs |= in_form(parts[3], dict, "kwargs", place) if len(parts) == 4 else {}
    named = {name: _legacy_argument(item, place, 0) for name, item in kwargs.items()}
    return Call([tensors[0] if len(tensors) == 1 else tensors], named)


def is_leaf(given: Any) -> bool:
    """Return whether a list is a tensor: name of a layer, numbers of call and output."""
    return fits(given, list) and len(given) in (3, 4) and fits(given[:3], (str, int, int))


def _ref(given: Sequence[Any], place: str) -> Ref:
    name, call, output = given if len(given) == 3 else (None, None, None)
    if not (isinstance(name, str) and type(call) is int and type(output) is int) or min(call, output) < 0:
        raise invalid(f"a tensor has the invalid form {given!r:.80}", place)
    return Ref(name, call, output)


def argument(value: Any, place: str, depth: int = 0) -> Any:
    """Return an argument of Keras 3 as Python's; tensors are ``Ref``.

    Raises:
        ModelError: If it has another form.
    """
    if depth > _DEPTH:
        raise invalid("an argument nests too deeply", place)
    if isinstance(value, list):
        return [argument(item, place, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if kind == "__keras_tensor__" and isinstance(config, dict):
        return _ref(in_form(config.get("keras_history"), list, "keras_history", place), place)
    if kind == "__slice__" and isinstance(config, dict):
        return slice(*(argument(config.get(name), place, depth + 1) for name in ("start", "stop", "step")))
    if kind == "__tuple__":
        return [
            argument(item, place, depth + 1) for item in in_form(value.get("items"), list, "items", place)
        ]
    if kind == "__ellipsis__":
        return ...
    if kind in ("__tensor__", "__numpy__") and isinstance(config, dict):
        return _array(config, place)
    if kind == "DTypePolicy" and isinstance(config, dict):
        return config.get("name")
    return {str(name): argument(item, place, depth + 1) for name, item in value.items()}


def _array(config: Mapping[str, Any], place: str) -> Any:
    try:
        return np.asarray(config.get("value"), np.dtype(str(config.get("dtype", "float32"))))
    except (TypeError, ValueError) as error:
        raise invalid(f"an array cannot be read: {error}", place) from error


def _legacy_argument(value: Any, place: str, depth: int) -> Any:
    """Return an argument of Keras 2, in which ``["name", 0, 0]`` is a tensor."""
    if depth > _DEPTH:
        raise invalid("an argument nests too deeply", place)
    if is_leaf(value) and len(value) == 3:
        return _ref(value, place)
    if isinstance(value, list) and value[:1] == ["_CONSTANT_VALUE"] and len(value) > 2:
        return value[2]
    if isinstance(value, list):
        return [_legacy_argument(item, place, depth + 1) for item in value]
    if isinstance(value, dict) and value.get("class_name") == "__tuple__":
        return _legacy_argument(value.get("items"), place, depth + 1)
    if isinstance(value, dict) and value.get("class_name") == "__ellipsis__":
        return ...
    if isinstance(value, dict):
        return {str(name): _legacy_argument(item, place, depth + 1) for name, item in value.items()}
    return value


def tensors(value: Any, place: str, depth: int = 0) -> list[Ref]:
    """Return the tensors of a structure as ``tree.flatten`` orders them.

    Raises:
        ModelError: If there is something else in it.
    """
    if isinstance(value, Ref):
        return [value]
    if is_leaf(value):
        return [_ref(value[:3], place)]
    if depth > _DEPTH or not isinstance(value, list | dict):
        raise invalid(f"a tensor has the invalid form {value!r:.80}", place)
    entries = [value[key] for key in sorted(value)] if isinstance(value, dict) else value
    return [each for entry in entries for each in tensors(entry, place, depth + 1)]


def in_form(value: Any, form: type[T], what: str, place: str) -> T:
    """Return an object or a list of JSON.

    Raises:
        ModelError: If it is something else.
    """
    if not fits(value, form):
        raise invalid(f"{what} is {value!r:.60} instead of {_NAMES[form]}", place)
    return cast("T", value)
