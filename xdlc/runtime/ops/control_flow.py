"""If and While as ONNX's If and Loop with captured values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from xdlc.ir import HOST_PACKAGE, Graph, Op
from xdlc.opdefs import args
from xdlc.opdefs.control_flow import IF, WHILE, Loop, called
from xdlc.runtime.builder import Builder
from xdlc.runtime.lower import lower_ops
from xdlc.runtime.ops import lowering


@lowering(IF, package=HOST_PACKAGE)
def branch(op: Op, b: Builder) -> None:
    """Lower to If."""
    condition, *inputs = (args.operand(op, index) for index in range(len(op.inputs)))
    values = [b.read(tensor) for tensor in inputs]
    branches = [b.inner(b.graphs[name]) for name in called(op)]
    then, other = (
        _branch_graph(inner, values, key) for inner, key in zip(branches, ("then", "else"), strict=True)
    )
    results = b.nodes_out(
        "If", [_scalar(b, b.read(condition))], len(op.outputs), then_branch=then, else_branch=other
    )
    b.note_inner(then_branch=branches[0], else_branch=branches[1])
    for tensor, value in zip(op.outputs, results, strict=True):
        b.write(tensor, value)


def _branch_graph(inner: Builder, values: Sequence[str], label: str) -> Any:
    _lower_inner(inner, inner.graph, values)
    return _graph(inner, label, (), _results(inner))


@lowering(WHILE, package=HOST_PACKAGE)
def loop(op: Op, b: Builder) -> None:
    """Lower to Loop, with the condition before it and after each iteration."""
    cond, body = (b.graphs[name] for name in called(op))
    counts = Loop.of(op, body)
    given = [b.read(args.operand(op, index)) for index in range(len(op.inputs))]
    initial, constants = given[: counts.carried], given[counts.carried :]
    before = b.inner(cond, nodes=b.nodes)
    _lower_inner(before, cond, given)
    first = _scalar(b, before.read(cond.outputs[0]))

    inner = b.inner(body)
    iteration, goes_on = inner.name(f"{op.name}~iteration"), inner.name(f"{op.name}~condition")
    states = [inner.name(f"{op.name}~state") for _ in initial]
    _lower_inner(inner, body, [*states, *constants])
    results = _results(inner)
    inner.op = op
    after = inner.inner(cond, nodes=inner.nodes)
    _lower_inner(after, cond, [*(name for name, _ in results), *constants])
    going_on = _scalar(after, after.read(cond.outputs[0]))
    graph = _graph(
        inner,
        "body",
        [
            _info(iteration, "int64", ()),
            _info(goes_on, "bool", ()),
            *(_info(name, b.dtype(tensor)) for name, tensor in zip(states, body.inputs, strict=False)),
        ],
        [(going_on, _info(going_on, "bool", ())), *results],
    )
    finals = b.nodes_out("Loop", ["", first, *initial], counts.carried, body=graph)
    b.note_inner(body=inner)
    for tensor, value in zip(op.outputs, finals, strict=False):
        b.write(tensor, value)


def _lower_inner(inner: Builder, graph: Graph, values: Sequence[str]) -> None:
    for tensor, value in zip(graph.inputs, values, strict=True):
        inner.write(tensor, value)
    lower_ops(graph, inner)


def _results(inner: Builder) -> list[tuple[str, Any]]:
    """Return a value and a description for each output of the graph."""
    values = [inner.read(tensor) for tensor in inner.graph.outputs]
    free = {name for node in inner.nodes for name in node.output}
    results = []
    for value, tensor in zip(values, inner.graph.outputs, strict=True):
        if value not in free:  # of the graph around, or an output already
            value = inner.node("Identity", [value])
        free.discard(value)
        results.append((value, _info(value, inner.dtype(tensor))))
    return results


def _scalar(b: Builder, value: str) -> str:
    return b.node("Reshape", [value, b.ints()])


def _info(name: str, dtype: Any, shape: Sequence[int] | None = None) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)), shape)


def _graph(inner: Builder, name: str, inputs: Sequence[Any], outputs: Sequence[tuple[str, Any]]) -> Any:
    from onnx import helper

    return helper.make_graph(inner.nodes, name, list(inputs), [info for _, info in outputs])
