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
_MOST_SHOWN = 16
ON_LISTS = frozenset(
    """
    append extend insert pop clear reverse copy list len slice __getitem__ _set_item __contains__ add add_ mul
    keys values items get list_with_default eq ne
    """.split()  # noqa: SIM905 - a list literal would be longer
)
"""Operators that work on lists and dictionaries, whatever these hold."""


def apply(name: str, arguments: list[Any]) -> Any:
    """Return what an operator returns that gets no tensor itself; lists may hold tensors.

    Raises:
        KeyError: If it is not known.
        ValueError: If its result is too large.
    """
    made = _OPERATORS[name](*arguments)
    if isinstance(made, int) and not -_MOST_NUMBER < made < _MOST_NUMBER:
        raise ValueError(f"{name} returns a number that is too large")
    if isinstance(made, list | str | tuple) and len(made) > _MOST_ITEMS:
        raise ValueError(f"{name} returns too many items")
    return made


def is_known(name: str) -> bool:
    """Return whether an operator is one of those here."""
    return name in _OPERATORS


def _add(first: Any, second: Any) -> Any:
    return first + second


def _multiplied(first: Any, second: Any) -> Any:
    for items, count in ((first, second), (second, first)):
        if isinstance(items, list | str) and isinstance(count, int) and len(items) * count > _MOST_ITEMS:
            raise ValueError("a list is repeated too often")
    return first * second


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > 64 or abs(base) > 1 << 32:
        return float(base) ** float(exponent)
    return base**exponent


def _append(items: list[Any], item: Any) -> list[Any]:
    if len(items) >= _MOST_ITEMS:
        raise ValueError("a list is too long")
    items.append(item)
    return items


def _extend(items: list[Any], others: list[Any]) -> None:
    if len(items) + len(others) > _MOST_ITEMS:
        raise ValueError("a list is too long")
    items.extend(others)


def _sliced(items: Any, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return items[start:end:step]


def _equal(first: Any, second: Any) -> bool:
    for items in (first, second):
        if isinstance(items, list | tuple | dict) and any(isinstance(each, list | dict) for each in items):
            raise ValueError("lists of lists are compared")
    return bool(first == second)


def _contains(items: Any, item: Any) -> bool:
    return any(item is each if isinstance(each, Tensor) else _equal(item, each) for each in items)


def _set_item(items: Any, key: Any, value: Any) -> Any:
    if isinstance(items, dict) and len(items) >= _MOST_ITEMS:
        raise ValueError("a dictionary is too large")
    items[key] = value
    return items


def _shown(value: Any) -> str:
    """Return a value as a message shows it."""
    if isinstance(value, list) and len(value) <= _MOST_SHOWN:
        value = [each for each in value if isinstance(each, int | float)]
    return str(value)[:200] if isinstance(value, str | int | float | list | None) else type(value).__name__


def _text(*arguments: Any) -> str:
    """Return a format with values in the place of its braces."""
    parts = str(arguments[0]).split("{}")
    values = [_shown(value) for value in arguments[1:]] + [""] * len(parts)
    return "".join(part + value for part, value in zip(parts, [*values[: len(parts) - 1], ""], strict=True))


def _steps(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


def _same(first: Any, second: Any) -> bool:
    return first is second or (isinstance(first, int | float | str) and _equal(first, second))


def _least(*items: Any) -> Any:
    return min(items[0] if len(items) == 1 else items)


def _most(*items: Any) -> Any:
    return max(items[0] if len(items) == 1 else items)


def _quotient(first: Any, second: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode == "floor":
        return math.floor(first / second)
    return math.trunc(first / second) if rounding_mode == "trunc" else first / second


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": _add,
    "add_": _add,
    "sub": operator.sub,
    "mul": _multiplied,
    "div": _quotient,
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv,
    "__round_to_zero_floordiv": lambda first, second: math.trunc(first / second),
    "remainder": operator.mod,
    "fmod": math.fmod,
    "pow": _power,
    "neg": operator.neg,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "isinf": math.isinf,
    "isnan": math.isnan,
    "min": _least,
    "max": _most,
    "sum": sum,
    "any": any,
    "all": all,
    "eq": _equal,
    "ne": lambda first, second: not _equal(first, second),
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": lambda first, second: first << min(second, 64),
    "__rshift__": operator.rshift,
    "__not__": operator.not_,
    "__is__": _same,
    "__isnot__": lambda first, second: not _same(first, second),
    "__contains__": _contains,
    "__getitem__": lambda items, key: items[key],
    "_set_item": _set_item,
    "__range_length": _steps,
    "__derive_index": lambda index, low, step: low + index * step,
    "len": len,
    "append": _append,
    "extend": _extend,
    "insert": lambda items, at, item: items.insert(at, item),
    "pop": lambda items, *at: items.pop(*at),
    "clear": lambda items: items.clear(),
    "reverse": lambda items: items.reverse(),
    "copy": lambda items: items.copy(),
    "list": list,
    "dict": dict,
    "list_with_default": lambda items, _: list(items),
    "slice": _sliced,
    "sorted": sorted,
    "keys": lambda items: list(items),
    "values": lambda items: list(items.values()),
    "items": lambda items: list(items.items()),
    "get": lambda items, key, other=None: items.get(key, other),
    "format": _text,
    "str": _shown,
    "lower": lambda text: text.lower(),
    "upper": lambda text: text.upper(),
    "startswith": lambda text, *rest: text.startswith(*rest),
    "endswith": lambda text, *rest: text.endswith(*rest),
    "split": lambda text, *rest: text.split(*rest),
    "Int": int,
    "Float": float,
    "Bool": bool,
    "ScalarImplicit": lambda value: value,
    "device": lambda *_: "cpu",
    "type": lambda _: "cpu",
    "warn": lambda *_: None,
    "is_grad_enabled": lambda: False,
    "set_grad_enabled": lambda *_: None,
    "is_scripting": lambda: True,
    "is_autocast_enabled": lambda *_: False,
    "get_default_dtype": lambda: 6,
    "manual_seed": lambda *_: None,
    "_assert": lambda *_: None,
}
