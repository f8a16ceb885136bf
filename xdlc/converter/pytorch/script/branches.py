"""Branches and loops of TorchScript that depend on data, as calls of higher-order operators."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdlc.converter.pytorch.calls import Call, CallGraph, Ref, renamed
from xdlc.converter.pytorch.schemas import schema
from xdlc.converter.pytorch.script.recorder import Recorder
from xdlc.converter.pytorch.script.values import Tensor
from xdlc.errors import UnsupportedOp

if TYPE_CHECKING:
    from xdlc.converter.pytorch.script.machine import Machine

_FIX = "export the model with torch.export, or fix a number among the inputs with --set_input NAME=VALUE"


def branch(
    machine: Machine, test: Tensor, body: Sequence[ast.stmt], other: Sequence[ast.stmt], held: dict[str, Any]
) -> None:
    """Run both bodies of an ``if``, and set the variables that both set to what the one that runs sets.

    Args:
        machine: The machine.
        test: The condition.
        body: Statements where it is true.
        other: Statements where it is not.
        held: The variables.

    Raises:
        UnsupportedOp: If what they set has no common form.
    """
    recorder = machine.recorder
    graphs, ends = [], []
    for statements in (body, other):
        scope = dict(held)
        with recorder.inner() as graph:
            if machine.returns(statements, scope):
                raise UnsupportedOp("a branch that depends on data returns", fix=_FIX)
        graphs.append(graph)
        ends.append(scope)
    names = [name for name in ends[0] if name in ends[1] and _is_set(name, ends, held)]
    outputs: list[tuple[Tensor, Tensor]] = []
    values = {name: _joined(recorder, graphs, ends[0][name], ends[1][name], outputs) for name in names}
    if not outputs and not any(map(_changes, graphs)):
        held.update(values)
        return
    for index, graph in enumerate(graphs):
        graph.outputs = [pair[index].name for pair in outputs]
    captured = _close(recorder, graphs, [[], []])
    made = _called(recorder, "cond", [test.name, *graphs, captured], [pair[0] for pair in outputs])
    for tensor, (first, _) in zip(made, outputs, strict=True):
        tensor.number = first.number
    held.update({name: _placed(value, made) for name, value in values.items()})


def repeat(
    machine: Machine,
    test: ast.expr | None,
    count: Tensor | None,
    statement: ast.For | ast.While,
    held: dict[str, Any],
) -> None:
    """Run the body of a loop once, and set the variables that it sets to what the whole loop sets.

    Args:
        machine: The machine.
        test: Condition of the loop; None for one that counts.
        count: How often a loop that counts runs.
        statement: The loop.
        held: The variables.

    Raises:
        UnsupportedOp: If what it sets has no form that is the same in every iteration.
    """
    recorder = machine.recorder
    names = [name for name in _stored(statement) if name in held]
    starts = {name: _carried(recorder, name, held[name]) for name in names}
    if count is not None:
        starts[_INDEX] = recorder.number(0)
    inner = {name: recorder.unknown("carried", start.dtype, start.shape) for name, start in starts.items()}
    for name, tensor in inner.items():
        tensor.number = starts[name].number
    scope = dict(held) | {name: tensor for name, tensor in inner.items() if name != _INDEX}
    with recorder.inner() as condition:
        if count is not None:
            truth = recorder.call("lt.Tensor", {"self": inner[_INDEX], "other": count})
        else:
            assert test is not None
            truth = machine.number("bool", machine.value(test, dict(scope)))
        condition.outputs = [truth.name if isinstance(truth, Tensor) else recorder.number(truth).name]
    with recorder.inner() as body:
        if count is not None:
            machine.assign(statement.target, inner[_INDEX], scope)  # type: ignore[union-attr]
        if machine.returns(statement.body, scope):
            raise UnsupportedOp("a loop that depends on data returns", fix=_FIX)
        ends = {name: _carried(recorder, name, scope[name]) for name in starts if name != _INDEX}
        if count is not None:
            ends[_INDEX] = recorder.call(
                "add.Tensor", {"self": inner[_INDEX], "other": recorder.number(1), "alpha": 1}
            )
        body.outputs = [ends[name].name for name in starts]
    for name, end in ends.items():
        if (end.dtype, end.shape) != (starts[name].dtype, starts[name].shape):
            problem = f"variable {name!r} changes its shape or type in a loop that depends on data"
            raise UnsupportedOp(problem, fix=_FIX)
    carried = [str(tensor.name) for tensor in inner.values()]
    captured = _close(recorder, [condition, body], [carried, carried])
    begun = [start.name for start in starts.values()]
    made = _called(recorder, "while_loop", [condition, body, begun, captured], list(starts.values()))
    for name, tensor in zip(starts, made, strict=True):
        tensor.number = starts[name].number
        if name != _INDEX:
            held[name] = tensor


_INDEX = "#"


def _stored(statement: ast.stmt) -> list[str]:
    """Return the variables that a statement sets."""
    names = [each for each in ast.walk(statement) if isinstance(each, ast.Name)]
    return list(dict.fromkeys(each.id for each in names if isinstance(each.ctx, ast.Store)))


def _is_set(name: str, ends: Sequence[dict[str, Any]], held: dict[str, Any]) -> bool:
    return any(name not in held or end[name] is not held[name] for end in ends)


def _carried(recorder: Recorder, name: str, value: Any) -> Tensor:
    """Return a variable of a loop as a tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, bool | int | float):
        return recorder.number(value)
    problem = f"variable {name!r} of a loop that depends on data is a {type(value).__name__}"
    raise UnsupportedOp(problem, fix=_FIX)


