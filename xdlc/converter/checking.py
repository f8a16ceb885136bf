"""Dry run of a conversion: every problem of a source model, and what becomes of its nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from xdlc.converter.frontends import Frontend
from xdlc.converter.report import Report, make_report
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.errors import BackendError, UsageError, XdlcError, nearest_names
from xdlc.ir import Model
from xdlc.opdefs.source_match import UncoveredNode
from xdlc.runtime import dynamic_dims
from xdlc.runtime.htp.support import Verdict, judge
from xdlc.targets import find_soc


def check(
    frontend: Frontend,
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    **options: Any,
) -> Report:
    """Return every problem of a source model, and what became of its nodes.

    Args:
        frontend: The importer.
        path: The file.
        target: Name of a SoC whose HTP checks each op of the converted model.
        **options: As for ``xdlc.convert``, with ``udos``.

    Raises:
        XdlcError: If there is nothing to report on: no such file, no valid model, a wrong option.
    """
    soc = find_soc(target) if target is not None else None
    diagnostics = Diagnostics()
    model: Model | None = None
    try:
        model = frontend.convert(path, diagnostics=diagnostics, **options)
    except XdlcError:
        if not diagnostics.problems:  # else it is a consequence of them
            raise
    verdict: Verdict | None = None
    if soc is not None and model is not None:
        try:
            verdict = judge(model, soc)
        except BackendError as problem:
            diagnostics.problems.append(problem)
    unbound = dynamic_dims.notice(model) if verdict is not None and model is not None else None
    notices = [notice for notice in diagnostics.notices if notice != unbound]  # it is one of the problems
    notices += verdict.inner if verdict is not None else ()
    return make_report(os.fspath(path), model, diagnostics.problems, soc, verdict, notices)


def uncovered(
    convert: Callable[..., Model],
    path: str | os.PathLike[str],
    *,
    operators: Sequence[str] = (),
    **options: Any,
) -> tuple[list[UncoveredNode], list[XdlcError]]:
    """Return the nodes whose operators have no mapping, and the other problems that there are.

    Args:
        convert: Converts a file of the framework.
        path: The file.
        operators: Operators whose nodes count as uncovered even if they have a mapping.
        **options: Options of ``convert``.

    Raises:
        XdlcError: If there is nothing to look at: no such file, no valid model, a wrong option.
    """
    diagnostics = Diagnostics(requested=frozenset(operators))
    try:
        convert(path, diagnostics=diagnostics, unroll_loops=0, **options)
    except XdlcError:
        if not diagnostics.problems:
            raise
    places = {problem.where for problem in diagnostics.problems}
    nodes = distinct([node for node in diagnostics.uncovered if node.where in places])
    types = {node.type for node in nodes}
    for name in operators:
        if name not in types:
            held = sorted({node.type for node in diagnostics.nodes})
            near = nearest_names(name, held)
            problem = f"no node of the model is a {name} that nothing defines"
            if name in held and diagnostics.problems:
                problem = f"the inputs of {name} are unknown: the nodes before it have problems"
                near = "first draft what nothing maps, and give that with --udo_config_paths"
            raise UsageError(problem, where=str(path), fix=near or "omit it")
    listed = {node.where for node in nodes}
    return nodes, [problem for problem in diagnostics.problems if problem.where not in listed]


def distinct(nodes: Sequence[UncoveredNode]) -> list[UncoveredNode]:
    """Return the nodes without repetitions of an attempt that was made again later."""
    found = {(node.where, tuple(one.name for one in node.outputs if one)): node for node in nodes}
    return list(found.values())
