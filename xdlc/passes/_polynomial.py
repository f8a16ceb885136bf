"""Sums of products of a few tensors with constant factors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, MULTIPLY, NEG, RECIPROCAL, SUBTRACT
from xdlc.passes._match import is_native

Terms: TypeAlias = dict[tuple[int, ...], Array]
"""Constant factor by the atoms of a product, as sorted positions; ``()`` is the constant term."""

_DEPTH, _DEGREE, _COUNT, _CONSTANT = 12, 3, 6, 1 << 20
_REACH = 16


def is_arithmetic(op: Op | None) -> bool:
    """Return whether ``op`` is element-wise arithmetic on floats.

    That is a sum, a difference, a product, a quotient or a negation.
    """
    if op is None or not op.outputs[0].dtype.is_float or op.outputs[0].encoding is not None:
        return False
    return _operation(op) is not None


def _operation(op: Op) -> int | None:
    if op.package != ir.NATIVE_PACKAGE:
        return None
    operation = op.param("operation")
    if op.type == "ElementWiseBinary" and operation in (ADD, DIVIDE, MULTIPLY, SUBTRACT):
        return int(operation)
    return None if not is_native(op, "ElementWiseUnary", NEG) else -1


def is_axis_view(op: Op | None) -> bool:
    """Return whether ``op`` is a Reshape that inserts or drops axes of size 1."""
    if op is None or op.type != "Reshape" or op.package != ir.NATIVE_PACKAGE or op.inputs[0] is None:
        return False
    shapes = [[dim for dim in tensor.shape if dim != 1] for tensor in (op.inputs[0], op.outputs[0])]
    return shapes[0] == shapes[1] and not op.outputs[0].dynamic_axes


def terms(
    tensor: Tensor | None, atoms: Sequence[Tensor], inverted: Tensor | None = None, *, views: bool = False
) -> Terms | None:
    """Return ``tensor`` as a sum of products of atoms, or None.

    Constant factors are float64 and broadcast from the right against the tensor.  An operand broadcasts
    along the last axis alone.

    Args:
        atoms: Tensors that are not looked into.
        inverted: Divisor whose inverse is one more atom, the last.
        views: Whether what has no factors per channel may get and lose axes of size 1.
    """
    return _Reader(atoms, inverted, views).read(tensor, 0)


class _Reader:
    """Reads tensors as polynomials, each once."""

    def __init__(self, atoms: Sequence[Tensor], inverted: Tensor | None, views: bool) -> None:
        self._views = views
        self._inverted, self._last = inverted, (len(atoms),)
        one = numpy.float64(1.0)
        self._known: dict[Tensor, Terms | None] = {atom: {(index,): one} for index, atom in enumerate(atoms)}

    def read(self, tensor: Tensor | None, depth: int) -> Terms | None:
        if tensor is None or depth > _DEPTH:
            return None
        if tensor not in self._known:
            found = self._computed(tensor, depth)
            if found is not None and (len(found) > _COUNT or max(map(len, found), default=0) > _DEGREE):
                found = None
            self._known[tensor] = found
        return self._known[tensor]

    def _computed(self, tensor: Tensor, depth: int) -> Terms | None:
        if tensor.data is not None:
            constant = _constant(tensor)
            return None if constant is None else {(): constant}
        op = tensor.producer
        if op is None:
            return None
        if is_native(op, "ElementWiseUnary", RECIPROCAL):
            return {self._last: numpy.float64(1.0)} if op.inputs[0] is self._inverted else None
        if self._views and is_axis_view(op):
            viewed = self.read(op.inputs[0], depth + 1)
            return None if viewed is None or any(factor.ndim for factor in viewed.values()) else viewed
        if not is_arithmetic(op) or not all(_spreads(given, tensor) for given in op.inputs):
            return None
        operation = _operation(op)
        left = self.read(op.inputs[0], depth + 1)
        if left is None:
            return None
        if operation == -1:
            return _scaled(left, -1.0)
        if operation == DIVIDE and self._inverted is not None and self._is_inverted(op.inputs[1]):
            return {tuple(sorted((*key, *self._last))): factor for key, factor in left.items()}
        right = self.read(op.inputs[1], depth + 1)
        if right is None:
            return None
        if operation == MULTIPLY:
            return _product(left, right)
        if operation == DIVIDE:
            divisor = right.get(()) if len(right) == 1 else None
            return None if divisor is None or not numpy.all(divisor) else _scaled(left, 1.0 / divisor)
        return _sum(left, right if operation == ADD else _scaled(right, -1.0))

    def _is_inverted(self, tensor: Tensor | None) -> bool:
        while self._views and tensor is not None and tensor.producer and is_axis_view(tensor.producer):
            tensor = tensor.producer.inputs[0]
        return tensor is self._inverted


def _spreads(given: Tensor | None, result: Tensor) -> bool:
    """Return whether an operand has a result's shape, or one value per last axis."""
    if given is None or given.is_static or given.shape == result.shape:
        return True
    full = (1,) * (result.rank - given.rank) + given.shape
    return full in (result.shape, (*result.shape[:-1], 1))


