"""Patterns of a few ops, and their replacement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from xdlc import ir
from xdlc.ir import Graph, Op, Origin, Param, Tensor
from xdlc.opdefs.elementwise_enums import ADD, MAXIMUM, MINIMUM, MULTIPLY, POWER, SQUARED_DIFFERENCE
from xdlc.records import record

Pattern: TypeAlias = "str | float | Made | tuple[Pattern, ...]"
"""A tensor of a name, which is one tensor everywhere; a constant; a result of an op; alternatives."""
Names: TypeAlias = Mapping[str, Tensor]

_COMMUTATIVE = (ADD, MAXIMUM, MINIMUM, MULTIPLY, SQUARED_DIFFERENCE)

NORM_RANKS = (2, 3, 4)
"""Ranks of which HTP's validator accepts normalizations (SDK 2.51, SM8650)."""


@record(frozen=True)
class Made:
    """The first result of a native op of QNN.

    Attributes:
        type: Type of the op.
        inputs: Patterns of its first inputs.
        operation: Number of its element-wise operation.
        name: Name of the tensor; empty: none.
        alone: Whether a single op reads the tensor, which is no graph output.
        where: Further condition on the op.
    """

    type: str
    inputs: tuple[Pattern, ...]
    operation: int | None = None
    name: str = ""
    alone: bool = False
    where: Callable[[Op], bool] | None = None

    def fits(self, graph: Graph, op: Op, tensor: Tensor) -> bool:
        """Return whether an op that computes a tensor meets all but ``inputs``."""
        return (
            is_type(op, self.type)
            and (self.operation is None or op.param("operation") == self.operation)
            and tensor is op.outputs[0]
            and (not self.alone or graph.sole_consumer(tensor) is not None)
            and (self.where is None or self.where(op))
        )


def made(type: str, *inputs: Pattern, name: str = "", where: Callable[[Op], bool] | None = None) -> Made:
    """Return the pattern of a result of an op."""
    return Made(type, inputs, name=name, where=where)


def alone(type: str, *inputs: Pattern, name: str = "") -> Made:
    """Return the pattern of a result of an op that a single op reads."""
    return Made(type, inputs, name=name, alone=True)


def binary(operation: int, x: Pattern, y: Pattern, *, name: str = "") -> Made:
    """Return the pattern of an ElementWiseBinary.

    The operands of a commutative operation may change places.
    """
    return Made("ElementWiseBinary", (x, y), operation, name)


def unary(operation: int, x: Pattern, *, name: str = "") -> Made:
    """Return the pattern of an ElementWiseUnary."""
    return Made("ElementWiseUnary", (x,), operation, name)


def neuron(operation: int, x: Pattern, *, name: str = "") -> Made:
    """Return the pattern of an ElementWiseNeuron."""
    return Made("ElementWiseNeuron", (x,), operation, name)


def square(x: str | Made) -> Pattern:
    """Return the pattern of x * x or x to the power of 2; a result ``x`` has a name."""
    return binary(MULTIPLY, x, x if isinstance(x, str) else x.name), binary(POWER, x, 2.0)


def matches(
    graph: Graph, pattern: Pattern, tensor: Tensor | None, names: Names | None = None
) -> Iterator[Names]:
    """Iterate over the ways in which a tensor has a form, as tensors by name.

    Args:
        names: Tensors that are named already.
    """
    names = names or {}
    if tensor is None:
        return
    if isinstance(pattern, str):
        if names.get(pattern, tensor) is tensor:
            yield {**names, pattern: tensor}
    elif isinstance(pattern, float):
        if is_constant(tensor, pattern):
            yield names
    elif isinstance(pattern, tuple):
        for alternative in pattern:
            yield from matches(graph, alternative, tensor, names)
    elif (op := tensor.producer) is not None and pattern.fits(graph, op, tensor):
        names = {**names, pattern.name: tensor} if pattern.name else names
        swaps = pattern.type == "ElementWiseBinary" and pattern.operation in _COMMUTATIVE
        for inputs in (op.inputs, op.inputs[::-1]) if swaps else (op.inputs,):
            yield from _matches(graph, pattern.inputs, inputs, names)


