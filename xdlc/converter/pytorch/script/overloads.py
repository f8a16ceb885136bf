"""Resolution of ATen overloads, which TorchScript code does not name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.converter.pytorch.calls import REQUIRED, Argument, ScalarType, overloads, schema
from xdlc.converter.pytorch.script.branches import export_anew
from xdlc.converter.pytorch.script.values import Tensor, tensors
from xdlc.errors import UnsupportedOp

_INEXACT, _LEAST, _UNFIT = 1, 2, 1 << 20
_LATE = {"split": 1, "index.Tensor_hacked_twin": 1, "index_put.hacked_twin": 1, "index_put_.hacked_twin": 1}
"""Overloads of TorchScript's own for which ATen has another."""
_KINDS = {"T": Tensor, "I": int, "F": float, "B": bool, "S": int | float, "D": ScalarType, "Str": str}


def chosen(name: str, positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the best overload, and its arguments by name with defaults."""
    best, least = None, _UNFIT
    for overload in overloads(name):
        arguments = schema(overload) or ()
        bound = _bound(arguments, positional, named)
        if bound is None:
            continue
        cost = _LATE.get(overload, 0) + sum(_cost(slot.kind, bound[slot.name]) for slot in arguments)
        if cost < least:
            best, least = (
                (overload, {slot.name: _taken(slot, bound[slot.name]) for slot in arguments}),
                cost,
            )
    if best is None:
        values = [*positional, *named.values()]
        if any(tensor.number for tensor in tensors(values)) and overloads(name):
            raise UnsupportedOp(f"an argument of {name} is a number that depends on data", fix=export_anew())
        kinds = ", ".join(type(value).__name__ for value in values)
        raise UnsupportedOp(f"operator {name} does not support arguments ({kinds})", fix=export_anew())
    return best


def _bound(
    arguments: Sequence[Argument], positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return arguments by name; None if they do not fit a schema."""
    names = [slot.name for slot in arguments]
    if len(positional) > len(names) or not set(names[len(positional) :]).issuperset(named):
        return None
    defaults = {slot.name: slot.default for slot in arguments if slot.default is not REQUIRED}
    bound = defaults | dict(zip(names, positional, strict=False)) | dict(named)
    return bound if len(bound) == len(names) else None


def _cost(kind: str, value: Any) -> int:
    """Return how badly a value fits a kind of arguments; 0 is exact."""
    if value is None:
        return 0 if kind.endswith("?") or kind.startswith("X") else _UNFIT
    kind = kind.removesuffix("?")
    if kind.endswith("[]"):
        if not isinstance(value, list | tuple):
            return _INEXACT if kind == "I[]" and type(value) is int else _UNFIT
        return max((_cost(kind[:-2], item) for item in value), default=0)
    if kind == "X":
        return _LEAST
    if type(value) is int if kind == "I" else isinstance(value, _KINDS[kind]):
        return 0
    return _INEXACT if kind in ("D", "F") and type(value) is int else _UNFIT


def _taken(argument: Argument, value: Any) -> Any:
    """Return an argument converted to the type of its schema."""
    kind = argument.kind.removesuffix("?")
    if kind == "D" and isinstance(value, int):
        return ScalarType(value)
    if kind == "X":
        return None
    if kind == "I[]" and isinstance(value, int):
        return [value]
    return float(value) if kind == "F" and isinstance(value, int) else value
