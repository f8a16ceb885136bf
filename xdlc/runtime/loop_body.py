"""Loop bodies: one iteration as one graph, of the body and the condition after it.

A state that only grows, at one end, by what each iteration makes, is not handed from iteration to
iteration: its pieces are kept and joined once, so that the work is in proportion to the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE, Graph, Role, Tensor
from xdlc.opdefs.control_flow import Loop

Array = Any  # numpy.ndarray


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A state that grows.

    Attributes:
        axis: Along which.
        in_front: Whether new pieces come first.
    """

    axis: int
    in_front: bool

    def joined(self, initial: Array, pieces: Sequence[Array]) -> Array:
        """Return the state after all iterations."""
        import numpy

        if not pieces:
            return initial
        parts = [*reversed(pieces), initial] if self.in_front else [initial, *pieces]
        return numpy.concatenate(parts, self.axis)


def accumulators(cond: Graph, body: Graph, counts: Loop) -> dict[int, Accumulator]:
    """Return the growing states that a loop does not read, by position."""
    grown = {}
    for index in range(counts.outputs):
        state, result = body.inputs[index], body.outputs[index]
        op = result.producer
        if (
            op is None
            or op.type != "Concat"
            or op.package not in (NATIVE_PACKAGE, HOST_PACKAGE)
            or len(op.inputs) != 2
            or op.inputs.count(state) != 1
            or body.consumers(state) != (op,)
            or body.consumers(result)
            or cond.consumers(cond.inputs[index])
            or cond.outputs[0] is cond.inputs[index]
        ):
            continue
        piece = op.inputs[1 if op.inputs[0] is state else 0]
        same = piece is not None and (piece.dtype, piece.encoding) == (state.dtype, state.encoding)
        if piece is None or not same:
            continue
        axis = int(op.param("axis", state.rank - 1))
        grown[index] = Accumulator(axis, op.inputs[1] is state)
    return grown


def iteration(cond: Graph, body: Graph, grown: Mapping[int, Accumulator]) -> tuple[Graph, list[str]]:
    """Return the graph of an iteration, and the names of its results.

    Its inputs are those of the body but for the accumulators.  Its outputs are those of the body,
    of an accumulator the part that is appended, and last whether there is another iteration.

    Args:
        cond: The graph of the condition.
        grown: The accumulators by position.
    """
    graph = body.clone()
    states, results = list(graph.inputs), list(graph.outputs)
    for index in grown:
        op, state = results[index].producer, states[index]
        if op is None:
            continue
        piece = next(tensor for tensor in op.inputs if tensor is not None and tensor is not state)
        results[index].role = Role.NATIVE
        results[index] = piece
        graph.remove(op)
        del graph.tensors[state.name]
    graph.inputs = [tensor for index, tensor in enumerate(states) if index not in grown]
    graph.outputs = [tensor for index, tensor in enumerate(results) if index not in grown]
    goes_on = _append(graph, cond, [*results, *states[len(results) :]])
    return graph, [tensor.name for tensor in (*results, goes_on)]


def _append(graph: Graph, cond: Graph, inputs: Sequence[Tensor]) -> Tensor:
    """Add copies of the ops of a graph, which read ``inputs``; return its output."""
    twins = dict(zip(cond.inputs, inputs, strict=True))

    def twin(tensor: Tensor) -> Tensor:
        if tensor not in twins:
            role = Role.STATIC if tensor.is_static else Role.NATIVE
            name = graph.unique_name(tensor.name)
            twins[tensor] = graph.add_tensor(replace(tensor, name=name, role=role, producer=None))
        return twins[tensor]

    for op in cond.ops:
        graph.append(op.twin(twin, name=graph.unique_name(op.name)))
    return twin(cond.outputs[0])
