"""Verdicts on a model by library of the vendor and SoC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdlc.errors import BackendError, each_problem
from xdlc.ir import Model
from xdlc.page.pictures import verdicts
from xdlc.prepare.htp.support_query import CpuFallback, query_support
from xdlc.runtime.htp import build_id
from xdlc.runtime.htp.library import using
from xdlc.runtime.htp.process import stored_model
from xdlc.targets import Soc


@dataclass(frozen=True, slots=True)
class Support:
    """Verdict of a library on the ops of a model for a SoC.

    Attributes:
        build: Build of the library; None if it does not work.
        soc: Name of the SoC; None for the verdict on a library that does not work.
        unsupported: The ops that it does not support.
        problems: Texts of the problems that are of no single op.
    """

    library: str
    build: str | None
    soc: str | None
    ops: int
    unsupported: tuple[CpuFallback, ...] = ()
    problems: tuple[str, ...] = ()


def support_matrix(
    model: Model, libraries: Iterable[Path], socs: Sequence[Soc], *, timeout: float, name: str
) -> Iterator[Support]:
    """Yield the verdict of each library for each SoC, in child processes of its own.

    Args:
        model: The model, of which nothing is compiled.
        libraries: Folders of packages or SDKs.
        timeout: Seconds that one verdict may take.
    """
    ops = sum(len(graph.ops) for graph in model.graphs.values())
    with stored_model(model) as path:
        for library in libraries:
            with using(library):
                try:
                    build = build_id()
                except BackendError as error:
                    yield Support(str(library), None, None, ops, problems=_texts(error))
                    continue
                for soc in socs:
                    try:
                        report = query_support(model, path, soc.name, timeout=timeout, name=name)
                    except BackendError as error:
                        yield Support(str(library), build, soc.name, ops, problems=_texts(error))
                        continue
                    unsupported = tuple(report.unsupported.values())
                    problems = report.problems if not unsupported else ()
                    texts = tuple(error.problem for error in problems)
                    yield Support(str(library), build, soc.name, ops, unsupported, texts)


def as_svg(model: Model, matrix: Sequence[Support]) -> str:
    """Return a picture of the ops that each SoC supports."""
    ops = [(graph.name, op.name) for graph in model.graphs.values() for op in graph.ops]
    names = {(graph, op): f"{graph}: {op}" for graph, op in ops}
    libraries = {support.library for support in matrix}
    rows: list[str] = []
    refused: dict[tuple[str, str], str] = {}
    for number, support in enumerate(matrix):
        row = support.soc or "no library"
        row = row if len(libraries) == 1 else f"{number + 1} {row} {support.build}"
        rows.append(row)
        refused |= {(row, names[left.graph, left.op]): left.reason for left in support.unsupported}
        refused |= {(row, name): text for text in support.problems for name in names.values()}
    return verdicts(rows, list(names.values()), refused)


def _texts(error: BackendError) -> tuple[str, ...]:
    return tuple(problem.problem for problem in each_problem(error))
