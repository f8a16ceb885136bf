"""Schemas of ATen's operators, from ``aten.txt``: arguments and their aliases.

A saved program omits arguments that equal their defaults, and only the schemas state which arguments an
operator changes and of which its results are views.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

REQUIRED = object()
"""Default of an argument that has none."""

_OTHERS = {
    "bernoulli_.float": "bernoulli.p",
    "copy_.Tensor": "copy",
    "float_power_.Tensor": "float_power.Tensor_Tensor",
    "floor_divide_.Tensor": "floor_divide",
    "ldexp_": "ldexp.Tensor",
    "normal_": "normal_functional",
    "pow_.Tensor": "pow.Tensor_Tensor",
    "transpose_": "transpose.int",
}
"""Functional forms with overloads of other names than the operators that write."""
_ADDED = {"fill_diagonal": "fill_diagonal_"}
"""Functional forms that ATen does not have, with the operators that write."""


class Argument(NamedTuple):
    """An argument of an operator.

    Attributes:
        kind: ``T`` for a tensor, ``I`` integer, ``F`` float, ``B`` truth value, ``S`` any number, ``D`` data
            type, ``Str`` text, ``X`` anything else, with ``[]`` for a list and ``?`` if None is possible.
        default: Its default, or ``REQUIRED``.
        is_written: Whether the operator changes it.
        is_viewed: Whether results are views of it.
    """

    kind: str
    name: str
    default: Any
    is_written: bool
    is_viewed: bool


@cache
def _table() -> dict[str, str]:
    text = files("xdlc.converter.pytorch").joinpath("aten.txt").read_text("ascii")
    return dict(line.split("(", 1) for line in text.splitlines())


@cache
def schema(name: str) -> tuple[Argument, ...] | None:
    """Return the arguments of an ATen operator, like ``add.Tensor``; None if unknown."""
    found = _table().get(name) or _table().get(_ADDED.get(name, ""), "").replace("!", "")
    parts = found.rpartition(")")[0].split("; ")
    return tuple(_argument(part) for part in parts if part) if found else None


def functional_name(name: str) -> str:
    """Return the functional form of an in-place operator, with the overload."""
    operator, dot, overload = name.partition(".")
    if operator.startswith("__i") and operator.endswith("__"):
        return f"__{operator[3:]}{dot}{overload}"
    return _OTHERS.get(name, operator.removesuffix("_") + dot + overload)


@cache
def results(name: str) -> tuple[str, ...]:
    """Return the kinds of an ATen operator's results, ``T`` or ``T[]``."""
    kinds = _table().get(name, "").rpartition(")")[2].removeprefix(" -> ")
    return tuple(kind for kind in (kinds or "T").split() if kind != "None")


@cache
def overloads(name: str) -> tuple[str, ...]:
    """Return the overloads of an operator, named as in ``schema``, sorted."""
    return tuple(each for each in _table() if each.partition(".")[0] == name)


def _argument(text: str) -> Argument:
    kind, _, rest = text.partition(" ")
    name, equals, default = rest.partition("=")
    plain = kind.replace("!", "").replace("&", "")
    value = ast.literal_eval(default) if equals else REQUIRED
    return Argument(plain, name, value, "!" in kind, "&" in kind)


def with_defaults(operator: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ATen operator's arguments, omitted ones with their defaults."""
    defaults = {each.name: each.default for each in schema(operator) or () if each.default is not REQUIRED}
    return {**defaults, **given}
