"""Names of tensors and ops by graph, as users write them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph, Model
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
    model: Model, given: Sequence[Names], known: Mapping[str, Iterable[str]]
) -> list[tuple[str, list[str]]]:
    """Return names by graph, each once, in the order given.

    A text is taken as one name if the main graph knows it; else as names between commas or blanks, whose
    first may be the name of a graph, set off by a blank.

    Args:
        model: The model.
        given: Names as the user wrote them, in any number of forms.
        known: The names that there are, by graph.

    Raises:
        UsageError: If a graph is named that the model does not have.
    """
    found: dict[str, dict[str, None]] = {}
    for names in given:
        pairs = names.items() if isinstance(names, Mapping) else _split(model, names, known)
        for graph, held in pairs:
            if graph not in model.graphs:
                raise UsageError(
                    f"the model has no graph {graph!r}",
                    fix=nearest_names(graph, model.graphs) or f"graphs: {', '.join(model.graphs)}",
                )
            found.setdefault(graph, {}).update(dict.fromkeys([held] if isinstance(held, str) else held))
    return [(graph, list(held)) for graph, held in found.items()]


def _split(
    model: Model, given: str | Sequence[str], known: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, list[str]]]:
    if not given:
        return
    main = model.main.name
    whole = set(known[main])
    texts = [given] if isinstance(given, str) else given
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
    """Return whether a text begins with the name of a graph and a colon, and is not names of tensors."""
    graph, colon, _ = text.strip().partition(":")
    return bool(colon) and graph in model.graphs and not set(text.replace(",", " ").split()).issubset(whole)


def unknown(graph: Graph, what: str, name: str, known: Mapping[str, Iterable[str]]) -> UsageError:
    """Return the error for a name that a graph does not know, with the graph that does, or names like it."""
    others = [other for other, names in known.items() if other != graph.name and name in set(names)]
    fix = nearest_names(name, known[graph.name]) or "xdlc-info lists the names"
    if others:
        fix = f"graph {others[0]!r} has it: put the name of the graph first, as in '{others[0]} {name}'"
    return UsageError(f"has no {what} {name!r}", where=f"graph {graph.name!r}", fix=fix)
