"""Outputs of graphs, and the names of tensors and ops as users write them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Model, Role, Tensor
from xdlc.opdefs.control_flow import called

Names: TypeAlias = "str | Sequence[str] | Mapping[str, Sequence[str]]"
"""Names of the main graph; ``"graph a,b"`` or ``"graph:a,b;graph2:c"`` for others; or lists by graph."""


def callers(model: Model) -> dict[str, str]:
    """Return for each graph that an op runs the op, in words."""
    return {
        name: f"op {op.name!r} ({op.type})"
        for graph in model.graphs.values()
        for op in graph.ops
        for name in called(op)
    }


def by_graph(
    model: Model, forms: Sequence[Names], names_of: Mapping[str, Iterable[str]]
) -> list[tuple[str, list[str]]]:
    """Return names by graph, each once, in the order given.

    A text is taken as one name if the main graph knows it; else as names between commas or blanks, whose
    first may be the name of a graph, set off by a blank.

    Args:
        forms: Names as the user wrote them, in any number of forms.

    Raises:
        UsageError: If a graph is named that the model does not have.
    """
    chosen: dict[str, dict[str, None]] = {}
    for names in forms:
        pairs = names.items() if isinstance(names, Mapping) else _split(model, names, names_of)
        for graph, words in pairs:
            if graph not in model.graphs:
                raise UsageError(
                    f"the model has no graph {graph!r}",
                    fix=nearest_names(graph, model.graphs) or f"use one of {', '.join(model.graphs)}",
                )
            chosen.setdefault(graph, {}).update(dict.fromkeys([words] if isinstance(words, str) else words))
    return [(graph, list(words)) for graph, words in chosen.items()]


def _split(
    model: Model, form: str | Sequence[str], names_of: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, list[str]]]:
    if not form:
        return
    main = model.main.name
    whole = set(names_of[main])
    texts = [form] if isinstance(form, str) else form
    parts = (
        part for text in texts for part in (text.split(";") if _has_graph(text, model, whole) else [text])
    )
    for text in parts:
        first, _, rest = text.strip().partition(":" if _has_graph(text, model, whole) else " ")
        if text in whole:
            yield main, [text]
        elif rest.strip() and first in model.graphs and first not in whole:
            yield first, rest.replace(",", " ").split()
        else:
            yield main, text.replace(",", " ").split()


def _has_graph(text: str, model: Model, whole: Collection[str]) -> bool:
    """Return whether a text begins with a graph's name and a colon."""
    graph, colon, _ = text.strip().partition(":")
    return bool(colon) and graph in model.graphs and not set(text.replace(",", " ").split()).issubset(whole)


def unknown(graph: Graph, what: str, name: str, known: Mapping[str, Iterable[str]]) -> UsageError:
    """Return the error for an unknown name, with similar names as a fix."""
    others = [other for other, names in known.items() if other != graph.name and name in set(names)]
    fix = nearest_names(name, known[graph.name]) or "run `xdlc info --ops` to list names"
    if others:
        fix = f"graph {others[0]!r} has this name: write the graph first, as in '{others[0]} {name}'"
    return UsageError(f"has no {what} {name!r}", where=f"graph {graph.name!r}", fix=fix, code="XD211")


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
    """Return the names of requested tensors that are not yet outputs.

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
        fix = "name tensors of the graph that xdlc runs"
        raise UsageError(f"xdlc runs graph {graph.name!r}, not graph {other!r}", fix=fix)
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
            f"its outputs are the outputs of {inner[name]}, and cannot change",
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
    what = "a constant of the model" if tensor.is_static else "an input of the graph"
    return UsageError(
        f"tensor {tensor.name!r} cannot be an output: it is {what}",
        where=f"graph {graph.name!r}",
        fix="name a tensor that an op computes; `xdlc info --ops` lists tensors",
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
                f"graph {graph.name!r}: xdlc dropped input {tensor.name!r}, because no output needs it",
                stacklevel=2,
            )
