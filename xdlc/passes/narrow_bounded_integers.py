"""Narrowing of 64-bit integers that are known to fit 32 bits, on any runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import INT32, INT64
from xdlc.opdefs.elementwise_enums import (
    ADD,
    EQUAL,
    FLOOR_DIV,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MAXIMUM,
    MINIMUM,
    MOD,
    MULTIPLY,
    NOT_EQUAL,
    SUBTRACT,
)
from xdlc.opdefs.traits import traits, value_sources
from xdlc.passes._match import is_type
from xdlc.passes.base import graph_pass
from xdlc.passes.narrow_integers import cast_between

Range = tuple[int, int]
_COMPARISONS = frozenset((EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NOT_EQUAL))
_WIDEST = 4096
"""Digits of a bound, in bits, beyond which a value counts as unbounded."""


def _corners(combine: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """Return the range of a function that is monotone in each operand."""

    def found(a: Range, b: Range) -> Range:
        ends = [combine(x, y) for x in a for y in b]
        return min(ends), max(ends)

    return found


_ARITHMETIC: dict[int, Callable[[Range, Range], Range]] = {
    ADD: _corners(lambda x, y: x + y),
    SUBTRACT: _corners(lambda x, y: x - y),
    MULTIPLY: _corners(lambda x, y: x * y),
    MAXIMUM: _corners(max),
    MINIMUM: _corners(min),
}
_BY_POSITIVE: dict[int, Callable[[Range, Range], Range]] = {
    FLOOR_DIV: _corners(lambda x, y: x // y),
    MOD: lambda a, b: (0, b[1] - 1),
}
"""Operations whose range is known for divisors above zero."""


@graph_pass(stage="converter", after=("merge_casts",), needs=(INT64,))
def narrow_bounded_integers(graph: Graph) -> bool:
    """Turn int64 into int32 where every value is known to fit.

    A Cast of int64 to int32 moves before the operations that only move its elements, such as those
    that shape indices.  Inputs and outputs of graphs keep their types.
    """
    raised = [_raise_cast(graph, op) for op in list(graph.ops)]
    narrow = _narrowable(graph)
    if narrow:
        _narrow(graph, narrow)
    return bool(narrow) or any(raised)


def _raise_cast(graph: Graph, op: Op) -> bool:
    """Cast int64 to int32 before an op that moves elements, instead of after it."""
    if not _is_cast(op) or op.outputs[0].dtype is not INT32 or graph.is_output(op.outputs[0]):
        return False
    moved, result = op.inputs[0], op.outputs[0]
    mover = moved.producer if moved is not None else None
    if moved is None or moved.dtype is not INT64 or mover is None or graph.sole_consumer(moved) is not op:
        return False
    source = mover.inputs[0] if mover.inputs else None
    if source is None or source.is_static or value_sources(mover) != (0,) or not traits(mover).copies:
        return False
    if not source.rank:  # a scalar, which no Cast takes
        return False
    if traits(mover).fills or mover.package != ir.NATIVE_PACKAGE or len(mover.outputs) != 1:
        return False
    inner = Tensor(graph.unique_name(f"{op.name}_out"), source.shape, INT32, dynamic_axes=source.dynamic_axes)
    graph.insert_before(
        mover,
        ir.make_op(graph, "Cast", [source], [inner], name=graph.unique_name(op.name), origin=op.origin),
    )
    graph.replace(source, inner, [mover])
    moved.dtype = INT32
    graph.replace(result, moved)
    graph.remove(op)
    return True


def _is_cast(op: Op) -> bool:
    return is_type(op, "Cast") and bool(op.inputs)


def _of_one_type(op: Op) -> tuple[bool, list[Tensor]]:
    """Return whether an op works on int32 as on int64, and the tensors concerned."""
    values: Iterable[Tensor | None]
    if op.package != ir.NATIVE_PACKAGE:
        return False, [*filter(None, op.inputs), *op.outputs]
    if _is_cast(op):
        return True, []
    if op.type == "ElementWiseBinary":
        operation = op.param("operation")
        if operation in _COMPARISONS:
            return True, [*filter(None, op.inputs)]
        known = operation in _ARITHMETIC or operation in _BY_POSITIVE
        return known, [*filter(None, op.inputs), *op.outputs]
    sources = value_sources(op)
    if sources and not traits(op).fills and op.type != "TopK":
        values = [op.inputs[index] for index in sources]
        others = [tensor for index, tensor in enumerate(op.inputs) if index not in sources and tensor]
        return all(tensor.dtype is not INT64 for tensor in others), [*filter(None, values), *op.outputs]
    return False, [*filter(None, op.inputs), *op.outputs]


def _narrowable(graph: Graph) -> set[Tensor]:
    """Return computed int64 tensors that may be int32, for each op all or none."""
    ranges = _ranges(graph)

    def fits(tensor: Tensor) -> bool:
        low, high = ranges.get(tensor) or (-math.inf, math.inf)
        least, most = INT32.limits
        return least <= low and high <= most

    candidates = {
        tensor
        for op in graph.ops
        for tensor in op.outputs
        if tensor.dtype is INT64 and tensor.encoding is None and fits(tensor)
        if tensor.rank or not graph.is_output(tensor)  # no Cast works on a scalar output
    }
    groups = [
        (works, [t for t in group if t.dtype is INT64]) for works, group in map(_of_one_type, graph.ops)
    ]
    changed = True
    while changed:
        before = len(candidates)
        for works, group in groups:
            if not works or not all(t in candidates or (t.is_static and fits(t)) for t in group):
                candidates.difference_update(group)
        changed = len(candidates) != before
    results = {
        tensor
        for works, group in groups
        if works and any(tensor in candidates and not graph.is_output(tensor) for tensor in group)
        for tensor in group
    }
    return {tensor for tensor in candidates if not graph.is_output(tensor) or tensor in results}


def _ranges(graph: Graph) -> dict[Tensor, Range]:
    """Return the ranges of integers and bools, as far as they are known."""
    ranges: dict[Tensor, Range] = {}

    def of(tensor: Tensor | None) -> Range | None:
        if tensor is None or not (tensor.dtype.is_integer or tensor.dtype.kind == "bool"):
            return None
        if tensor not in ranges:
            limits = _own_range(tensor)
            if limits is None:
                return None
            ranges[tensor] = limits
        return ranges[tensor]

    for op in graph.ops:
        computed = _result_range(op, of)
        if computed is not None and max(abs(end).bit_length() for end in computed) <= _WIDEST:
            for result in op.outputs:
                if result.dtype in (INT32, INT64):
                    own = _own_range(result)  # what does not fit it may wrap around to any of its values
                    ranges[result] = (
                        computed if own is None or (own[0] <= computed[0] and computed[1] <= own[1]) else own
                    )
    return ranges


def _own_range(tensor: Tensor) -> Range | None:
    """Return the range of static data, or of a type of up to 32 bits."""
    if tensor.data is not None and tensor.dtype is INT64:
        if not tensor.size:
            return None
        values = tensor.data.numpy()
        ends = int(values.min()), int(values.max())
        tensor.data.release()
        return ends
    if tensor.dtype.kind == "bool":
        return 0, 1
    return tensor.dtype.limits if tensor.dtype.bits <= INT32.bits else None


def _result_range(op: Op, of: Callable[[Tensor | None], Range | None]) -> Range | None:
    """Return the range of the results of an op, from the ranges of its operands."""
    if op.package != ir.NATIVE_PACKAGE:
        return None
    if op.type in ("Argmax", "Argmin") and op.inputs[0] is not None:
        source, axis = op.inputs[0], int(op.param("axis"))
        return None if axis in source.dynamic_axes else (0, max(source.shape[axis] - 1, 0))
    if _is_cast(op):
        return of(op.inputs[0])
    if op.type == "ElementWiseBinary":
        a, b = of(op.inputs[0]), of(op.inputs[1])
        operation = op.param("operation")
        if a is None or b is None:
            return None
        if operation in _ARITHMETIC:
            return _ARITHMETIC[operation](a, b)
        return _BY_POSITIVE[operation](a, b) if operation in _BY_POSITIVE and b[0] > 0 else None
    if not _of_one_type(op)[0]:
        return None
    ends = [of(op.inputs[index]) for index in value_sources(op)]
    known = [end for end in ends if end is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if len(known) == len(ends) else None


def _narrow(graph: Graph, tensors: set[Tensor]) -> None:
    """Make tensors int32, with the constants that they are combined with."""
    for op in list(graph.ops):
        _, group = _of_one_type(op)
        if not any(tensor in tensors for tensor in group):
            continue
        statics = {t: _as_int32(graph, t) for t in group if t.is_static and t.dtype is INT64}
        graph.set_inputs(op, [statics.get(t, t) if t is not None else None for t in op.inputs])
    for op in list(graph.ops):
        for index, tensor in enumerate(op.outputs):
            if tensor in tensors and graph.is_output(tensor):
                name, open_axes = graph.unique_name(f"{op.name}_out"), tensor.dynamic_axes
                inner = Tensor(name, tensor.shape, INT32, dynamic_axes=open_axes)
                graph.set_output(op, index, inner)
                graph.replace(tensor, inner, graph.consumers(tensor))
                graph.insert_after(op, cast_between(graph, inner, tensor, "outputs keep their type"))
            elif tensor in tensors:
                tensor.dtype = INT32
    for op in list(graph.ops):
        source = op.inputs[0] if _is_cast(op) else None
        if source is not None and not source.is_static and source.dtype is op.outputs[0].dtype is INT32:
            graph.bypass(op)


def _as_int32(graph: Graph, tensor: Tensor) -> Tensor:
    assert tensor.data is not None
    name = graph.unique_name(f"{tensor.name}_int32")
    return graph.add_tensor(
        Tensor(name, tensor.shape, INT32, data=tensor.data.cast(INT32.numpy), role=ir.Role.STATIC)
    )
