"""Dry run of a conversion: problems, and the result of each node."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdlc import ir
from xdlc.converter.frontends import Frontend
from xdlc.converter.pipeline import import_model
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.values import Spec
from xdlc.errors import BackendError, UsageError, XdlcError, nearest_names
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE, Model, Op
from xdlc.ir.graph import is_udo
from xdlc.opdefs.source_match import Declared, UncoveredNode
from xdlc.runtime import dynamic_dims
from xdlc.runtime.htp.support import SocSupport, judge
from xdlc.runtime.htp.unsupported_op import is_quantized
from xdlc.runtime.onnx_evaluator import limited
from xdlc.targets import Soc, find_soc

CONVERTER = "xdlc"
VENDOR, TABLES = "vendor", "tables"
_OF_NODE = ("graph ", "layer ", "node ", "op ", "operator ")


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why a model cannot be converted, or not run on the target.

    Attributes:
        node: Source node, or op of the converted graph; empty for a problem of the whole model.
        by: Whose verdict it is: ``xdlc`` (conversion), ``vendor`` (its library) or ``tables`` (ours).
        why: What was expected and what was found.
        fix: What to do about it.
        kind: Name of the error class.
        line: Line of the node in the model, where that is a text; 0 else.
        code: Kind of the problem, like ``XD401``.
    """

    node: str
    op: str
    by: str
    why: str
    fix: str
    kind: str
    line: int = 0
    code: str = ""


@dataclass(frozen=True, slots=True)
class Fate:
    """Result of a source node: its ops or the reason for none.

    Attributes:
        ops: Types and names of the ops that it became, packages other than QNN's in front.
        reason: Why there are none; None if there are some.
    """

    node: str
    op: str
    ops: tuple[str, ...]
    reason: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """Report of a dry run.

    Attributes:
        source: The model's file.
        target: Name and architecture of the SoC of the dry run, if any.
        judge: Who spoke for the target.
        problems: All of them.
        nodes: The source nodes, in the model's order.
        qnn_ops: Number of QNN operations of each type.
        host_only: Number of ops of each type that run on the host only.
        user_defined: Number of ops of each type of users' packages, these in front.
        inserted: Number of ops that the source does not have, by type and reason.
        exit_code: 0, or that of the first problem, as the tools give it.
        notices: What is good to know and no problem.
    """

    source: str
    target: str | None
    judge: str | None
    problems: tuple[Problem, ...]
    nodes: tuple[Fate, ...]
    qnn_ops: Mapping[str, int]
    host_only: Mapping[str, int]
    user_defined: Mapping[str, int]
    inserted: Mapping[str, int]
    exit_code: int
    notices: tuple[str, ...] = ()


def check(
    frontend: Frontend,
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    converted: Callable[[Model], None] | None = None,
    **options: Any,
) -> Report:
    """Return every problem of a source model, and the result of each node.

    Args:
        target: Name of a SoC whose HTP checks each op of the converted model.
        converted: Called with the converted model, if there is one.
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
    if converted is not None and model is not None:
        converted(model)
    verdict: SocSupport | None = None
    if soc is not None and model is not None:
        try:
            verdict = judge(model, soc)
        except BackendError as problem:
            diagnostics.problems.append(problem)
    unbound = dynamic_dims.notice(model) if verdict is not None and model is not None else None
    notices = [notice for notice in diagnostics.notices if notice != unbound]  # it is one of the problems
    if verdict is not None and model is not None:
        notices += verdict.inner
        if not any(map(is_quantized, model.graphs.values())):  # every float model has this problem there
            early = [error for error in verdict.refused if error.code == "XD104"]
            notices += [
                f"{error.problem} (XD104): quantize the model first, then check the DLC again"
                for error in early
            ]
            verdict = replace(verdict, refused=tuple(e for e in verdict.refused if e not in early))
    return _make_report(os.fspath(path), model, diagnostics.problems, soc, verdict, notices)


def _make_report(
    source: str,
    model: Model | None,
    problems: Sequence[XdlcError],
    soc: Soc | None = None,
    verdict: SocSupport | None = None,
    notices: Sequence[str] = (),
) -> Report:
    """Return the report of a dry run.

    Args:
        source: The model's file.
        model: What could be converted of it; None if nothing could.
        problems: What was found while converting.
        verdict: What the target takes.
        notices: What is good to know.
    """
    own = [*problems, *(verdict.plain if verdict is not None else ())]
    refused = verdict.refused if verdict is not None else ()
    judge = VENDOR if verdict is not None and verdict.is_vendors else TABLES
    graphs = list(model.graphs.values()) if model is not None else []
    ops = [op for graph in graphs for op in graph.ops]
    sources = {op.name: ", ".join(op.origin.nodes) for op in ops if op.origin.nodes}
    return Report(
        source,
        f"{soc.name} ({soc.capabilities.name})" if soc is not None else None,
        verdict.judge if verdict is not None else None,
        (
            *(_problem(error, CONVERTER, source, sources) for error in own),
            *(_problem(error, judge, source, sources) for error in refused),
        ),
        _fates(model, ops),
        _counted(op.type for op in ops if op.package == NATIVE_PACKAGE),
        _counted(op.type for op in ops if op.package == HOST_PACKAGE),
        _counted(f"{op.package}::{op.type}" for op in ops if is_udo(op)),
        _counted(f"{op.type}: {op.origin.reason}" for op in ops if op.is_inserted),
        next((error.exit_code for error in (*own, *refused)), 0),
        tuple(notices),
    )


def _problem(error: XdlcError, by: str, source: str, sources: Mapping[str, str]) -> Problem:
    """Return an error as a row; an op is named by its source nodes."""
    where = error.where if error.where != source else None
    if error.node and where and where.startswith((source, *_OF_NODE)):
        where = None  # the row has it
    why = f"{where}: {error.problem}" if where else error.problem
    node = sources.get(error.node or "", error.node or "")
    return Problem(
        node, error.op or "", by, why, error.fix or "", type(error).__name__, error.line, error.code
    )


def _fates(model: Model | None, ops: Sequence[Op]) -> tuple[Fate, ...]:
    carried: dict[str, list[str]] = {}
    for op in ops:
        package = "" if op.package == NATIVE_PACKAGE else f"{op.package}::"
        for node in op.origin.nodes:
            carried.setdefault(node, []).append(f"{package}{op.type} {op.name}")
    nodes = model.metadata.get("nodes", ()) if model is not None else ()
    return tuple(Fate(name, kind, tuple(carried.get(name, ())), reason) for name, kind, reason in nodes)


def _counted(items: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(items).items()))


def uncovered(
    frontend: Frontend,
    path: str | os.PathLike[str],
    *,
    operators: Sequence[str] = (),
    **options: Any,
) -> tuple[list[UncoveredNode], list[XdlcError]]:
    """Return the nodes whose operators have no mapping, and the other problems.

    Args:
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
            problem = f"the model has no node {name} without a definition"
            raise UsageError(
                problem, where=str(path), fix=nearest_names(name, sorted(known)) or "omit the name"
            )
    listed = {node.where for node in nodes}
    others = [problem for problem in diagnostics.problems if problem.where not in listed]
    return [_completed(node, specs) for node in nodes], others


def _completed(node: UncoveredNode, specs: Mapping[str, Spec]) -> UncoveredNode:
    """Return a node with the shapes and types that inference adds."""

    def full(operand: Declared | None) -> Declared | None:
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
