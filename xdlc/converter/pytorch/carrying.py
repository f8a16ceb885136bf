"""Tensors that graphs inside a call change, as further results of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from xdlc.converter.pytorch.calls import Call, CallGraph, Ref
from xdlc.errors import UnsupportedOp

_OPERANDS = {"cond": ("arg3",), "while_loop": ("arg2", "arg3")}
"""Arguments that inputs of graphs are, by the operator that runs these."""


def origins(call: Call, graph: CallGraph, written: Mapping[str, str]) -> dict[str, str]:
    """Return the tensors of the graph around that a graph changes, by its own names for them.

    Args:
        call: The call that runs the graph.
        graph: The graph.
        written: New values by the graph's names of what it changes.

    Raises:
        UnsupportedOp: If the operator has no form with further results.
    """
    name = call.target.partition(".")[2]
    if written and name not in _OPERANDS:
        raise _refused(name, next(iter(written)))
    given = [item for key in _OPERANDS.get(name, ()) for item in call.arguments.get(key, [])]
    known = dict(zip(graph.inputs, map(str, given), strict=False))
    return {mine: known.get(mine, mine) for mine in written}


def carried(
    call: Call,
    made: Call,
    graphs: Mapping[str, CallGraph],
    written: Mapping[str, Mapping[str, str]],
    results: Mapping[str, str],
    read: Callable[[str], str],
) -> Call:
    """Return a call that runs graphs with the new values of what they change as further results.

    Args:
        call: The call as it was.
        made: The call of the values that tensors have now.
        graphs: The graphs in functional form, by argument.
        written: By argument, new values by the graph's names of what it changes.
        results: Name of the result by the tensor that is changed.
        read: Returns the value that a tensor has now.

    Raises:
        UnsupportedOp: If a loop changes one of its variables, or a condition changes anything.
    """
    name = call.target.partition(".")[2]
    arguments: dict[str, Any] = {**made.arguments, **graphs}
    ends = {
        key: {outside: written[key][mine] for mine, outside in origins(call, graph, written[key]).items()}
        for key, graph in graphs.items()
    }
    if name == "cond":
        for key, graph in graphs.items():
            inside = {
                str(theirs): mine for mine, theirs in zip(graph.inputs, call.arguments["arg3"], strict=True)
            }
            more = [ends[key].get(outside) or inside.get(outside) or read(outside) for outside in results]
            arguments[key] = replace(graph, outputs=[*graph.outputs, *map(Ref, more)])
        return replace(made, arguments=arguments, outputs=[*made.outputs, *results.values()])
    count, shared = len(call.arguments["arg2"]), [str(item) for item in call.arguments.get("arg3", [])]
    for outside in results:
        if outside not in shared or ends["arg0"] or outside not in ends["arg1"]:
            raise _refused(name, outside)
    order = [shared.index(outside) for outside in results]
    order += [index for index in range(len(shared)) if index not in order]
    for key, graph in graphs.items():
        inputs = [*graph.inputs[:count], *(graph.inputs[count + index] for index in order)]
        arguments[key] = replace(graph, inputs=inputs)
    body = arguments["arg1"]
    after = [*body.outputs[:count], *(Ref(ends["arg1"][outside]) for outside in results)]
    arguments["arg1"] = replace(body, outputs=after)
    given = [made.arguments["arg3"][index] for index in order]
    arguments["arg2"] = [*made.arguments["arg2"], *given[: len(results)]]
    arguments["arg3"] = given[len(results) :]
    return replace(made, arguments=arguments, outputs=[*made.outputs, *results.values()])


def _refused(name: str, tensor: str) -> UnsupportedOp:
    return UnsupportedOp(
        f"a graph of {name} changes {tensor!r}, a tensor of the graph around",
        fix="return the new value from it instead",
    )
