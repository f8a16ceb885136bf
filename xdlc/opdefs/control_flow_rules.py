"""Verification of ``If`` and ``While`` by the rules of NNAPI 1.3.

======== =============================== ==========================================================
Op       Parameters (names of graphs)    Operands
======== =============================== ==========================================================
``If``   ``then_graph`` ``else_graph``   In: the condition, then the inputs that both branches take.
                                         Out: the outputs of either branch.
``While`` ``cond_graph`` ``body_graph``  In: m values that go in and out, k that live in the loop
                                         only, n that each iteration reads unchanged.  Out: the m.
                                         Both graphs take all m + k + n; the condition outputs one
                                         bool, the body the next m + k.
======== =============================== ==========================================================

A condition is bool8 of shape [1].  Graphs read nothing but their own inputs.  k follows from the
number of outputs of the body.  Without any iteration, a loop outputs its initial values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdlc.errors import ConstraintError, ModelError, nearest_names
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import BOOL8
from xdlc.ir.names import place_of
from xdlc.opdefs.control_flow import (
    GRAPH_PARAMS,
    IF,
    WHILE,
    Graphs,
    called,
    has_open_rank,
    is_control_flow,
    reachable,
)

MAX_DEPTH = 32
"""Most graphs that may be nested."""
MAX_COPIES = 1 << 20
"""Most ops of sub-graphs once every reference to one is a copy of its own: work is bounded by it."""

_Problem = tuple[str, str, str]
"""The rule, the finding, and the fix."""
_AGAIN = "convert the source model again: the graphs of the container do not fit together"


def verify_control_flow(graphs: Graphs, main: Graph | None = None) -> list[ConstraintError]:
    """Return every violation of the rules by ops with sub-graphs.

    Args:
        main: Look only at this one and what it runs; default: at all of them.
    """
    looked_at = list(graphs.values()) if main is None else reachable(main, graphs)
    errors: list[ConstraintError] = []
    callers: dict[str, str] = {}
    for graph in looked_at:
        for op in graph.ops:
            if is_control_flow(op):
                where = place_of(op)
                errors.extend(
                    ConstraintError(f"{rule}: {found}", where=where, fix=fix)
                    for rule, found, fix in _op_problems(op, graphs)
                )
                callers.update((name, where) for name in called(op) if name in graphs)
    for name, where in callers.items():
        errors.extend(_capture(graphs[name], where))
    if not errors and callers:
        errors.extend(_nesting_problems(looked_at))
    return errors


def _op_problems(op: Op, graphs: Graphs) -> Iterator[_Problem]:
    named = []
    for key in GRAPH_PARAMS[op.type]:
        name = op.param(key)
        if not isinstance(name, str):
            found = "none" if name is None else f"{name!r}"
            yield f"parameter {key!r} names a graph", f"found {found}", "set it to the name of a graph"
        elif name not in graphs:
            near = nearest_names(name, graphs) or "add the graph to the model"
            yield f"parameter {key!r} names a graph", f"there is no graph {name!r}", near
        else:
            named.append(graphs[name])
    unknown = op.params.keys() - set(GRAPH_PARAMS[op.type])
    if unknown:
        keys = " and ".join(GRAPH_PARAMS[op.type])
        extra = ", ".join(sorted(unknown))
        yield f"its parameters are {keys}", f"found {extra}", "remove the other parameters"
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    if len(inputs) != len(op.inputs):
        yield "the op needs all inputs", f"input {op.inputs.index(None)} is missing", "connect every input"
        return
    if len(named) == 2:
        rules = _if_problems if op.type == IF else _while_problems
        yield from rules(op, inputs, named[0], named[1])


def _if_problems(op: Op, inputs: list[Tensor], then: Graph, otherwise: Graph) -> Iterator[_Problem]:
    if not inputs:
        yield "input 0 is the condition", "the op has no inputs", "connect a bool8 tensor of shape [1]"
        return
    yield from _condition("input 0, the condition", inputs[0])
    if not op.outputs:
        yield "a branch needs at least one output", "the op has no outputs", "remove the op: it has no effect"
    for key, branch in zip(GRAPH_PARAMS[IF], (then, otherwise), strict=True):
        title = f"{key} {branch.name!r}"
        yield from _signature(
            f"{title}: its inputs must match the op's inputs after the condition", inputs[1:], branch.inputs
        )
        yield from _signature(f"{title}: its outputs must match the op's outputs", op.outputs, branch.outputs)


def _while_problems(op: Op, inputs: list[Tensor], cond: Graph, body: Graph) -> Iterator[_Problem]:
    m, carried = len(op.outputs), len(body.outputs)
    if m < 1:
        yield "a loop needs at least one output", "the op has no outputs", "remove the op: it has no effect"
    if not m <= carried <= len(inputs):
        yield (
            f"body_graph {body.name!r} must output the m values of the op and k of its states",
            f"it has {carried} outputs, the op {m} outputs and {len(inputs)} inputs",
            _AGAIN,
        )
        return
    for key, graph in zip(GRAPH_PARAMS[WHILE], (cond, body), strict=True):
        yield from _signature(
            f"{key} {graph.name!r}: inputs must match the op's inputs", inputs, graph.inputs
        )
    if len(cond.outputs) != 1:
        yield (
            f"cond_graph {cond.name!r} must output one bool8 of shape [1]",
            f"it has {len(cond.outputs)} outputs",
            "make the condition its only output",
        )
    else:
        yield from _condition(f"cond_graph {cond.name!r}: output 0", cond.outputs[0])
    if len(body.inputs) == len(inputs):
        title = f"body_graph {body.name!r}: output i must be the next value of input i"
        yield from _signature(title, body.inputs[:carried], body.outputs)
    title = f"body_graph {body.name!r}: its first outputs must match the op's outputs"
    yield from _signature(title, body.outputs[:m], op.outputs)


def _condition(what: str, tensor: Tensor) -> Iterator[_Problem]:
    is_dynamic = tensor.rank == 1 and tensor.dynamic_axes == (0,)
    if tensor.dtype is not BOOL8 or not (tensor.shape == (1,) or is_dynamic):
        yield f"{what}, must be bool8[1]", f"found {_type(tensor)}", "cast it to bool8 and reshape it to [1]"


def _signature(title: str, one: Sequence[Tensor], other: Sequence[Tensor]) -> Iterator[_Problem]:
    if len(one) != len(other):
        yield title, f"expected {len(one)} tensors, found {len(other)}", _AGAIN
        return
    for index, (a, b) in enumerate(zip(one, other, strict=True)):
        if a.dtype is not b.dtype or a.encoding != b.encoding or not _compatible(a, b):
            yield (
                title,
                f"number {index}, expected {_type(a)}, found {_type(b)}",
                "insert a Cast or a Reshape",
            )


def _compatible(a: Tensor, b: Tensor) -> bool:
    """Return whether the shapes of two tensors can be the same when the graph runs.

    One dynamic axis alone also means a dynamic rank.
    """
    if has_open_rank(a) or has_open_rank(b):
        return True
    return a.rank == b.rank and all(
        n == m or axis in a.dynamic_axes or axis in b.dynamic_axes
        for axis, (n, m) in enumerate(zip(a.shape, b.shape, strict=True))
    )


def _type(tensor: Tensor) -> str:
    dims = ("?" if axis in tensor.dynamic_axes else str(n) for axis, n in enumerate(tensor.shape))
    encoded = f" with {tensor.encoding}" if tensor.encoding else ""
    return f"{tensor.dtype}[{','.join(dims)}]{encoded}"


def _capture(graph: Graph, where: str) -> Iterator[ConstraintError]:
    try:
        graph.verify()
    except ModelError as error:
        yield ConstraintError(
            f"graph {graph.name!r} may read only its own inputs: {error.problem}",
            where=where,
            fix="pass the value as an input of the op",
        )


def _nesting_problems(looked_at: Sequence[Graph]) -> Iterator[ConstraintError]:
    """Check that graphs do not recurse, nest too deeply or expand to too many ops."""
    graphs = {graph.name: graph for graph in looked_at}
    calls = {graph.name: [(op, name) for op in graph.ops for name in called(op)] for graph in looked_at}
    depth: dict[str, int] = {}
    size: dict[str, int] = {}
    open_calls: dict[str, None] = {}
    for start in calls:
        stack = [(start, False)]
        while stack:
            name, finished = stack.pop()
            if finished:
                del open_calls[name]
                below = [child for _, child in calls[name]]
                depth[name] = 1 + max((depth[child] for child in below), default=0)
                size[name] = len(graphs[name]) + sum(size[child] for child in below)
                worst = max(depth[name] - MAX_DEPTH, size[name] - len(graphs[name]) - MAX_COPIES)
                if worst > 0:
                    op = max(calls[name], key=lambda call: (depth[call[1]], size[call[1]]))[0]
                    yield _too_much(graphs[name], op, depth[name], size[name])
                    return
            elif name not in depth and name not in open_calls:
                open_calls[name] = None
                stack.append((name, True))
                for op, child in calls[name]:
                    if child in open_calls:
                        yield ConstraintError(
                            f"graph {child!r} must not run itself through this op",
                            where=place_of(op),
                            fix="express the recursion as a While",
                        )
                        return
                    stack.append((child, False))


def _too_much(graph: Graph, op: Op, depth: int, size: int) -> ConstraintError:
    if depth > MAX_DEPTH:
        rule, excess = f"graphs may nest at most {MAX_DEPTH} levels deep", f"the graphs nest {depth} deep"
    else:
        rule = f"sub-graphs may have at most {MAX_COPIES} ops, counted for each op that runs them"
        excess = f"the sub-graphs have {size} ops"
    return ConstraintError(
        f"{rule}: {excess}", where=place_of(op), fix="remove branches or loops from the model"
    )
