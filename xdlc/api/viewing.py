"""Pages with the graph of a model, or of two models side by side."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdlc.api.conversion import convert, read_source
from xdlc.api.costing import cost as cost_of
from xdlc.api.differing import alike, check_conversion, is_source, names_of
from xdlc.api.models import executable, load
from xdlc.api.verbs import verb
from xdlc.converter.frontends import find_frontend
from xdlc.errors import UnsupportedOp, UsageError, XdlcError, each_problem, raise_all
from xdlc.ir import Model
from xdlc.ir.files import make_folder, replace_text
from xdlc.options import Notify, PathLike, Step
from xdlc.options.graphs import ConvertOptions

if TYPE_CHECKING:
    from xdlc.targets import Soc
    from xdlc.view.findings import Findings

BINARY = "context binary"
_LONGEST = 100
"""Characters of a file's name, which may come from a report."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _File:
    """A model in memory, or a file.

    Attributes:
        model: The model; None: a source model that is not converted.
        path: The file; None: the model has none.
        kind: Format of the file; empty: a DLC.
        problems: Why xdlc cannot convert the source model.
    """

    model: Model | None
    path: Path | None = None
    kind: str = ""
    problems: tuple[XdlcError, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Name, format and size of the file."""
        if self.path is None:
            return {"name": next(iter(self.model.graphs if self.model else ()), "model"), "kind": self.kind}
        nbytes = self.path.stat().st_size if self.path.is_file() else 0
        return {"name": self.path.name, "kind": self.kind, "nbytes": nbytes}


@verb
def view(
    model: Model | PathLike,
    path: PathLike | None = None,
    *,
    against: Model | PathLike | None = None,
    ignore: Collection[str] = (),
    reports: Sequence[PathLike] = (),
    soc: str | None = None,
    with_cost: bool = False,
    node_data: PathLike | None = None,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    notify: Notify | None = None,
    step: Step | None = None,
    **options: Unpack[ConvertOptions],
) -> str:
    """Return an HTML page with the graph of a model, or of two models side by side.

    The page is one file.  It loads nothing from outside.

    Args:
        model: The model, or the path of a DLC, of a context binary or of a source model.  xdlc converts a
            source model in memory.  If xdlc cannot convert it, the page shows its nodes and the problems.
        path: Also write the page to this file.
        against: A second model, which the page shows on the right.  The page marks the differences of two
            DLCs.  It shows the nodes of a source model beside the ops of its DLC.
        ignore: Kinds of differences to omit, as in ``diff``.
        reports: JSON reports of ``quantize``, ``cost`` and ``debug`` about the last model.
        soc: Show the verdict of this SoC's HTP on each op, like ``sm8650``.  xdlc queries the vendor's
            library, or its own tables if the library is not installed.
        with_cost: Also show the bytes that each op moves on the SoC.
        node_data: Also write the overlays of the last model to this folder, a JSON file each, as node data
            for Model Explorer.
        input_dims: Shapes by input name of a source model.
        notify: Called with each notice, a line of text.
        step: Called as ``step(title, done, total)`` when a step begins.
        **options: Options of the conversion of a source model.

    Returns:
        The page as text.

    Raises:
        UsageError: If xdlc does not know an option or the SoC, or a file is no report of xdlc.
        ModelError: If a source model or a report is not valid.
        UnsupportedOp: If you pass reports or a SoC, and xdlc cannot convert some operators of a source model.
        ConstraintError: If HTP refuses an op, and you request the cost.
        ContainerError: If a DLC is damaged.
        BackendError: If the vendor's library fails, or is missing for the cost or a context binary.
        StorageError: If a file cannot be read or written.
    """
    from xdlc.view.content import page

    content = view_content(
        model,
        against=against,
        ignore=ignore,
        reports=reports,
        soc=soc,
        with_cost=with_cost,
        notify=notify,
        step=step,
        input_dims=input_dims,
        **options,
    )
    text = page(content)
    if node_data is not None:
        _write_node_data(content["sides"][-1], Path(node_data))
    if path is not None:
        replace_text(path, text)
    return text


def _write_node_data(side: Mapping[str, Any], folder: Path) -> None:
    """Write the overlays of a side of the page as files of Model Explorer."""
    from xdlc.view.explorer import node_data

    make_folder(folder)
    files: dict[str, dict[str, Any]] = {}
    for number, (key, graphs) in enumerate(node_data(side).items()):
        name = re.sub("[^A-Za-z0-9.-]+", "_", key)[:_LONGEST]
        files[f"{name}_{number}" if name in files else name] = graphs
    for name, graphs in files.items():
        replace_text(folder / f"{name}.json", json.dumps(graphs, indent=1))


def view_content(
    model: Model | PathLike,
    *,
    against: Model | PathLike | None = None,
    ignore: Collection[str] = (),
    reports: Sequence[PathLike] = (),
    soc: str | None = None,
    with_cost: bool = False,
    notify: Notify | None = None,
    step: Step | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the content of the page as values of JSON, for arguments as of ``view``."""
    from xdlc.diff import kinds_of
    from xdlc.targets import find_soc
    from xdlc.view.content import assembled

    kinds_of(ignore)
    if with_cost and soc is None:
        raise UsageError("xdlc shows the cost only for a SoC", fix="name a SoC like sm8650")
    target = None if soc is None else find_soc(soc)
    models = [each for each in (model, against) if each is not None]
    are_sources = [is_source(each) for each in models]
    conversion = {name: value for name, value in options.items() if value is not None}
    if not any(are_sources):
        check_conversion(conversion)
    has_pair = sorted(are_sources) == [False, True]
    files = [
        _source(Path(each), conversion, notify, step, converts=not has_pair)
        if is_source and not isinstance(each, Model)
        else _dlc(each)
        for each, is_source in zip(models, are_sources, strict=True)
    ]
    if len(files) == 2 and not any(are_sources):
        pairs = zip(files, alike(*(file.model for file in files if file.model is not None)), strict=True)
        files = [replace(file, model=each) for file, each in pairs]
    if target is not None:  # which judges QNN operations, not layers of SNPE 1
        files = [
            file if file.model is None else replace(file, model=executable(file.model, file.facts["name"]))
            for file in files
        ]
    judged = next((file for file in reversed(files) if file.model is not None), None)
    if judged is None and (reports or soc):
        raise_all(files[-1].problems, where=str(files[-1].path))
    findings = [] if judged is None else _findings(judged, reports, target, with_cost=with_cost, step=step)
    for notice in (notice for each in findings for notice in each.notices):
        (notify or _log.warning)(notice)
    if step is not None:
        step("reading weights", 0, 0)
    sides = [
        _side(file, conversion, findings if file is judged else (), judged if has_pair else None)
        for file in files
    ]
    for file in (file for file in files if file.problems):
        (notify or _log.warning)(
            f"xdlc cannot convert {file.facts['name']}: the page shows its nodes, "
            f"and {len(file.problems)} problem(s)"
        )
    return assembled(
        *sides,
        diff=None if has_pair else _differences(files, ignore, step),
        link=_links(files, sides) if has_pair else None,
    )


def _differences(files: Sequence[_File], ignore: Collection[str], step: Step | None) -> dict[str, Any] | None:
    """Return the differences of two models for the page; None if there is one model."""
    from xdlc.diff import diff

    models = [file.model for file in files if file.model is not None]
    if len(models) < 2:
        return None
    if step is not None:
        step("comparing", 0, 0)
    names = names_of(*(file.path or file.model or "" for file in files))
    return diff(models[0], models[1], ignore=ignore, names=names).for_page()


def _side(
    file: _File, options: Mapping[str, Any], findings: Sequence[Findings], dlc: _File | None
) -> dict[str, Any]:
    """Return the side of the page of a file, or of a source model beside its DLC."""
    from xdlc.view.content import side

    if file.model is not None:
        return side(file.model, **file.facts, findings=findings)
    if file.path is None:
        raise AssertionError("a source model has a file")
    from xdlc.view.source import source_side  # needs numpy

    _, source = read_source(file.path, **options)
    return source_side(source, None if dlc is None else dlc.model, **file.facts, problems=file.problems)


def _links(files: Sequence[_File], sides: Sequence[dict[str, Any]]) -> list[list[int]]:
    """Return the pairs of nodes and ops, in the order of the files."""
    from xdlc.view.source import links

    place = 0 if files[1].model is not None else 1
    dlc = files[1 - place].model
    pairs = [] if dlc is None else list(links(sides[place]["graphs"], dlc))
    return pairs if place == 0 else [[*pair[2:], *pair[:2]] for pair in pairs]


def _dlc(model: Model | PathLike) -> _File:
    """Return a model, or that of a DLC or a context binary."""
    from xdlc.container.caches import is_context_binary

    if isinstance(model, Model):
        return _File(model)
    path = Path(model)
    return _File(load(path), path, BINARY if is_context_binary(path) else "")


def _source(
    path: Path, options: Mapping[str, Any], notify: Notify | None, step: Step | None, *, converts: bool
) -> _File:
    """Return a source model, with the model that came from it if xdlc converts it."""
    kind = find_frontend(path, options.get("framework")).title
    if not converts:
        return _File(None, path, kind)
    try:
        return _File(convert(path, notify=notify, step=step, **options), path, kind)
    except XdlcError as error:
        problems = each_problem(error)
        if not any(isinstance(problem, UnsupportedOp) for problem in problems):
            raise
        return _File(None, path, kind, problems)


def _findings(
    file: _File, reports: Sequence[PathLike], soc: Soc | None, *, with_cost: bool, step: Step | None
) -> list[Findings]:
    """Return what reports, the SoC and its compiler say of a model."""
    from xdlc.view.reports import add_report, report_findings

    if file.model is None:
        return []
    findings = [report_findings(file.model, reports)] if reports else []
    if soc is not None:
        from xdlc.view.verdicts import verdict

        if step is not None:
            step(f"asking for {soc.name}", 0, 0)
        findings.append(verdict(file.model, soc))
        if with_cost:
            costs = json.loads(cost_of(file.model, [soc.name], step=step).as_json())
            add_report(findings[-1], file.model, costs, "")
    return findings
