"""Branches of TorchScript that depend on data, as calls of ``higher_order.cond``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdlc.converter.pytorch.calls import Call, CallGraph, Ref, renamed
from xdlc.converter.pytorch.script.recorder import Recorder
from xdlc.converter.pytorch.script.values import Tensor
from xdlc.errors import UnsupportedOp
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.converter.pytorch.script.machine import Machine


def export_anew() -> str:
    """Return the fix of a program that depends on data."""
    return (
        f"export the model with torch.export, or fix a number of the inputs: {spell('set_inputs')} NAME=VALUE"
    )


def branch(
    machine: Machine, test: Tensor, bodies: Sequence[Sequence[ast.stmt]], variables: dict[str, Any]
) -> None:
    """Run both bodies of an ``if``; variables set by both become its results."""
    recorder, graphs, ends = machine.recorder, [], []
    for body in bodies:
        scope = dict(variables)
        with recorder.inner() as graph:
            if machine.returns(body, scope):
                raise UnsupportedOp("a branch that depends on data has a return statement", fix=export_anew())
        graphs.append(graph)
        ends.append(scope)
    pairs: dict[str, list[Tensor]] = {}
    for name in ends[0].keys() & ends[1].keys():
        first, second = ends[0][name], ends[1][name]
        is_plain = isinstance(first, int | float | str | None) and type(first) is type(second)
        if first is second or (is_plain and first == second):
            variables[name] = first
        else:
            pairs[name] = [_tensor(recorder, name, end[name]) for end in ends]
    pairs = {name: pairs[name] for name in ends[0] if name in pairs}
    if not pairs and not any(graph.calls for graph in graphs):
        return
    for name, (first, second) in pairs.items():
        if (first.dtype, first.shape) != (second.dtype, second.shape):
            problem = f"branches that depend on data set {name!r} to tensors of two shapes or types"
            raise UnsupportedOp(f"{problem}: {list(first.shape)}, {list(second.shape)}", fix=export_anew())
        variables[name] = recorder.unknown("cond", first.dtype, first.shape)
        variables[name].number = first.number
    for index, graph in enumerate(graphs):
        graph.outputs = [pair[index].name for pair in pairs.values()]
    arguments = [test.name, *graphs, _captured(recorder, graphs)]
    call = Call("higher_order.cond", {f"arg{index}": item for index, item in enumerate(arguments)}, [])
    call.outputs, call.module = [str(variables[name].name) for name in pairs], recorder.module
    recorder.graph.calls.append(call)


def _tensor(recorder: Recorder, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor | int | float):
        problem = f"variable {name!r}, which branches that depend on data set, is a {type(value).__name__}"
        raise UnsupportedOp(problem, fix=export_anew())
    return value if isinstance(value, Tensor) else recorder.number(value)


def _captured(recorder: Recorder, graphs: Sequence[CallGraph]) -> list[Ref]:
    """Make outer values that graphs read their inputs; return these values."""
    captured: dict[str, None] = {}
    for graph in graphs:
        computed = {output for call in graph.calls for output in call.outputs}
        read = [ref for call in graph.calls for ref in call.refs()] + graph.outputs
        captured.update((str(ref), None) for ref in read if isinstance(ref, Ref) and ref not in computed)
    for graph in graphs:
        names = {name: recorder.fresh("captured") for name in captured}
        graph.inputs = list(names.values())
        graph.values.update({captive: recorder.metas[name] for name, captive in names.items()})
        graph.outputs = [renamed(output, names) for output in graph.outputs]
        for call in graph.calls:
            call.arguments = {key: renamed(value, names) for key, value in call.arguments.items()}
    return [Ref(name) for name in captured]
