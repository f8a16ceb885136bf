"""Recurrences over a sequence as single steps, which HTP computes correctly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from xdlc import ir
from xdlc.ir import ArrayData, DType, Encoding, Graph, Op, Origin, Tensor
from xdlc.passes.base import op_pass

STATES = {"Gru": {1: 13}, "Lstm": {1: 11, 2: 10}}
"""For each output that is a last state, the input that is the first one (OpDefs of Gru and Lstm)."""
RESET = {"Gru": 14, "Lstm": 24}
LIMIT = 1024
"""Most steps of a sequence: each is an op."""


@op_pass(*STATES, stage="htp", after=("cast_reinterpreted",))
def step_recurrences(graph: Graph, op: Op) -> bool:
    """Replace a Gru or Lstm over a sequence by one op per step.

    HTP's library compiles both over a sequence, but its emulation outputs other numbers then, or ends
    the process (SDK 2.51); for single steps it computes what the host does.
    """
    if not _has_steps(op):
        return False
    _Steps(graph, op).write()
    return True


def _has_steps(op: Op) -> bool:
    """Return whether an op is a recurrence over more than one step of a known number."""
    if len(op.outputs) != 1 + len(STATES[op.type]):
        return False
    source = op.inputs[0]
    given = len(op.inputs) > RESET[op.type] and op.inputs[RESET[op.type]] is not None
    if source is None or source.rank != 3 or source.dynamic_axes or given:
        return False
    return 1 < source.shape[time_axis(op)] <= LIMIT


def time_axis(op: Op) -> int:
    """Return the axis of the steps in an input of three axes."""
    return 0 if op.param("time_major", op.type == "Gru") else 1


class _Steps:
    """The steps of one recurrence.

    Args:
        graph: Its graph.
        op: The recurrence.
    """

    def __init__(self, graph: Graph, op: Op) -> None:
        self.graph, self.op = graph, op
        self.origin = Origin(op.origin.nodes, "HTP computes recurrences step by step")
        source = op.inputs[0]
        assert source is not None
        self.source, self.axis = source, time_axis(op)
        self.steps, self.batch = source.shape[self.axis], source.shape[1 - self.axis]
        self.flat = op.type == "Lstm"  # a step of rank 2; that of Gru has rank 3
        self.params = {**op.params, "direction": ir.u32(0), "time_major": ir.b8(True)}

    def write(self) -> None:
        """Replace the recurrence."""
        op, graph = self.op, self.graph
        slices = self._slices()
        backwards = int(op.param("direction", 0)) == 1
        order = range(self.steps - 1, -1, -1) if backwards else range(self.steps)
        states = {out: self._first(out, place) for out, place in STATES[op.type].items()}
        hidden: dict[int, Tensor] = {}
        last = order[-1]
        graph_outputs = op.outputs
        graph.unlink(op)
        anchor = slices[-1].producer
        assert anchor is not None
        for step in order:
            inputs = list(op.inputs)
            inputs[0] = slices[step]
            for out, place in STATES[op.type].items():
                inputs += [None] * (place + 1 - len(inputs))
                inputs[place] = states[out]
            results = [self._tensor(self._row(), graph_outputs[0])]
            results += [
                result if step == last else self._tensor(result.shape, result) for result in graph_outputs[1:]
            ]
            anchor = graph.insert_after(
                anchor,
                ir.make_op(
                    graph,
                    op.type,
                    inputs,
                    results,
                    dict(self.params),
                    name=f"{op.name}_{step}",
                    origin=self.origin,
                ),
            )
            hidden[step], states = results[0], dict(enumerate(results[1:], 1))
        every = graph_outputs[0]
        rows: list[Tensor] = []
        for step in range(self.steps):
            row = hidden[step]
            shape = (1, self.batch, row.shape[-1]) if self.axis == 0 else (self.batch, 1, row.shape[-1])
            if row.shape != shape:
                view = self._tensor(shape, row)
                anchor = graph.insert_after(anchor, self._made("Reshape", [row], [view]))
                row = view
            rows.append(row)
        joined = self._made("Concat", rows, [every], {"axis": ir.u32(self.axis)})
        graph.insert_after(anchor, joined)

    def _row(self) -> tuple[int, ...]:
        units = self.op.outputs[0].shape[-1]
        return (self.batch, units) if self.flat else (1, self.batch, units)

    def _slices(self) -> list[Tensor]:
        """Insert the steps of the input, each in the shape that a single step has."""
        graph, width = self.graph, self.source.shape[-1]
        shape = list(self.source.shape)
        shape[self.axis] = 1
        parts = [self._tensor(shape, self.source) for _ in range(self.steps)]
        params: dict[str, ir.Param] = {
            "axis": ir.u32(self.axis),
            "split_index": ir.static("", numpy.arange(1, self.steps, dtype=numpy.uint32)),
        }
        graph.insert_before(self.op, self._made("Split", [self.source], parts, params))
        row_shape = (self.batch, width) if self.flat else (1, self.batch, width)
        slices = []
        for part in parts:
            if part.shape != row_shape:
                view = self._tensor(row_shape, part)
                graph.insert_before(self.op, self._made("Reshape", [part], [view]))
                part = view
            slices.append(part)
        return slices

    def _first(self, out: int, place: int) -> Tensor:
        """Return the first state: that of the op, or zeros."""
        given = self.op.inputs[place] if place < len(self.op.inputs) else None
        if given is not None:
            return given
        like = self.op.outputs[out]
        name = self.graph.unique_name(f"{self.op.name}_start")
        data = ArrayData(_zeros(like.shape, like.dtype, like.encoding))
        return self.graph.add_tensor(
            Tensor(name, like.shape, like.dtype, like.encoding, data, ir.Role.STATIC)
        )

    def _tensor(self, shape: Sequence[int], like: Tensor) -> Tensor:
        name = self.graph.unique_name(f"{self.op.name}_step")
        return self.graph.add_tensor(Tensor(name, tuple(shape), like.dtype, like.encoding))

    def _made(
        self,
        type: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        params: dict[str, ir.Param] | None = None,
    ) -> Op:
        name = f"{self.op.name}_{type.lower()}"
        return ir.make_op(self.graph, type, inputs, outputs, params, name=name, origin=self.origin)


def _zeros(shape: Sequence[int], dtype: DType, encoding: Encoding | None) -> ir.data.Array:
    """Return stored values that decode to zero."""
    zero = -encoding.offset if isinstance(encoding, ir.ScaleOffset) else 0
    return numpy.full(shape, zero, dtype.numpy)