def _constant(tensor: Tensor) -> Array | None:
    if not tensor.dtype.is_float or tensor.encoding is not None or tensor.size > _CONSTANT:
        return None
    values = tensor.numpy().astype(numpy.float64)
    if values.size == 1:
        return values.reshape(())
    while values.shape[0] == 1:
        values = values[0]
    return values


def _scaled(given: Terms, factor: Array) -> Terms:
    return {key: value * factor for key, value in given.items()}


def _sum(left: Terms, right: Terms) -> Terms:
    result = dict(left)
    for key, value in right.items():
        result[key] = result[key] + value if key in result else value
    return {key: value for key, value in result.items() if numpy.any(value)}


def _product(left: Terms, right: Terms) -> Terms | None:
    if len(left) * len(right) > 2 * _COUNT:
        return None
    result: Terms = {}
    for one, first in left.items():
        for other, second in right.items():
            key = tuple(sorted((*one, *other)))
            result[key] = result[key] + first * second if key in result else first * second
    return result


def reached(graph: Graph, start: Tensor, *, views: bool = False) -> Iterator[Op]:
    """Iterate over the arithmetic ops reachable from ``start``, the farthest first."""
    ops: dict[Op, None] = {}
    pending = [start]
    while pending:
        for op in islice(graph.consumers(pending.pop(0)), _REACH):
            if op in ops or len(ops) == _REACH:
                continue
            is_inverse = is_native(op, "ElementWiseUnary", RECIPROCAL)
            if is_arithmetic(op) or is_inverse or (views and is_axis_view(op)):
                ops[op] = None
                pending.append(op.outputs[0])
    for op in reversed(ops):
        if graph.is_read(op.outputs[0]):
            yield op


def affine_sources(tensor: Tensor | None) -> Iterator[tuple[Tensor, float, float]]:
    """Iterate over sources x with ``tensor`` = factor * x + constant.

    Each comes with both numbers; the nearest is the first.
    """
    source = tensor
    for _ in range(_DEPTH):
        op = source.producer if source is not None else None
        if source is None or op is None or not is_arithmetic(op):
            return
        if len(op.computed) != 1:
            return
        (source,) = op.computed
        found = terms(tensor, [source])
        if found is None or any(factor.ndim for factor in found.values()) or (0,) not in found:
            return
        yield source, float(found[0,]), float(found.get((), 0.0))


def agrees(sums: Terms | None, factors: Mapping[tuple[int, ...], float]) -> bool:
    """Return whether terms are these numbers, to the precision of float32."""
    return (
        sums is not None
        and sums.keys() == factors.keys()
        and all(
            not sums[key].ndim and math.isclose(sums[key], value, rel_tol=1e-5)
            for key, value in factors.items()
        )
    )
