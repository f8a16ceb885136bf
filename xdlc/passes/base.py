"""Graph passes: registry, stages and fixed point."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from xdlc.errors import ModelError, UsageError, XdlcError, nearest_names
from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Scalar
from xdlc.records import record
from xdlc.registry import Registry

ROUNDS = 16
STAGES = ("converter", "storage", "htp")
"""Where passes run: in importers until nothing changes; once on their result; on graphs for HTP."""
REPORT = "please report this model"
"""Fix for a bug in passes."""


RAISING = "XDLC_FAILED_PASSES_RAISE"
"""Environment variable that makes a failed pass end a conversion: tests see bugs that users are spared."""


class FailedPass(Exception):
    """A pass raised an exception, which is a bug; the graph may be half rewritten."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(f"pass {name} raised {type(error).__name__}: {error}")
        self.name = name

    @property
    def is_avoidable(self) -> bool:
        """Whether the conversion may be repeated without the pass."""
        return not os.environ.get(RAISING)


@record(frozen=True)
class Pass:
    """A rewriting of a graph that preserves its results.

    Attributes:
        name: Name on the command line and in messages.
        rewrite: Rewrites a graph, and returns whether anything changed.
        after: Names of passes of the stage that run first.
        needs: Features, one of which a graph has if the pass applies to it; none: any graph.
    """

    name: str
    rewrite: Callable[..., bool]
    stage: str = "converter"
    after: tuple[str, ...] = ()
    needs: frozenset[Hashable] = frozenset()

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        return self.rewrite(graph)

    def with_options(self, **options: Any) -> Pass:
        """Return the pass with keyword arguments of its function."""
        return replace(self, rewrite=partial(self.rewrite, **options))


GraphRewrite = Callable[..., bool]
OpRewrite = Callable[[Graph, Op], bool]
_PASSES: Registry[str, Pass] = Registry("xdlc.passes", "pass")


def graph_pass(
    *, stage: str, after: Sequence[str] = (), needs: Sequence[Hashable] = ()
) -> Callable[[GraphRewrite], GraphRewrite]:
    """Register a function of a graph as a pass with the function's name.

    Args:
        after: Names of passes of the stage that run first.
        needs: Features, one of which a graph has if the pass applies to it: types of ops, pairs of such a
            type and the number of its operation, and of tensors types, classes of data and of encodings.

    Raises:
        ValueError: If there is no such stage, or another pass of that name; by the decorator.
    """
    if stage not in STAGES:
        raise ValueError(f"{stage!r} is not a stage; use one of {', '.join(STAGES)}")

    def decorate(rewrite: GraphRewrite) -> GraphRewrite:
        name = rewrite.__name__
        _PASSES.add(name, Pass(name, rewrite, stage, tuple(after), frozenset(needs)))
        return rewrite

    return decorate


def op_pass(
    *roots: str | tuple[str, int],
    stage: str,
    after: Sequence[str] = (),
    needs: Sequence[Hashable] = (),
    package: str = NATIVE_PACKAGE,
) -> Callable[[OpRewrite], OpRewrite]:
    """Register a function of a graph and an op as a pass with the function's name.

    Args:
        roots: Types of the ops that it is called with, or pairs of a type and the number of an operation.
        needs: As for ``graph_pass``; default: the roots.
    """
    kinds = frozenset(roots)
    types = frozenset(root if isinstance(root, str) else root[0] for root in roots)

    def decorate(function: OpRewrite) -> OpRewrite:
        def rewrite(graph: Graph) -> bool:
            ops = [op for op in graph.ops if op.type in types and op.package == package]
            chosen = [op for op in ops if op.type in kinds or (op.type, _operation(op)) in kinds]
            results = [function(graph, op) for op in chosen if op.graph is graph]
            return any(results)

        rewrite.__name__ = function.__name__
        graph_pass(stage=stage, after=after, needs=needs or roots)(rewrite)
        return function

    return decorate


