"""Operations of functional models: their table, and access to their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xdlc.converter.keras.handling import DTYPES, Operand, as_float, const, handler
from xdlc.converter.nhwc import elementwise
from xdlc.converter.nhwc.shapes import axis_of, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, from_numpy


class Arguments:
    """Arguments of an operation.

    Args:
        names: Names of its parameters in order, separated by blanks.
    """

    def __init__(self, node: Node, g: Operators, names: str) -> None:
        self.node, self.g = node, g
        args = node.attr("args") or []
        if len(args) > len(names.split()):
            raise node.problem(f"is called with {len(args)} arguments")
        self._given = {**dict(zip(names.split(), args, strict=False)), **(node.attr("kwargs") or {})}

    def option(self, name: str, default: Any = None) -> Any:
        """Return an argument, or an option of the operation itself, that is not a tensor.

        Raises:
            UnsupportedOp: If it is a tensor that the model computes.
        """
        own = self.node.attr(name, default)
        given = self._given.get(name, own)
        if any(isinstance(each, Operand) for each in _leaves(given)):
            raise self.node.problem(f"argument {name} is computed")
        return default if given is None else given

    def integers(self, name: str, default: Any = None) -> list[int]:
        """Return an argument that is one integer or several as a list.

        Raises:
            ModelError: If it is something else.
        """
        given = self.option(name, default)
        given = [given] if type(given) is int else given
        if not isinstance(given, list) or not all(type(each) is int for each in given):
            raise self.node.invalid(f"argument {name} is {given!r:.40}")
        return given

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an argument that is one integer.

        Raises:
            ModelError: If it is something else.
        """
        given = self.integers(name, default)
        if len(given) != 1:
            raise self.node.invalid(f"argument {name} is {given!r:.40}")
        return given[0]

    def axes(self, x: Value, default: Any = None) -> list[int]:
        """Return the axes of an operation on a value in order; None is all of them."""
        listed = range(x.rank) if self.option("axis", default) is None else self.integers("axis", default)
        return sorted(axis_of(axis, x.rank) for axis in listed)

    def along_one(self) -> tuple[Value, int]:
        """Return x and an operation's axis; without an axis, x flattened."""
        x = self.value()
        if self.option("axis") is None:
            return self.g("Reshape", [x, vector(self.g, [-1])]), 0
        return x, axis_of(self.integer("axis"), x.rank)

    def has(self, name: str) -> bool:
        """Return whether an argument is present."""
        return self._given.get(name) is not None

    def value(self, name: str = "x", like: Value | None = None) -> Value:
        """Return an argument as a value; a number gets the type of ``like`` if it fits.

        Raises:
            ModelError: If it is missing or no number.
        """
        argument = self._given.get(name)
        if isinstance(argument, Operand):
            return self.node.required(argument.place)
        if any(isinstance(leaf, Operand) for leaf in _leaves(argument)):
            raise self.node.problem(f"argument {name} mixes tensors and numbers")
        try:
            array = np.asarray(argument)
        except ValueError:
            array = np.asarray(None)
        if array.dtype.kind not in "biuf":
            raise self.node.invalid(f"argument {name} is {argument!r:.60}")
        if not isinstance(argument, np.ndarray):
            kind = like.dtype.numpy if like is not None else np.dtype(np.float32)
            fits = array.dtype.kind == "b" or not (array.dtype.kind == "f" and kind.kind != "f")
            array = array.astype(kind if fits else np.float32)
        return self.g.builder.const(array.astype(np.float32) if array.dtype == np.float64 else array)

    def real(self, name: str = "x") -> Value:
        """Return an argument as a value of float32."""
        return as_float(self.g, self.value(name))

    def values(self, name: str) -> list[Value]:
        """Return a list of tensors in one type: float32 if theirs differ."""
        argument = self._given.get(name)
        listed = argument if type(argument) is list else [argument]
        like = next((self.node.required(item.place) for item in listed if isinstance(item, Operand)), None)
        kind = like.dtype.numpy if like is not None else np.float32
        operands = [
            self.node.required(item.place)
            if isinstance(item, Operand)
            else self.g.builder.const(np.asarray(item, kind))
            for item in listed
        ]
        if any(value.dtype is not operands[0].dtype for value in operands):
            return [as_float(self.g, value) for value in operands]
        return operands

    def pair(self) -> tuple[Value, Value]:
        """Return x1 and x2 in one type: float32 if they differ or one is a fraction."""
        leading = isinstance(self._given.get("x1"), Operand)
        one = self.value("x1" if leading else "x2")
        other = self.value("x2" if leading else "x1", one)
        x, y = (one, other) if leading else (other, one)
        if x.dtype is y.dtype:
            return x, y
        if not x.dtype.is_float and not y.dtype.is_float:
            wide = from_numpy(np.promote_types(x.dtype.numpy, y.dtype.numpy))
            return self.g.builder.cast(x, wide), self.g.builder.cast(y, wide)
        return as_float(self.g, x), as_float(self.g, y)


def _leaves(argument: Any) -> list[Any]:
    if type(argument) is list:
        return [leaf for item in argument for leaf in _leaves(item)]
    if isinstance(argument, slice):
        return [argument.start, argument.stop, argument.step]
    return [argument]


def truth(g: Operators, x: Value) -> Value:
    """Return a value as bools: numbers other than 0 are true."""
    return x if x.dtype is BOOL8 else elementwise.not_equal(g, x, const(g, 0, x))


def converted(node: Node, g: Operators, x: Value, name: Any) -> Value:
    """Return a value of the type of a name; all floats are float32.

    Raises:
        UnsupportedOp: If there is no such type.
    """
    dtype = DTYPES.get(str(name))
    if dtype is None:
        raise node.problem(f"type {name!r:.30}")
    return truth(g, x) if dtype is BOOL8 else elementwise.converted(g, x, dtype)


Results = Value | list[Value]
Table = Mapping[str, tuple[str, Callable[[Arguments], Results]]]
_UNUSED = ("sparse", "ragged", "args", "kwargs", "sorted", "num", "fill_mode", "fill_value")


PARAMETERS: dict[str, str] = {}
"""Names of the parameters of each operation in order."""


def operations(table: Table) -> None:
    """Register operations: the names of the parameters of each, and its function."""
    PARAMETERS.update((type, names) for type, (names, _) in table.items())

    @handler(*table, domain="ops", ignores=_UNUSED)
    def operation(node: Node, g: Operators) -> Results:
        names, function = table[node.type]
        given = Arguments(node, g, names)
        made, name = function(given), given.option("dtype")
        return made if name is None or isinstance(made, list) else converted(node, g, made, name)
