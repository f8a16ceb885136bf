"""Calls of ATen operators before conversion to nodes, and argument schemas.

A saved program omits arguments that equal their defaults, and only the schemas state which arguments an
operator changes and of which its results are views.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """Return an ATen operator's arguments, with defaults for omitted ones."""
    defaults = {each.name: each.default for each in schema(operator) or () if each.default is not REQUIRED}
    return {**defaults, **given}


class Ref(str):
    """Name of a tensor that a call reads."""

    __slots__ = ()


class SymbolRef(str):
    """Name of a number that depends on dynamic dimensions or on data."""

    __slots__ = ()


class ScalarType(int):
    """Number of a data type (c10/core/ScalarType.h)."""

    __slots__ = ()


class Meta(NamedTuple):
    """Facts that a program states of a tensor.

    Attributes:
        sizes: Its shape: numbers, and expressions of symbols as text.
        strides: Elements between neighbours along each axis, as far as they are numbers.
        offset: First element in its storage.
    """

    dtype: ScalarType
    sizes: tuple[int | str, ...]
    strides: tuple[int | str, ...] = ()
    offset: int | str = 0


@dataclass(slots=True)
class Call:
    """A call of an operator.

    Attributes:
        target: Namespace, operator and overload: ``aten.add.Tensor``; without the overload ``default``.
        arguments: Arguments by name: tensors as ``Ref``, graphs as ``CallGraph``.
        outputs: Names of the results, those of a list in its place; empty for a result that is None.
        module: Path of the module of the network that makes the call.
        line: File and line of the network's source that makes the call; empty if not known.
    """

    target: str
    arguments: dict[str, Any]
    outputs: list[str]
    module: str = ""
    line: str = ""

    def refs(self) -> Iterator[Ref]:
        """Iterate over the tensors among the call's arguments."""
        yield from refs(self.arguments.values())


@dataclass(slots=True)
class CallGraph:
    """A graph of calls.

    Attributes:
        outputs: Its outputs: ``Ref``, or constants.
        calls: Its calls, in the order in which they run.
        values: What the program states of its tensors, by name.
        symbols: Numbers that depend on dynamic dimensions, by name: expressions as text, or numbers.
    """

    inputs: list[str]
    outputs: list[Any]
    calls: list[Call] = field(default_factory=list)
    values: dict[str, Meta] = field(default_factory=dict)
    symbols: dict[str, int | str] = field(default_factory=dict)

    def reads(self) -> Iterator[str]:
        """Iterate over the tensors that outputs and calls read, including sub-graphs."""
        yield from refs(self.outputs)
        for call in self.calls:
            yield from call.refs()
            for value in call.arguments.values():
                if isinstance(value, CallGraph):
                    yield from value.reads()


def refs(values: Any) -> Iterator[Ref]:
    """Iterate over the tensors among arguments, also inside lists."""
    for value in values:
        if isinstance(value, Ref):
            yield value
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield from refs(value)


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Return an argument with its tensors renamed."""
    if isinstance(value, Ref):
        return Ref(names.get(value, value))
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    return value