def _operation(op: Op) -> Any:
    """Return the number of an op's operation, or None."""
    operation = op.params.get("operation")
    return operation.value if isinstance(operation, Scalar) else None


def features_of(graph: Graph) -> set[Any]:
    """Return the features of a graph that passes may need."""
    features: set[Any] = set()
    for op in graph.ops:
        features.add(op.type)
        if "operation" in op.params:
            features.add((op.type, _operation(op)))
    for tensor in graph.tensors.values():
        features.update((tensor.dtype, type(tensor.data), type(tensor.encoding)))
    return features


def stage(name: str) -> tuple[Pass, ...]:
    """Return the passes of a stage in order; passes free to go first by name.

    Raises:
        ValueError: If passes of the stage require each other, or one that it does not have.
    """
    return _ordered(frozenset([entry for entry in _PASSES.all().values() if entry.stage == name]))


@cache
def _ordered(entries: frozenset[Pass]) -> tuple[Pass, ...]:
    waiting = {entry.name: entry for entry in entries}
    ordered: dict[str, Pass] = {}
    while waiting:
        ready = [name for name, entry in waiting.items() if ordered.keys() >= set(entry.after)]
        if not ready:
            raise ValueError(
                f"passes {', '.join(sorted(waiting))} require each other, or a pass that does not exist"
            )
        ordered[min(ready)] = waiting.pop(min(ready))
    return tuple(ordered.values())


def htp_query() -> tuple[Pass, ...]:
    """Return the passes of stage ``htp``, but for the check of integers."""
    unchecked = find("narrow_integers").with_options(check=False)
    return tuple(unchecked if entry.name == unchecked.name else entry for entry in stage("htp"))


def names() -> tuple[str, ...]:
    """Return the names of all passes, stage by stage in order."""
    return tuple(entry.name for name in STAGES for entry in stage(name))


def find(name: str) -> Pass:
    """Return a pass by its name, like ``fold_pad``.

    Raises:
        UsageError: If no pass has it, with the names that come closest.
    """
    entries = _PASSES.all()
    if name not in entries:
        fix = nearest_names(name, entries) or f"use one of {', '.join(names())}"
        raise UsageError(f"no pass is called {name!r}", fix=fix)
    return entries[name]


def run(graph: Graph, passes: Iterable[Pass], *, removed: dict[str, str] | None = None) -> bool:
    """Apply passes in turn until none changes the graph; return whether any did.

    Args:
        removed: Takes, by the name of each source node that no op implements any more, the name of the
            pass that removed the last one.

    Raises:
        FailedPass: If one raises an exception, which is a bug.
        ModelError: If they still find something after many rounds, which is a bug.
    """
    passes, last = tuple(passes), None
    named = _source_nodes(graph) if removed is not None else set()
    features = features_of(graph)
    for _ in range(ROUNDS):
        for entry in passes:
            is_needed = not entry.needs or not entry.needs.isdisjoint(features)
            if is_needed and _rewrites(entry, graph):
                last, features = entry, features_of(graph)
                if removed is not None:
                    before, named = named, _source_nodes(graph)
                    removed |= dict.fromkeys(before - named, entry.name)
            elif entry is last:  # the others have seen what it left
                return True
        if last is None:
            return False
    names = ", ".join(entry.name for entry in passes)
    raise ModelError(f"the passes {names} change graph {graph.name!r} without end", fix=REPORT)


def _rewrites(entry: Pass, graph: Graph) -> bool:
    """Apply a pass; return whether it changed the graph."""
    try:
        return entry.apply(graph)
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, XdlcError) and error.where != f"graph {graph.name!r}":
            raise  # of a file, not of the rules of graphs
        if entry.stage == "htp":  # a graph for HTP needs each of them
            problem = f"pass {entry.name} fails on graph {graph.name!r}: {error}"
            raise ModelError(problem, fix=REPORT) from error
        raise FailedPass(entry.name, error) from error


def _source_nodes(graph: Graph) -> set[str]:
    return {node for op in graph.ops for node in op.origin.nodes}
