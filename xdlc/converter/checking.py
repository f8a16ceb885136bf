"""Dry run of a conversion: every problem of a source model, and what becomes of its nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc import ir
from xdlc.converter.frontends import Frontend
from xdlc.converter.importer import import_model
from xdlc.converter.report import Report, make_report
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.values import Spec
from xdlc.errors import BackendError, UsageError, XdlcError, nearest_names
from xdlc.ir import Model
from xdlc.opdefs.source_match import Operand, UncoveredNode
from xdlc.runtime import dynamic_dims
from xdlc.runtime.htp.support import Verdict, judge
from xdlc.runtime.onnx_evaluator import limited
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
    frontend: Frontend,
    path: str | os.PathLike[str],
    *,
    operators: Sequence[str] = (),
    **options: Any,
) -> tuple[list[UncoveredNode], list[XdlcError]]:
    """Return the nodes whose operators have no mapping, and the other problems that there are.

    Args:
        frontend: The importer.
        path: The file.
        operators: Operators whose nodes count as uncovered even if they have a mapping.
        **options: Options of ``convert``.

    Raises:
        XdlcError: If there is nothing to look at: no such file, no valid model, a wrong option.
    """
    diagnostics = Diagnostics(requested=frozenset(operators))
    with limited():
        model = frontend.source_model(path, unroll_loops=0, **options)
        import_model(model, frontend.tool, diagnostics)
        places = {problem.where for problem in diagnostics.problems}
        nodes = _distinct([node for node in diagnostics.uncovered if node.where in places])
        specs = model.declared.inferred() if nodes else {}
    types = {node.type for node in nodes}
    for name in operators:
        if name not in types:
            known = {node.type for node in model.graph.all_nodes()}
            known.update(type for _, type in model.handlers.inner_types())
            problem = f"no node of the model is a {name} that nothing defines"
            raise UsageError(problem, where=str(path), fix=nearest_names(name, sorted(known)) or "omit it")
    listed = {node.where for node in nodes}
    others = [problem for problem in diagnostics.problems if problem.where not in listed]
    return [_completed(node, specs) for node in nodes], others


def _completed(node: UncoveredNode, specs: Mapping[str, Spec]) -> UncoveredNode:
    """Return a node with what inference finds after unknown operators, such as the type of a Cast."""

    def full(operand: Operand | None) -> Operand | None:
        if operand is None or operand.odd or operand.name not in specs:
            return operand
        spec = specs[operand.name]
        shape = spec.shape if operand.shape is None else operand.shape
        try:
            dtype = ir.dtype.from_numpy(spec.dtype) if operand.dtype is None and spec.dtype else operand.dtype
        except TypeError:
            return operand
        return replace(operand, shape=shape, dtype=dtype)

    return replace(node, inputs=tuple(map(full, node.inputs)), outputs=tuple(map(full, node.outputs)))


def _distinct(nodes: Sequence[UncoveredNode]) -> list[UncoveredNode]:
    """Return the nodes without repetitions of an attempt that was made again later."""
    found = {(node.where, tuple(one.name for one in node.outputs if one)): node for node in nodes}
    return list(found.values())
