"""Formulas of values in Python's notation, and PyTorch's promotion of data types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from xdlc import ir
from xdlc.converter.functions.terms import Number, Term, constant
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, FLOAT32, INT64

F = TypeVar("F", bound=Callable[..., Any])


def term(node: AtenNode, g: Operators, value: Number, *, wide: bool = False) -> Term:
    """Return a tensor or number as a term in the data type of the node's result.

    A wide one is float32 in the place of floats of 16 bits, which lack range or precision for a formula.
    """
    given = Term(g, value if isinstance(value, Value) else constant(g, value, node.dtype)).to(node.dtype)
    return given.to(FLOAT32) if wide and node.dtype.is_float else given


def formula(
    *types: str, layout: str = ANY, wide: bool = False, ignores: Sequence[str] = (), takes: Sequence[str] = ()
) -> Callable[[F], F]:
    """Register a function of terms as the handler of operators.

    Tensors become terms in the data type of the node's result, unless the function takes values, and so do
    numbers where it takes terms, and operands; wide ones are float32 in the place of floats of 16 bits.  A
    function may take the node, too, and have other names for the arguments that it ``takes``.
    """

    def register(function: F) -> F:
        own = inspect.signature(function).parameters
        taken = [slot.replace(name=name) for name, slot in zip(takes or own, own.values(), strict=True)]
        others = [slot for slot in taken if slot.name != "node"]
        forms = {slot.name: str(slot.annotation) for slot in others}

        def handle(node: AtenNode, g: Operators, **arguments: Any) -> list[Value]:
            for name, value in arguments.items():
                is_term = isinstance(value, Value) and "Value" not in forms[name]
                if is_term or (value is not None and ("Term" in forms[name] or name in ("self", "other"))):
                    arguments[name] = term(node, g, value, wide=wide)
            if len(others) < len(taken):
                arguments["node"] = node
            result = function(*(arguments[name] for name in takes)) if takes else function(**arguments)
            results = [result] if isinstance(result, Term) else result
            return [slot.value for slot in results][: len(node.outputs)]

        handle.__module__ = function.__module__
        first = list(inspect.signature(handle).parameters.values())[:2]
        setattr(handle, "__signature__", inspect.Signature([*first, *others]))  # noqa: B010
        aten(*types, layout=layout, ignores=("dtype", *ignores))(handle)
        return function

    return register


def formulas(table: Mapping[str, Callable[..., Term]], *takes: str, wide: bool = False) -> None:
    """Register functions like ``formula``; each key lists its operators."""
    for names, function in table.items():
        formula(*names.split(), wide=wide, takes=takes)(function)


def operator(node: AtenNode) -> str:
    """Return the name of a node's operator without its overload."""
    return node.type.partition(".")[0]


def promoted(operands: Sequence[Number]) -> DType:
    """Return the data type in which PyTorch combines operands.

    Tensors with axes decide; those of rank 0, and then Python's numbers, count only where they are of a
    higher kind: floats above integers above bools (PyTorch, "Type promotion" of its tensor attributes).
    """
    tensors = [x for x in operands if isinstance(x, Value)]
    numbers = [x for x in operands if not isinstance(x, Value)]
    dtypes: list[DType] = []
    for group in (
        [x.dtype for x in tensors if x.rank],
        [x.dtype for x in tensors if not x.rank],
        [BOOL8 if isinstance(x, bool) else INT64 if isinstance(x, int) else FLOAT32 for x in numbers],
    ):
        top = max(map(_level, group), default=-1)
        if top > max(map(_level, dtypes), default=-1):
            dtypes = [dtype for dtype in group if _level(dtype) == top]
    return ir.dtype.from_numpy(np.result_type(*(dtype.numpy for dtype in dtypes)))


def _level(dtype: DType) -> int:
    return 2 if dtype.is_float else 1 if dtype.is_integer else 0


def together(g: Operators, *operands: Number) -> tuple[Term, ...]:
    """Return operands as terms of the data type in which PyTorch combines them."""
    dtype = promoted(operands)
    return tuple(
        Term(g, one if isinstance(one, Value) else constant(g, one, dtype)).to(dtype) for one in operands
    )
