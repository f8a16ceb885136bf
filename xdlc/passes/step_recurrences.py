"""Recurrences over a sequence as single steps, which HTP computes correctly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy

from xdlc import ir
from xdlc.ir import ArrayData, Graph, Op, Origin, Tensor
from xdlc.opdefs.args import optional
from xdlc.opdefs.cells import BY_TYPE, Operation, State
from xdlc.passes.base import op_pass

LIMIT = 1024
"""Most steps of a sequence: each is an op."""


@op_pass(*BY_TYPE, stage="htp", after=("cast_reinterpreted",))
def step_recurrences(graph: Graph, op: Op) -> bool:
    """Replace a Gru or Lstm over a sequence by one op per step.

    HTP's library compiles both over a sequence, but its emulation outputs other numbers then, or ends
    the process (SDK 2.51); for single steps it computes what the host does.
    """
    operation, source = BY_TYPE[op.type], op.inputs[0]
    if len(op.outputs) != 1 + len(operation.states) or optional(op, operation.reset) is not None:
        return False
    if source is None or source.rank != 3 or source.dynamic_axes:
        return False
    axis = operation.time_axis(op)
    if not 1 < source.shape[axis] <= LIMIT:
        return False
    _Steps(graph, op).write(operation, source, axis)
    return True


class _Steps:
    """The steps of one recurrence, inserted after it."""

    def __init__(self, graph: Graph, op: Op) -> None:
        self.graph, self.op, self._anchor = graph, op, op
        self.origin = Origin(op.origin.nodes, "HTP computes recurrences step by step")

    def write(self, operation: Operation, source: Tensor, axis: int) -> None:
        """Replace the recurrence."""
        op, every, (count, batch) = self.op, self.op.outputs[0], (source.shape[axis], source.shape[1 - axis])
        before = (batch,) if op.type == "Lstm" else (1, batch)  # a step of Lstm has rank 2, of Gru rank 3
        slices = self._slices(source, axis, (*before, source.shape[-1]))
        inputs, outputs = list(op.inputs), op.outputs
        inputs += [None] * (operation.reset - len(inputs))
        for state in operation.states:
            inputs[state.input] = self._first(state)
        params = {**op.params, "direction": ir.u32(0), "time_major": ir.b8(True)}
        backwards = int(op.param("direction", 0)) == 1
        self.graph.unlink(op)
        rows: dict[int, Tensor] = {}
        order = range(count - 1, -1, -1) if backwards else range(count)
        for step in order:
            inputs[0] = slices[step]
            row = self._tensor((*before, every.shape[-1]), every)
            lasts = [last if step == order[-1] else self._tensor(last.shape, last) for last in outputs[1:]]
            self._insert(op.type, inputs, [row, *lasts], params, f"{op.name}_{step}")
            rows[step] = row
            for state in operation.states:
                inputs[state.input] = lasts[state.output - 1]
        shape = (1, batch, every.shape[-1]) if axis == 0 else (batch, 1, every.shape[-1])
        views = [self._reshaped(rows[step], shape) for step in range(count)]
        self._insert("Concat", views, [every], {"axis": ir.u32(axis)})

    def _slices(self, source: Tensor, axis: int, shape: tuple[int, ...]) -> list[Tensor]:
        """Insert the steps of the input, each in the shape that a single step has."""
        count, whole = source.shape[axis], list(source.shape)
        whole[axis] = 1
        parts = [self._tensor(whole, source) for _ in range(count)]
        cuts = ir.static("", numpy.arange(1, count, dtype=numpy.uint32))
        self._insert("Split", [source], parts, {"axis": ir.u32(axis), "split_index": cuts})
        return [self._reshaped(part, shape) for part in parts]

    def _first(self, state: State) -> Tensor:
        """Return the first state: that of the op, or zeros."""
        stated = optional(self.op, state.input)
        if stated is not None:
            return stated
        like = self.op.outputs[state.output]
        zero = -like.encoding.offset if isinstance(like.encoding, ir.ScaleOffset) else 0
        data = ArrayData(numpy.full(like.shape, zero, like.dtype.numpy))
        name = self.graph.unique_name(f"{self.op.name}_start")
        return self.graph.add_tensor(
            Tensor(name, like.shape, like.dtype, like.encoding, data, ir.Role.STATIC)
        )

    def _reshaped(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        if x.shape == shape:
            return x
        view = self._tensor(shape, x)
        self._insert("Reshape", [x], [view])
        return view

    def _tensor(self, shape: Sequence[int], like: Tensor) -> Tensor:
        name = self.graph.unique_name(f"{self.op.name}_step")
        return self.graph.add_tensor(Tensor(name, tuple(shape), like.dtype, like.encoding))

    def _insert(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        params: Mapping[str, ir.Param] | None = None,
        name: str = "",
    ) -> None:
        """Insert an op after the last one that was inserted."""
        name = name or f"{self.op.name}_{type.lower()}"
        op = ir.make_op(self.graph, type, inputs, outputs, params, name=name, origin=self.origin)
        self._anchor = self.graph.insert_after(self._anchor, op)
