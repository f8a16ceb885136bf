"""Operators of TorchScript on numbers, texts, lists and dictionaries.

They are those of torch/csrc/jit/runtime/register_prim_ops.cpp.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from xdlc.converter.pytorch.script.values import Tensor

_MOST_ITEMS = 1 << 16
_MOST_NUMBER = 1 << 64
CHANGES = frozenset(["add_", "append", "extend", "insert", "pop", "clear", "reverse", "_set_item"])
"""Operators that change a list or dictionary."""
ON_LISTS = CHANGES | frozenset(
    """
    copy list len slice __getitem__ __contains__ add mul keys values items get list_with_default eq ne
    """.split()  # noqa: SIM905 - a list literal would be longer
)
"""Operators that work on lists and dictionaries, whatever these hold."""


def apply(name: str, arguments: list[Any]) -> Any:
    """Return the result of an operator on numbers, strings or lists."""
    result = _OPERATORS[name](*arguments)
    if isinstance(result, int) and not -_MOST_NUMBER < result < _MOST_NUMBER:
        raise ValueError(f"{name} returns a number that is too large")
    for items in (result, *arguments[:1]):
        if isinstance(items, list | str | tuple | dict) and len(items) > _MOST_ITEMS:
            raise ValueError(f"{name} makes too many items")
    return result


def is_known(name: str) -> bool:
    """Return whether this module evaluates an operator."""
    return name in _OPERATORS


def _multiplied(first: Any, second: Any) -> Any:
    for items, count in ((first, second), (second, first)):
        is_repeated = isinstance(items, list | str | tuple) and isinstance(count, int)
        if is_repeated and len(items) * count > _MOST_ITEMS:
            raise ValueError("a list is repeated too many times")
    return first * second


def _power(base: Any, exponent: Any) -> Any:
    is_small = abs(exponent) <= 64 and abs(base) <= 1 << 32
    return base**exponent if is_small else float(base) ** float(exponent)


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _equal(first: Any, second: Any) -> bool:
    for items in (first, second):
        held = items.values() if isinstance(items, dict) else items if isinstance(items, list | tuple) else ()
        if any(isinstance(each, list | tuple | dict) for each in held):
            raise ValueError("lists of lists are compared")
    return bool(first == second)


def _contains(items: Any, item: Any) -> bool:
    return any(item is each if isinstance(each, Tensor) else _equal(item, each) for each in items)


def _formatted(text: str, *values: Any) -> str:
    for value in values:
        shown = str(value)[:200] if isinstance(value, str | int | float | None) else type(value).__name__
        text = text.replace("{}", shown, 1)
    return text


def _same(first: Any, second: Any) -> bool:
    return first is second or (isinstance(first, int | float | str) and _equal(first, second))


def _quotient(first: Any, second: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is None:
        return first / second
    return math.floor(first / second) if rounding_mode == "floor" else math.trunc(first / second)


_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("sub", "floordiv", "neg", "lt", "le", "gt", "ge")},
    **{name: getattr(operator, name) for name in ("__and__", "__or__", "__xor__", "__not__")},
    **{name: getattr(math, name) for name in ("floor", "ceil", "trunc", "sqrt", "exp", "log", "isinf")},
    **dict.fromkeys(("warn", "set_grad_enabled", "manual_seed", "_assert"), lambda *_: None),
    **dict.fromkeys(("is_grad_enabled", "is_autocast_enabled"), lambda *_: False),
    **dict.fromkeys(("device", "type"), lambda *_: "cpu"),
    **dict.fromkeys(("keys", "list_with_default"), lambda items, *_: list(items)),
    "copy": lambda items: items.copy(),
    **{each.__name__: each for each in (abs, round, sum, any, all, len, list, dict, sorted)},
    **{name: getattr(list, name) for name in ("extend", "insert", "clear", "reverse")},
    **{each.__name__.capitalize(): each for each in (int, float, bool)},
    "ScalarImplicit": lambda value: value,
    **dict.fromkeys(("str", "format"), _formatted),
    "add": operator.add,
    "add_": operator.iadd,
    "mul": _multiplied,
    "div": _quotient,
    "floor_divide": operator.floordiv,
    "__round_to_zero_floordiv": lambda first, second: math.trunc(first / second),
    "remainder": operator.mod,
    "pow": _power,
    "min": lambda *items: min(items[0] if len(items) == 1 else items),
    "max": lambda *items: max(items[0] if len(items) == 1 else items),
    "eq": _equal,
    "ne": lambda first, second: not _equal(first, second),
    "__is__": _same,
    "__isnot__": lambda first, second: not _same(first, second),
    "__contains__": _contains,
    "__getitem__": operator.getitem,
    "_set_item": operator.setitem,
    "__range_length": lambda low, high, step: len(range(low, high, step)),
    "__derive_index": lambda index, low, step: low + index * step,
    "append": _append,
    "pop": lambda items, *at: items.pop(*at),
    "slice": lambda items, start=None, end=None, step=1: items[start:end:step],
    "values": lambda items: list(items.values()),
    "items": lambda items: list(items.items()),
    "get": lambda items, key, other=None: items.get(key, other),
    "is_scripting": lambda: True,
    "get_default_dtype": lambda: 6,
}
