"""Tables of what ops make of stored integers, filled by the host itself.

So the plan gives what the host gives, to the bit, whatever arithmetic the host has for the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import ArrayData, Graph, Op, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.ir.quantization import unpacked
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.runtime import args

Array = Any  # numpy.ndarray
LARGEST_TABLE = 1 << 24
"""Most entries of a table where there is nothing but a table."""


def stored_integers(tensor: Tensor) -> Array:
    """Return all integers that a tensor can store, used bits or not."""
    import numpy as np

    low, high = tensor.dtype.limits
    return np.arange(low, high + 1).astype(tensor.dtype.numpy)


def filled(
    builder: PlanBuilder,
    ops: Sequence[Op],
    given: Mapping[Tensor, Array],
    target: Tensor,
    *,
    statics: Mapping[Tensor, Array] | None = None,
) -> Array:
    """Return the stored integers that the host computes for a tensor.

    Args:
        builder: Knows which values the host rounds.
        ops: Element-wise ops, in order.
        given: Stored integers of what the ops read and do not compute, of one shape.
        target: Tensor that the last op computes.
        statics: Stored data of static operands, of shapes that broadcast against ``given``.
    """
    from xdlc.runtime import CpuSession

    (shape,) = {array.shape for array in given.values()}
    graph = Graph("table")
    twins: dict[Tensor, Tensor] = {}

    def twin(tensor: Tensor) -> Tensor:
        if tensor not in twins:
            if tensor.is_static:
                data = (statics or {})[tensor]
                twins[tensor] = replace(tensor, shape=data.shape, data=ArrayData(data), producer=None)
            else:
                twins[tensor] = replace(tensor, shape=shape, role=Role.NATIVE, producer=None)
        return twins[tensor]

    for tensor in given:
        graph.add_input(twin(tensor))
    for op in ops:
        graph.append(op.twin(twin))
    graph.add_output(twin(target))
    feeds = {tensor.name: array for tensor, array in given.items()}
    return (
        CpuSession(graph, threads=1, plain=builder.stated)
        .run(feeds, native=True)[target.name]
        .astype(target.dtype.numpy)
    )


def activation(op: Op, index: int) -> Tensor:
    """Return an input that is quantized as HTA's activations are, or static.

    Raises:
        ConstraintError: If it is left out, or of another type.
    """
    tensor = args.operand(op, index)
    if not tensor.is_static:
        check_activation(tensor)
    return tensor


def result(op: Op) -> Tensor:
    """Return the output, quantized as HTA's activations are.

    Raises:
        ConstraintError: If it is of another type.
    """
    tensor = args.result(op)
    check_activation(tensor)
    return tensor


def check_activation(tensor: Tensor) -> None:
    """Check that a tensor is quantized as HTA's activations are.

    Raises:
        ConstraintError: If it is not.
    """
    if tensor.dtype not in (UFIXED8, UFIXED16) or not isinstance(tensor.encoding, ScaleOffset):
        raise ConstraintError(
            f"is {tensor.dtype} with {type(tensor.encoding).__name__ if tensor.encoding else 'no encoding'}, "
            f"should be ufixed8 or ufixed16 with one scale",
            where=f"tensor {tensor.name!r}",
            fix="quantize the model with 8-bit activations",
        )


def emit_lookup(
    builder: PlanBuilder,
    op: Op,
    source: Tensor | int,
    target: Tensor | int,
    table: Array,
    choice: Array | None = None,
) -> None:
    """Emit a look-up, or a copy where the one row of the table changes nothing.

    Args:
        builder: Collects the plan.
        op: The op that it stands for.
        source: What is looked up.
        target: Where the results go.
        table: A row per choice.
        choice: Which row is taken where, of the input's rank; None: the only one.
    """
    import numpy as np

    same = table.shape[0] == 1 and np.array_equal(table[0], np.arange(table.shape[1]))
    if same and table.dtype.itemsize * 8 == (table.shape[1] - 1).bit_length():
        builder.emit("copy", op, [source], [target])
        return
    constants = {"table": table} if choice is None else {"table": table, "choice": choice.astype(np.int32)}
    builder.emit("lookup", op, [source], [target], constants)


def requantized(builder: PlanBuilder, source: Tensor, target: Tensor) -> Array:
    """Return for each stored integer of one tensor that of another that stands for the same number."""
    source = replace(source, role=Role.NATIVE, data=None, producer=None)
    op = Op("Convert", [source], [target], name="convert")
    return filled(builder, [op], {source: stored_integers(source)}, target)


def emit_requantized(
    builder: PlanBuilder, op: Op, source: Tensor, target: Tensor, emit: Callable[[Tensor | int], None]
) -> None:
    """Emit what moves stored integers, and a look-up behind it where encodings differ.

    Args:
        builder: Collects the plan.
        op: The op.
        source: What is moved.
        target: The op's output.
        emit: Emits the instruction, given where its output goes.
    """
    if source.encoding == target.encoding and source.dtype is target.dtype:
        emit(target)
        return
    table = requantized(builder, source, target)
    builder.buffer(target)
    between = builder.temporary(target.shape, source.dtype.numpy.name)
    emit(between)
    emit_lookup(builder, op, between, target, table[None])


def with_static(
    builder: PlanBuilder, op: Op, source: Tensor, static: Tensor, target: Tensor, *, most: int
) -> tuple[Array, Array] | None:
    """Return a table of an op on an activation and static data, and which row is taken where.

    Args:
        builder: Collects the plan.
        op: An element-wise op of two operands.
        source: The activation.
        static: The data; each value of it makes a row.
        target: The result.
        most: Entries that the table may have.

    Returns:
        The table and the choice; None if the table would be too large.

    Raises:
        ConstraintError: If the data has more than one scale.
    """
    import numpy as np

    if static.dtype.is_fixed and not isinstance(static.encoding, ScaleOffset):
        raise ConstraintError(
            "has no single scale", where=f"tensor {static.name!r}", fix="quantize the model again"
        )

    values, choice = np.unique(unpacked(static).numpy().reshape(static.shape), return_inverse=True)
    columns = stored_integers(source)
    if values.size * columns.size > most:
        return None
    shape = values.size, columns.size
    rows = np.broadcast_to(columns, shape).copy()
    table = filled(builder, [op], {source: rows}, target, statics={static: values[:, None]})
    return table, choice.reshape(static.shape)
