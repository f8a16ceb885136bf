"""Symbolic dimensions: expressions of symbols as torch.export states them."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

from xdlc.converter.pytorch.calls import Meta
from xdlc.errors import UnsupportedOp

_MOST_TEXT = 1 << 12
_DEEPEST = 200
_MOST = 1 << 62
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *items: sum(items),
    "Mul": lambda *items: math.prod(items),
    "Max": max,
    "Min": min,
    **dict.fromkeys(["Mod", "PythonMod"], operator.mod),
    **dict.fromkeys(["FloorDiv", "CleanDiv"], operator.floordiv),
    "CeilDiv": lambda a, b: -(-a // b),
    **dict.fromkeys(["IntTrueDiv", "FloatTrueDiv", "Rational"], operator.truediv),
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "TruncToInt": math.trunc,
    "ToFloat": float,
    "Integer": int,
    "Abs": abs,
    **dict.fromkeys(["Pow", "PowByNatural"], lambda a, b: _power(a, b)),
    "BitwiseFn_bitwise_and": operator.and_,
    "BitwiseFn_bitwise_or": operator.or_,
    **dict.fromkeys(["Eq", "Equality"], operator.eq),
    **dict.fromkeys(["Ne", "Unequality"], operator.ne),
    "StrictLessThan": operator.lt,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "GreaterThan": operator.ge,
    "And": lambda *items: all(items),
    "Or": lambda *items: any(items),
    "Not": operator.not_,
}
"""Functions of sympy, and of torch.utils._sympy.functions, that expressions call."""
_SIGNS = {"Add": ast.Add, "Mul": ast.Mult, "FloorDiv": ast.FloorDiv, "Mod": ast.Mod, "Pow": ast.Pow}
"""Operators of Python by the function that they are."""


class Unknown(Exception):
    """An expression without a value, because a symbol in it is not bound."""


def evaluate(expression: int | str, symbols: Mapping[str, int]) -> Any:
    """Return the value of an expression.

    Args:
        expression: A number, or text like ``2*s0`` or ``Symbol('s77', positive=True, integer=True)``.

    Raises:
        Unknown: If a symbol is not bound.
        ValueError: If programs have no such expression.
    """
    if not isinstance(expression, str):
        return expression
    try:
        return _value(parsed(expression), symbols)
    except (TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"expression {expression[:80]!r} has no value: {error}") from error


@dataclass(slots=True)
class Bindings:
    """Values of the symbols of a program.

    Attributes:
        values: Values by symbol; those that are missing stay open.
    """

    values: Mapping[str, int] = field(default_factory=dict)

    def number(self, expression: Any) -> Any:
        """Return the value of an expression; None if it is not known."""
        try:
            return evaluate(expression, self.values)
        except Unknown:
            return None

    def shape(self, meta: Meta) -> list[int | None]:
        """Return the shape of a tensor, None for open dimensions.

        Raises:
            ValueError: If a dimension is not a number of elements.
        """
        found = [self.number(size) for size in meta.sizes]
        for size in found:
            if size is not None and (size != int(size) or size < 0):
                raise ValueError(f"{size} is not a dimension")
        return [size if size is None else int(size) for size in found]


def symbol_name(expression: str) -> str | None:
    """Return the name if an expression is a single symbol, else None."""
    return _symbol(parsed(expression))


def shown(expression: int | str) -> int | str:
    """Return an expression in readable form, like ``2*s0``; a number as is."""
    return expression if not isinstance(expression, str) else ast.unparse(_written(parsed(expression)))


def _written(node: ast.expr) -> ast.expr:
    """Return an expression with operators in place of calls."""
    name = _symbol(node)
    if name is not None:
        return ast.Name(name)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
        return node
    function, arguments = node.func.id, [_written(argument) for argument in node.args]
    sign = _SIGNS.get(function)
    if function == "Integer":
        return arguments[0]
    if sign is None:
        return ast.Call(node.func, arguments, [])
    return reduce(lambda left, right: ast.BinOp(left, sign(), right), arguments)


def symbols_of(expression: int | str) -> set[str]:
    """Return the symbols of an expression."""
    if not isinstance(expression, str):
        return set()
    nodes = list(ast.walk(parsed(expression)))
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    return {name for node in nodes if node not in called and (name := _symbol(node)) is not None}


@lru_cache(maxsize=1024)
def parsed(expression: str) -> ast.expr:
    """Return the tree of an expression.

    Raises:
        ValueError: If it is not an expression.
    """
    if len(expression) > _MOST_TEXT:
        raise ValueError(f"an expression has {len(expression)} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{expression[:80]!r} is not an expression") from error
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise ValueError(f"an expression is nested more than {_DEEPEST} levels deep")


_OPAQUE = "OpaqueUnaryFn_"
"""Start of the names of functions of module math in expressions."""


def _symbol(node: ast.AST) -> str | None:
    """Return the name of a symbol: ``s0``, or ``Symbol('s0', ...)``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol":
        if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            return node.args[0].value
        raise ValueError("a symbol has no name")
    return None


def _value(node: ast.expr, symbols: Mapping[str, int]) -> Any:
    name = _symbol(node)
    if name is not None:
        if name not in symbols:
            raise Unknown(name)
        return symbols[name]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, symbols)
    function, arguments = "", []
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Sub):
            return _value(node.left, symbols) - _value(node.right, symbols)
        function = next((name for name, sign in _SIGNS.items() if isinstance(node.op, sign)), "")
        arguments = [node.left, node.right]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function, arguments = node.func.id, node.args
        if function == "Float" and isinstance(arguments[0], ast.Constant):  # Float('0.5', precision=53)
            return float(arguments[0].value)  # type: ignore[arg-type]
    if function.startswith(_OPAQUE):
        name = function.removeprefix(_OPAQUE)
        raise UnsupportedOp(
            f"math.{name} of a tensor's element is not supported", fix=f"compute it with torch.{name}"
        )
    if function not in _FUNCTIONS:
        raise ValueError(f"expressions with {ast.dump(node)[:60]} are not supported")
    result = _FUNCTIONS[function](*(_value(argument, symbols) for argument in arguments))
    if not -_MOST < result < _MOST:
        raise ValueError("an expression is too large")
    return result


def _power(base: Any, exponent: Any) -> Any:
    if not -64 <= exponent <= 64 or abs(base) > 1 << 31:
        raise ValueError("a power is too large")
    return base**exponent
