"""Arguments of operations: by name, as the signature of the operation orders them, or as options."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdlc.converter.keras.handling import Operand, as_float
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import from_numpy

_MISSING = object()


class Arguments:
    """Arguments of an operation.

    Args:
        node: The node.
        names: Names of its parameters in order, separated by blanks.
    """

    def __init__(self, node: Node, names: str = "x") -> None:
        self._node = node
        args = node.attr("args") or []
        self._given = {**dict(zip(names.split(), args, strict=False)), **(node.attr("kwargs") or {})}
        if len(args) > len(names.split()):
            raise node.problem(f"is called with {len(args)} arguments")

    def option(self, name: str, default: Any = None) -> Any:
        """Return an argument, or an option of the operation itself, that is no tensor.

        Raises:
            UnsupportedOp: If it is a tensor that the model computes.
        """
        given = self._given.get(name, _MISSING)
        own = self._node.attr(name, default)
        given = own if given is _MISSING else given
        if any(isinstance(each, Operand) for each in _leaves(given)):
            raise self._node.problem(f"argument {name} is computed")
        return default if given is None else given

    def has(self, name: str) -> bool:
        """Return whether an argument is given."""
        return self._given.get(name) is not None

    def value(self, g: Operators, name: str, like: Value | None = None) -> Value:
        """Return an argument as a value; a number gets the type of ``like``, unless it is a fraction.

        Raises:
            ModelError: If it is missing or no number.
        """
        given = self._given.get(name)
        if isinstance(given, Operand):
            return self._node.required(given.place)
        if given is None or isinstance(given, str | dict):
            raise self._node.invalid(f"argument {name} is {given!r:.60}")
        if any(isinstance(each, Operand) for each in _leaves(given)):
            raise self._node.problem(f"argument {name} mixes tensors and numbers")
        array = np.asarray(given)
        if array.dtype.kind not in "biuf":
            raise self._node.invalid(f"argument {name} is no number")
        if not isinstance(given, np.ndarray):
            kind = like.dtype.numpy if like is not None else np.dtype(np.float32)
            fits = array.dtype.kind == "b" or not (array.dtype.kind == "f" and kind.kind != "f")
            array = array.astype(kind if fits else np.float32)
        return g.builder.const(array.astype(np.float32) if array.dtype == np.float64 else array)

    def values(self, g: Operators, name: str) -> list[Value]:
        """Return an argument that is a list of tensors."""
        given = self._given.get(name)
        listed = given if type(given) is list else [given]
        like = next((self._node.required(each.place) for each in listed if isinstance(each, Operand)), None)
        return [
            self._node.required(each.place)
            if isinstance(each, Operand)
            else g.builder.const(np.asarray(each, like.dtype.numpy if like is not None else np.float32))
            for each in listed
        ]

    def pair(self, g: Operators, first: str = "x1", second: str = "x2") -> tuple[Value, Value]:
        """Return two arguments of one type: float32 if they differ or one is a fraction."""
        leading = isinstance(self._given.get(first), Operand)
        one = self.value(g, first if leading else second)
        other = self.value(g, second if leading else first, one)
        x, y = (one, other) if leading else (other, one)
        if x.dtype is y.dtype:
            return x, y
        if not x.dtype.is_float and not y.dtype.is_float:
            wide = np.promote_types(x.dtype.numpy, y.dtype.numpy)
            return g.builder.cast(x, from_numpy(wide)), g.builder.cast(y, from_numpy(wide))
        return as_float(g, x), as_float(g, y)


def _leaves(given: Any) -> list[Any]:
    if type(given) is list:
        return [leaf for each in given for leaf in _leaves(each)]
    if isinstance(given, slice):
        return [given.start, given.stop, given.step]
    return [given]
