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
    model: Model, forms: Sequence[Names], names_of: Mapping[str, Iterable[str]]
) -> list[tuple[str, list[str]]]:
    """Return names by graph, each once, in the order given.

    A text is taken as one name if the main graph knows it; else as names between commas or blanks, whose
    first may be the name of a graph, set off by a blank.

    Args:
        forms: Names as the user wrote them, in any number of forms.
        names_of: The names that there are, by graph.

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
                    fix=nearest_names(graph, model.graphs) or f"graphs: {', '.join(model.graphs)}",
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
    fix = nearest_names(name, known[graph.name]) or "xdlc-info lists the names"
    if others:
        fix = f"graph {others[0]!r} has it: put the name of the graph first, as in '{others[0]} {name}'"
    return UsageError(f"has no {what} {name!r}", where=f"graph {graph.name!r}", fix=fix)
