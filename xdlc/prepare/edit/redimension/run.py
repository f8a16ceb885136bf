"""Resize of graph inputs, and of all tensors computed from them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from xdlc.errors import (
    ConstraintError,
    ModelError,
    ProblemList,
    UsageError,
    XdlcError,
    each_problem,
    nearest_names,
    raise_all,
)
from xdlc.ir import HOST_PACKAGE, Graph, Model, Op, Tensor
from xdlc.ir.names import place_of
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.opdefs.shapes import ShapeError, infer
from xdlc.opdefs.shapes.base import verify_shapes
from xdlc.opdefs.verify import verify_graph, verify_op
from xdlc.options import spell
from xdlc.prepare.edit.redimension.resize_context import (
    Axis,
    Factor,
    ResizeContext,
    Shape,
    find,
    is_always_applied,
)

FIX = "convert the source model again with these dimensions"
_MOST = 2**32 - 1
_UNKNOWN = ("NonZero", "NonMaxSuppression")


def redimension(model: Model, dims: Mapping[str, Sequence[int]]) -> None:
    """Set dimensions of inputs and of all tensors computed from them.

    Weights and encodings stay.  Parameters that carry dimensions (the target of a Reshape or Resize, the
    window of a global pool, ranges of slices...) are derived anew where exactly one way is consistent with
    all of the graph.  A constant that was computed for the old dimensions is a problem of the op that
    reads it.  Not detectable is what the source derived from the old dimensions in another way: numbers in
    constants, and a Reshape to a first dimension of 1 that is meant whatever the batch;
    here a batch in front stays in front.

    Args:
        model: The model; it is changed.
        dims: Shapes by name of the input.

    Raises:
        UsageError: If a name is not known, or a shape has another rank or a dimension out of range.
        ConstraintError: If an op does not take the dimensions, or more than one way is consistent.
        ProblemList: If several are wrong.
    """
    graphs = outer_graphs(model)
    raise_all(_wrong(graphs, dims))
    problems: list[XdlcError] = []
    for graph in graphs:
        shapes = {tensor: tuple(dims[tensor.name]) for tensor in graph.inputs if tensor.name in dims}
        if any(tensor.shape != shape or tensor.dynamic_axes for tensor, shape in shapes.items()):
            try:
                model.graphs[graph.name] = _decided(
                    graph, {tensor.name: shape for tensor, shape in shapes.items()}
                )
            except XdlcError as error:
                problems += each_problem(error)
        elif shapes:
            names = ", ".join(tensor.name for tensor in shapes)
            warnings.warn(f"{names} of graph {graph.name!r} already has these dimensions", stacklevel=3)
    raise_all(problems)


def _wrong(graphs: Sequence[Graph], dims: Mapping[str, Sequence[int]]) -> list[XdlcError]:
    inputs = {tensor.name: tensor for graph in graphs for tensor in graph.inputs}
    problems: list[XdlcError] = []
    for name, shape in dims.items():
        if not all(isinstance(size, int) for size in shape):
            problems.append(
                UsageError(
                    f"{spell('input_dimensions')} has the shape {shape!r} for {name!r}",
                    fix="use whole numbers, like (1, 224, 224, 3)",
                )
            )
        elif name not in inputs:
            fix = nearest_names(name, inputs) or f"use one of {', '.join(inputs)}"
            problem = f"{spell('input_dimensions')} names {name!r}, which is not an input"
            problems.append(UsageError(problem, fix=fix))
        elif len(shape) != inputs[name].rank:
            problems.append(
                UsageError(
                    f"{spell('input_dimensions')} has {len(shape)} dimensions for {name!r}, but the input "
                    f"has {inputs[name].rank}: {list(inputs[name].shape)}",
                    fix="write all dimensions, also the batch",
                )
            )
        elif not all(0 < size <= _MOST for size in shape):
            problems.append(
                UsageError(
                    f"{spell('input_dimensions')} has the shape {list(shape)} for {name!r}",
                    fix=f"use dimensions from 1 to {_MOST}",
                )
            )
    return problems


def _decided(graph: Graph, dims: Mapping[str, Shape]) -> Graph:
    """Return the resized graph, with pools read in the one consistent way.

    A window of the size of its input is either that of a global pool or one that happens to be as large.
    Where both go with the rest of the graph, a pool has to look like a global one to be taken as such.
    """
    covering = _Trial(graph, dims, covers=True)
    if not covering.doubtful:
        return covering.result()
    fixed = _Trial(graph, dims, covers=False)
    if fixed.failure is not None and covering.failure is not None:
        return covering.result()
    both = fixed.failure is None and covering.failure is None
    op = next((op for op, is_global in covering.doubtful.items() if not is_global), None)
    if both and op is not None:
        raise ConstraintError(
            "its window is as large as its input, so the op may be a global pool or not; both fit the new "
            "dimensions",
            where=place_of(op),
            fix=FIX,
        )
    chosen = fixed if covering.failure is not None else covering
    names = ", ".join(op.name for op in covering.doubtful)
    became = "become global pools" if chosen is covering else "keep their windows"
    why = "" if both else ", because the next ops need these shapes"
    chosen.notes.append(f"{names} covered their whole input, and {became}{why}")
    return chosen.result()


class _Trial:
    """A copy of a graph with other dimensions, or the reason for failure.

    Attributes:
        failure: What is wrong; None if nothing is.
        doubtful: The pools for which ``covers`` makes a difference.
        notes: Choices among several consistent ways.
    """

    def __init__(self, graph: Graph, dims: Mapping[str, Shape], *, covers: bool) -> None:
        self._made = graph.clone()
        context = ResizeContext(self._made, covers)
        broken = _breaches(self._made)
        problems = _walk(context, dims)
        if not problems:
            problems = [problem for place, problem in _breaches(self._made).items() if place not in broken]
        self.doubtful, self.notes = context.doubtful, context.notes
        self.failure = None if not problems else problems[0] if len(problems) == 1 else ProblemList(problems)

    def result(self) -> Graph:
        """Return the copy, and warn of ambiguous choices."""
        if self.failure is not None:
            raise self.failure
        for note in self.notes:
            warnings.warn(f"graph {self._made.name!r}: {note}", stacklevel=6)
        return self._made


def _breaches(graph: Graph) -> dict[str | None, XdlcError]:
    """Return the first breach of its definition for each op that breaks it, by place."""
    found: dict[str | None, XdlcError] = {}
    for problem in (*verify_graph(graph), *verify_shapes(graph)):
        found.setdefault(problem.where, problem)
    return found


def _walk(context: ResizeContext, dims: Mapping[str, Shape]) -> list[XdlcError]:
    graph = context.graph
    for tensor in graph.inputs:
        if tensor.name in dims:
            tensor.dynamic_axes = ()
            context.resize(tensor, dims[tensor.name])
        else:
            context.resize(tensor, tensor.shape)
    problems: list[XdlcError] = []
    lost: set[Tensor] = set()
    for op in graph.ops:
        if lost.intersection(tensor for tensor in op.inputs if tensor is not None):
            lost.update(op.outputs)
            continue
        try:
            _resize(op, context)
        except (ShapeError, ModelError) as error:
            reason = error.problem if isinstance(error, ModelError) else str(error)
            problems.append(ConstraintError(reason, where=place_of(op), fix=FIX, node=op.name, op=op.type))
            lost.update(op.outputs)
    return problems


def _resize(op: Op, context: ResizeContext) -> None:
    changed = [tensor for tensor in op.inputs if tensor is not None and context.is_changed(tensor)]
    if not changed and not is_always_applied(op):
        for tensor in op.outputs:
            context.resize(tensor, tensor.shape)
        return
    rule = find(op)
    try:
        inferred = infer(op) if rule is None else rule(op, context)
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise ShapeError(
            "; ".join(verify_op(op)) or f"its operands and parameters do not fit ({error})"
        ) from error
    shapes = [tuple(size for size in dims if size is not None) for dims in inferred or ()]
    if inferred is None:
        host = f"; it runs on the host only: {op.origin.reason}" if op.package == HOST_PACKAGE else ""
        raise ShapeError(f"{_shapes(changed)} reaches the op, which has no rule for its results{host}")
    if len(shapes) != len(op.outputs):
        raise ShapeError(f"it has {len(op.outputs)} outputs, not {len(shapes)}")
    is_open = op.type in _UNKNOWN or any(tensor is not None and tensor.dynamic_axes for tensor in op.inputs)
    for tensor, shape in zip(op.outputs, shapes, strict=True):
        if any(size < 1 for size in shape):
            raise ShapeError(f"its output {tensor.name!r} would be empty: {list(shape)}")
        if len(shape) != tensor.rank:
            raise ShapeError(f"its output {tensor.name!r} of rank {tensor.rank} would become {list(shape)}")
        if not is_open:
            tensor.dynamic_axes = ()
        context.note_axes(tensor, _inherited(op, tensor, shape, context))
        context.resize(tensor, shape)


def _inherited(op: Op, result: Tensor, shape: Shape, context: ResizeContext) -> list[Axis]:
    """Return the factors of a result's dimensions, from operands with the same axes."""
    axes: list[Axis] = []
    sources = [tensor for tensor in op.inputs if tensor is not None and tensor.rank == len(shape)]
    for axis, (old, new) in enumerate(zip(result.shape, shape, strict=True)):
        same = (
            context.axes(tensor)[axis]
            for tensor in sources
            if (context.shape(tensor)[axis], tensor.shape[axis]) == (old, new)
        )
        axes.append(next(same, (Factor(old, new),)))
    return axes


def _shapes(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{tensor.name!r} {list(tensor.shape)}" for tensor in tensors)