def _matches(
    graph: Graph, patterns: Sequence[Pattern], tensors: Sequence[Tensor | None], names: Names
) -> Iterator[Names]:
    if not patterns:
        yield names
    elif tensors:
        for named in matches(graph, patterns[0], tensors[0], names):
            yield from _matches(graph, patterns[1:], tensors[1:], named)


def match(graph: Graph, pattern: Pattern, tensor: Tensor | None, **names: Tensor) -> Names | None:
    """Return the first of ``matches``, or None."""
    return next(matches(graph, pattern, tensor, names), None)


def is_type(op: Op | None, *types: str) -> bool:
    """Return whether ``op`` is a native QNN op of one of these types."""
    return op is not None and op.package == ir.NATIVE_PACKAGE and op.type in types


def is_native(op: Op | None, type: str, operation: int) -> bool:
    """Return whether ``op`` is an element-wise op of QNN with that operation number."""
    return op is not None and is_type(op, type) and op.param("operation") == operation


def is_reinterpret(op: Op | None) -> bool:
    """Return whether ``op`` only reinterprets quantized values."""
    return op is not None and op.package == ir.HOST_PACKAGE and op.type == "Reinterpret"


def is_binary(op: Op | None, operation: int) -> bool:
    """Return whether ``op`` is an ElementWiseBinary with that operation number."""
    return is_native(op, "ElementWiseBinary", operation)


def is_constant(tensor: Tensor | None, value: float) -> bool:
    """Return whether ``tensor`` is a constant with this value."""
    number = constant_number(tensor)
    return number is not None and math.isclose(number, value, rel_tol=1e-5)


def constant_number(tensor: Tensor | None) -> float | None:
    """Return the single number of a static float tensor, or None."""
    if tensor is None or tensor.data is None or tensor.size != 1 or not tensor.dtype.is_float:
        return None
    return float(tensor.numpy().reshape(())) if tensor.encoding is None else None


def by_rows(op: Op) -> bool:
    """Return whether a reduction is one of the last axis that keeps the axis."""
    axes = [int(axis) for axis in op.param("axes").reshape(-1)]
    return bool(op.param("keep_dims", False)) and axes == [op.outputs[0].rank - 1]


def replace_by(
    graph: Graph,
    last: Op,
    type: str,
    inputs: Sequence[Tensor],
    params: Mapping[str, Param],
    *,
    name: str,
) -> None:
    """Put an op with the output of ``last`` in its place."""
    fused = ir.make_op(graph, type, inputs, [last.outputs[0]], params, name=name, origin=last.origin)
    held = last.inputs
    graph.replace_op(last, fused)
    fused.origin = _with_unread(graph, fused.origin, held)


def turn_into(
    graph: Graph,
    op: Op,
    type: str,
    inputs: Sequence[Tensor | None] | None = None,
    params: Mapping[str, Param] | None = None,
) -> None:
    """Replace an op by a native one with its name, origin and outputs."""
    inputs = op.inputs if inputs is None else inputs
    graph.replace_op(op, Op(type, inputs, op.outputs, params, name=op.name, origin=op.origin))


def replace_by_neuron(graph: Graph, last: Op, source: Tensor, operation: int, name: str) -> None:
    """Put an ElementWiseNeuron of ``source`` in the place of ``last``."""
    replace_by(graph, last, "ElementWiseNeuron", [source], {"operation": ir.u32(operation)}, name=name)


def _with_unread(graph: Graph, origin: Origin, tensors: Sequence[Tensor | None]) -> Origin:
    """Return ``origin`` merged with the origins of ops that become unused."""
    dead: set[Op] = set()
    pending = list(tensors)
    while pending:
        tensor = pending.pop()
        op = tensor.producer if tensor is not None else None
        if op is None or op in dead or not all(_is_unread(graph, held, dead) for held in op.outputs):
            continue
        dead.add(op)
        pending += op.inputs
        origin = op.origin.merged(origin)
    return origin


def _is_unread(graph: Graph, tensor: Tensor, dead: set[Op]) -> bool:
    return not graph.is_output(tensor) and dead.issuperset(graph.consumers(tensor))