def _joined(
    recorder: Recorder,
    graphs: Sequence[CallGraph],
    first: Any,
    second: Any,
    outputs: list[tuple[Tensor, Tensor]],
) -> Any:
    """Return a variable after both branches; a tensor that differs as its position among the outputs."""
    if first is second:
        return first
    if isinstance(first, tuple | list) and type(first) is type(second) and len(first) == len(second):
        items = [_joined(recorder, graphs, *pair, outputs) for pair in zip(first, second, strict=True)]
        return type(first)(items)
    if not isinstance(first, Tensor) and type(first) is type(second) and first == second:
        return first
    kinds = (Tensor, int, float, bool)
    if not isinstance(first, kinds) or not isinstance(second, kinds):
        problem = f"a branch that depends on data sets a {_kind(first)}, the other a {_kind(second)}"
        raise UnsupportedOp(problem, fix=_FIX)
    pair = [value if isinstance(value, Tensor) else recorder.number(value) for value in (first, second)]
    if (pair[0].dtype, pair[0].shape) != (pair[1].dtype, pair[1].shape):
        shapes = " and ".join(str(list(each.shape)) for each in pair)
        problem = f"branches that depend on data set tensors of shapes {shapes}, or of two types"
        raise UnsupportedOp(problem, fix=_FIX)
    outputs.append((pair[0], pair[1]))
    return _Output(len(outputs) - 1)


class _Output(int):
    """Position of a variable among the outputs of a branch."""


def _placed(value: Any, made: Sequence[Tensor]) -> Any:
    if isinstance(value, _Output):
        return made[value]
    if isinstance(value, tuple | list):
        return type(value)([_placed(item, made) for item in value])
    return value


def _kind(value: Any) -> str:
    return "tensor" if isinstance(value, Tensor) else type(value).__name__


def _close(recorder: Recorder, graphs: Sequence[CallGraph], inputs: Sequence[list[str]]) -> list[Ref]:
    """Let graphs inside read only their inputs; return what these are set to of the graph around."""
    captured: dict[str, None] = {}
    for graph, own in zip(graphs, inputs, strict=True):
        made = {*own, *(output for call in graph.calls for output in call.outputs)}
        read = [ref for call in graph.calls for ref in call.refs()] + graph.outputs
        captured.update((str(ref), None) for ref in read if isinstance(ref, Ref) and ref not in made)
    for graph, own in zip(graphs, inputs, strict=True):
        names = {name: recorder.fresh("captured") for name in captured}
        graph.inputs = [*own, *names.values()]
        graph.values.update({made: recorder.metas[name] for name, made in names.items()})
        graph.outputs = [renamed(output, names) for output in graph.outputs]
        for call in graph.calls:
            call.arguments = {key: renamed(value, names) for key, value in call.arguments.items()}
    return [Ref(name) for name in captured]


def _changes(graph: CallGraph) -> bool:
    """Return whether calls of a graph, or of one inside it, change tensors."""
    for call in graph.calls:
        if any(each.is_written for each in schema(call.target.partition(".")[2]) or ()):
            return True
        if any(_changes(value) for value in call.arguments.values() if isinstance(value, CallGraph)):
            return True
    return False


def _called(recorder: Recorder, name: str, arguments: Sequence[Any], like: Sequence[Tensor]) -> list[Tensor]:
    """Add the call of a higher-order operator; return its results, which are like other tensors."""
    made = [recorder.unknown(name, each.dtype, each.shape) for each in like]
    call = Call(f"higher_order.{name}", {f"arg{index}": each for index, each in enumerate(arguments)}, [])
    call.outputs, call.module = [str(tensor.name) for tensor in made], recorder.module
    recorder.graph.calls.append(call)
    return made
