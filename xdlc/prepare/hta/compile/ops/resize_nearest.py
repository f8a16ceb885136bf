"""ResizeNearestNeighbor: stored integers moved as the host moves them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, emit_requantized, result

Array = Any  # numpy.ndarray


@compiler("ResizeNearestNeighbor")
def resize_nearest(op: Op, builder: PlanBuilder) -> None:
    """Emit which rows and columns are taken.

    Raises:
        ConstraintError: If the input is no image.
    """
    import numpy as np

    source, target = activation(op, 0), result(op)
    if source.rank != 4 or target.rank != 4:
        raise ConstraintError(f"has an input {list(source.shape)}, should be of rank 4")
    rows = _taken(op, source, target, 1)
    columns = _taken(op, source, target, 2)
    constants = {"rows": rows.astype(np.int32), "columns": columns.astype(np.int32)}
    emit_requantized(
        builder,
        op,
        source,
        target,
        lambda place: builder.emit("resize_nearest", op, [source], [place], constants),
    )


def _taken(op: Op, source: Tensor, target: Tensor, axis: int) -> Array:
    """Return the place along an axis that the host takes for each of the output: it resizes the places."""
    import numpy as np

    from xdlc.runtime import CpuSession

    graph = Graph("places")

    def twin(tensor: Tensor) -> Tensor:
        shape = (1, *tensor.shape[1:3], 1)
        return replace(tensor, shape=shape, dtype=FLOAT32, encoding=None, producer=None)

    twins = {source: graph.add_input(twin(source)), target: twin(target)}
    graph.append(op.twin(twins.__getitem__))
    graph.add_output(twins[target])
    along = np.arange(source.shape[axis], dtype=np.float32).reshape(
        [-1 if at == axis else 1 for at in range(4)]
    )
    feeds = {source.name: np.broadcast_to(along, twins[source].shape)}
    moved = CpuSession(graph, threads=1).run(feeds)[target.name]
    return moved[0, :, 0, 0] if axis == 1 else moved[0, 0, :, 0]
