"""Cost of a graph that no device decides: arithmetic, bytes, memory."""

from __future__ import annotations

from xdlc.ir import Graph
from xdlc.opdefs.traits import macs
from xdlc.records import record


@record(frozen=True)
class StaticCost:
    """Cost of a graph as it is stored.

    Attributes:
        macs: Multiplications that are added up, per inference.
        parameters: Numbers in static tensors.
        weights: Bytes of static tensors.
        ports: Bytes of inputs and outputs.
        peak: Most bytes of other tensors that are needed at a time.
        open_inputs: Names of inputs with open dimensions, which count as the least that they may be.
    """

    graph: str
    macs: int
    parameters: int
    weights: int
    ports: int
    peak: int
    open_inputs: tuple[str, ...] = ()

    @property
    def intensity(self) -> float:
        """Multiplications per byte of weights, inputs and outputs."""
        return self.macs / max(self.weights + self.ports, 1)


def static_cost(graph: Graph) -> StaticCost:
    """Return the cost of a graph that no device decides."""
    static = [tensor for tensor in graph.tensors.values() if tensor.is_static]
    return StaticCost(
        graph.name,
        sum(map(macs, graph.ops)),
        sum(tensor.size for tensor in static),
        sum(tensor.nbytes for tensor in static),
        sum(tensor.nbytes for tensor in (*graph.inputs, *graph.outputs)),
        peak_memory(graph),
        tuple(tensor.name for tensor in graph.inputs if tensor.dynamic_axes),
    )


def peak_memory(graph: Graph) -> int:
    """Return the most bytes of tensors that are needed at a time, without static ones.

    A tensor is needed from the op that writes it to the last that reads it, inputs and outputs of the graph
    from start to end; open dimensions count as the least that they may be.
    """
    ends = {tensor: number for number, op in enumerate(graph.ops) for tensor in (*op.inputs, *op.outputs)}
    lasting = {*graph.inputs, *graph.outputs}
    now = most = sum(tensor.nbytes for tensor in lasting)
    leaving: dict[int, int] = {}
    for tensor, number in ends.items():
        if tensor is not None and not tensor.is_static and tensor not in lasting:
            leaving[number] = leaving.get(number, 0) + tensor.nbytes
    for number, op in enumerate(graph.ops):
        now += sum(tensor.nbytes for tensor in op.outputs if tensor not in lasting)
        most = max(most, now)
        now -= leaving.get(number, 0)
    return most
