"""Graph passes: interface, registry and fixed point."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from xdlc.errors import ModelError, UsageError, XdlcError, nearest_names
from xdlc.ir import Graph
from xdlc.registry import Registry

ROUNDS = 16
STAGES = ("converter", "storage", "htp")
"""Where passes run: in importers until nothing changes; once on their result; on graphs for HTP."""
REPORT = "please report this model"
"""What to do about a bug of passes."""


RAISING = "XDLC_FAILED_PASSES_RAISE"
"""Environment variable that makes a failed pass end a conversion: tests see bugs that users are spared."""


class FailedPass(Exception):
    """A pass raised an exception, which is a bug; the graph may be half rewritten.

    Args:
        error: The exception.
    """

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(f"pass {name} raised {type(error).__name__}: {error}")
        self.name = name

    @property
    def is_avoidable(self) -> bool:
        """Whether the conversion may be repeated without the pass."""
        return not os.environ.get(RAISING)


class Pass(Protocol):
    """A rewriting of a graph that keeps what it computes."""

    @property
    def name(self) -> str:
        """Name on the command line and in messages."""

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""


Made = TypeVar("Made", bound=type)
_PASSES: Registry[str, Any] = Registry("xdlc.passes", "pass")
_STAGES: dict[str, tuple[str, tuple[str, ...]]] = {}
_OP_TYPES: dict[str, frozenset[str]] = {}


def graph_pass(
    *, stage: str, after: Sequence[str] = (), op_types: Sequence[str] = ()
) -> Callable[[Made], Made]:
    """Register a pass class, whose instance without arguments is the pass.

    Args:
        stage: One of ``STAGES``.
        after: Names of passes of the stage that run first.
        op_types: Types of ops, one of which a graph needs for the pass to apply; default: any graph.

    Raises:
        ValueError: If there is no such stage, or another pass of that name; by the decorator.
    """
    if stage not in STAGES:
        raise ValueError(f"no stage {stage!r}, expected one of {', '.join(STAGES)}")

    def decorate(pass_class: Made) -> Made:
        entry = pass_class()
        _PASSES.add(entry.name, entry)
        _STAGES[entry.name] = (stage, tuple(after))
        _OP_TYPES[entry.name] = frozenset(op_types)
        return pass_class

    return decorate


def stage(name: str) -> tuple[Pass, ...]:
    """Return the passes of a stage in order; passes free to go first by name.

    Raises:
        ValueError: If passes of the stage require each other, or one that it does not have.
    """
    entries = _PASSES.all()
    waiting = {key: set(after) for key, (own, after) in _STAGES.items() if own == name and key in entries}
    ordered: list[str] = []
    while waiting:
        ready = min((key for key, after in waiting.items() if after.issubset(ordered)), default=None)
        if ready is None:
            raise ValueError(f"passes {', '.join(sorted(waiting))} require each other or a missing pass")
        ordered.append(ready)
        del waiting[ready]
    return tuple(entries[key] for key in ordered)


def htp_query() -> tuple[Pass, ...]:
    """Return the passes of stage ``htp`` for support queries."""
    held: list[Any] = list(stage("htp"))
    return tuple(replace(entry, check=False) if hasattr(entry, "check") else entry for entry in held)


def names() -> tuple[str, ...]:
    """Return the names of all passes, stage by stage in order."""
    return tuple(entry.name for name in STAGES for entry in stage(name))


def find(name: str) -> Pass:
    """Return a pass by its name, like ``fold_pad``.

    Raises:
        UsageError: If no pass has it, with the names that come closest.
    """
    found: Mapping[str, Pass] = _PASSES.all()
    if name not in found:
        fix = nearest_names(name, found) or f"use one of {', '.join(names())}"
        raise UsageError(f"no pass is called {name!r}", fix=fix)
    return found[name]


def run(graph: Graph, passes: Iterable[Pass], *, removed: dict[str, str] | None = None) -> bool:
    """Apply passes in turn until none finds anything, and return whether any did.

    Args:
        removed: Takes, by the name of each source node that no op implements any more, the name of the
            pass that removed the last one.

    Raises:
        FailedPass: If one raises an exception, which is a bug.
        ModelError: If they still find something after many rounds, which is a bug.
    """
    passes = tuple(passes)
    changed = False
    named = _source_nodes(graph) if removed is not None else set()
    for _ in range(ROUNDS):
        rewriters, present = [], {op.type for op in graph.ops}
        for entry in passes:
            needed = _OP_TYPES.get(entry.name)
            if needed and needed.isdisjoint(present):
                continue
            try:
                is_rewritten = entry.apply(graph)
            except MemoryError:
                raise
            except Exception as error:
                if isinstance(error, XdlcError) and error.where != f"graph {graph.name!r}":
                    raise  # of a file, not of the rules of graphs
                if _STAGES.get(entry.name, ("",))[0] == "htp":  # a graph for HTP needs each of them
                    problem = f"pass {entry.name} fails on graph {graph.name!r}: {error}"
                    raise ModelError(problem, fix=REPORT) from error
                raise FailedPass(entry.name, error) from error
            if is_rewritten:
                rewriters.append(entry.name)
                present = {op.type for op in graph.ops}
                if removed is not None:
                    before, named = named, _source_nodes(graph)
                    removed |= dict.fromkeys(before - named, entry.name)
        if not rewriters:
            return changed
        changed = True
    held = ", ".join(entry.name for entry in passes)
    raise ModelError(
        f"passes {held} reach no fixed point on graph {graph.name!r}",
        fix=REPORT,
    )


def _source_nodes(graph: Graph) -> set[str]:
    return {node for op in graph.ops for node in op.origin.nodes}
