"""Replacement of the outputs of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence

from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir import Graph, Model, Role, Tensor
from xdlc.prepare.edit.names import Names, by_graph, callers, unknown


def set_outputs(model: Model, tensors: Sequence[Names], layers: Sequence[Names]) -> None:
    """Make named tensors, and outputs of named ops, the outputs of their graphs.

    They take the place of the outputs that a graph has; a graph of which nothing is named keeps its own.
    Ops that nothing needs any more go, and with them the inputs that were read for their sake.  A
    quantized tensor keeps its encoding.

    Args:
        model: The model; it is changed.
        tensors: Names of tensors, in any number of forms.
        layers: Names of ops, likewise.

    Raises:
        UsageError: If a name is not known, or the tensor cannot be an output; a ProblemList of all of them.
    """
    named = _named(model, tensors, layers)
    for graph, wanted in named.items():
        _replace(model.graphs[graph], wanted)


def named_inputs(model: Model, names: Names) -> list[str]:
    """Return the inputs of the main graph out of names of inputs.

    Raises:
        UsageError: If a graph has no such input; a ProblemList of several.
    """
    inputs = {name: [tensor.name for tensor in graph.inputs] for name, graph in model.graphs.items()}
    chosen = by_graph(model, [names], inputs)
    raise_all(
        [
            unknown(model.graphs[graph], "input", name, inputs)
            for graph, given in chosen
            for name in given
            if name not in inputs[graph]
        ]
    )
    return dict(chosen).get(model.main.name, [])


def extra_outputs(
    model: Model,
    tensors: Sequence[Names],
    layers: Sequence[Names],
    *,
    unread: bool = False,
    every: bool = False,
    running: Collection[str] = (),
) -> list[str]:
    """Return the names of requested tensors that are no outputs of the main graph.

    Args:
        tensors: Names of tensors, in any number of forms.
        layers: Names of ops, likewise: all of their outputs.
        unread: Whether those that no op reads are wanted.
        every: Whether all that ops compute are wanted.
        running: Names of other graphs that run, whose tensors may be named too.

    Raises:
        UsageError: If a name is not known, or is of another graph.
    """
    graph = model.main
    named = _named(model, tensors, layers)
    other = next((name for name in named if name not in (graph.name, *running)), None)
    if other is not None:
        fix = "name tensors of the graph that runs"
        raise UsageError(f"graph {other!r} does not run, {graph.name!r} does", fix=fix)
    found = dict.fromkeys(named.get(graph.name, ()))
    for op in graph.ops:
        found |= {held: None for held in op.outputs if every or (unread and not graph.consumers(held))}
    return [tensor.name for tensor in found if not graph.is_output(tensor)]


def _named(model: Model, tensors: Sequence[Names], layers: Sequence[Names]) -> dict[str, list[Tensor]]:
    problems: list[XdlcError] = []
    chosen: dict[str, list[Tensor]] = {}
    ops = {graph.name: {op.name: op for op in graph.ops} for graph in model.graphs.values()}
    tensors_of = {name: graph.tensors for name, graph in model.graphs.items()}
    inner = callers(model)
    for name, names in by_graph(model, layers, ops):
        for layer in names:
            if layer in ops[name]:
                chosen.setdefault(name, []).extend(ops[name][layer].outputs)
            else:
                problems.append(unknown(model.graphs[name], "op", layer, ops))
    for name, names in by_graph(model, tensors, tensors_of):
        graph = model.graphs[name]
        for given in names:
            if given not in graph.tensors:
                problems.append(unknown(graph, "tensor", given, _computed(model)))
                continue
            tensor = graph.tensors[given]
            reason = _reason_against(graph, tensor)
            if reason is not None:
                problems.append(reason)
            chosen.setdefault(name, []).append(tensor)
    problems += [
        UsageError(
            f"its outputs are those of {inner[name]}, and cannot be others",
            where=f"graph {name!r}",
            fix="name tensors of a graph that no op runs",
        )
        for name in chosen
        if name in inner
    ]
    raise_all(problems)
    return {name: list(dict.fromkeys(wanted)) for name, wanted in chosen.items()}


def _computed(model: Model) -> Mapping[str, list[str]]:
    return {
        name: [tensor.name for tensor in graph.tensors.values() if tensor.producer is not None]
        for name, graph in model.graphs.items()
    }


def _reason_against(graph: Graph, tensor: Tensor) -> UsageError | None:
    if tensor.producer is not None or graph.is_output(tensor):
        return None
    what = "a constant of the model" if tensor.is_static else "an input, which callers have already"
    return UsageError(
        f"tensor {tensor.name!r} cannot be an output: it is {what}",
        where=f"graph {graph.name!r}",
        fix="name a tensor that an op computes; xdlc-info lists them",
    )


def _replace(graph: Graph, tensors: list[Tensor]) -> None:
    read = [tensor for tensor in graph.inputs if graph.consumers(tensor)]
    for tensor in graph.outputs:
        tensor.role = Role.INPUT if tensor in graph.inputs else Role.NATIVE
    graph.outputs = []
    for tensor in tensors:
        graph.add_output(tensor)
    graph.prune()
    for tensor in read:
        if not graph.consumers(tensor) and tensor.role is Role.INPUT:
            graph.inputs.remove(tensor)
            del graph.tensors[tensor.name]
            warnings.warn(
                f"graph {graph.name!r}: input {tensor.name!r} is dropped: no output needs it any more",
                stacklevel=2,
            )
