"""Conversion tools for one framework or for all, with the importers' options."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.params import all_of, dashed, flags_of, port_flags, stated
from xdlc.cli.tool import Tool, facts, has_next, notice, output, result, run_next, show, tool, written
from xdlc.converter.formats import DLC, recognize
from xdlc.converter.frontends import Frontend, find_frontend, frontends
from xdlc.errors import UsageError
from xdlc.options import Option, PathLike, options_of, spell, type_of
from xdlc.options.graphs import AnnotateOptions, BoundaryOptions, ConvertOptions

if TYPE_CHECKING:
    from xdlc.ir import Model

_OUTPUT = params.output("Write the DLC to this file.  [default: the model's name.dlc]", "--output-path")
_FOR_PYTHON = ("weights", "framework", "define_symbol", "importer_options", "dynamic_shapes")
"""Options that only the Python API has, or that tools take from the importers."""
_CONVERSION = flags_of(
    ConvertOptions,
    without=(*_FOR_PYTHON, *options_of(BoundaryOptions)),
    settings={"plugin": {"callback": None}, "set_inputs": {"callback": params.once_by_name}},
)
_IN_MEMORY = ("batch", "define_symbol", "weights", "udo_config_paths")
IN_MEMORY = params.all_of(
    params.INPUT_DIMS,
    flags_of(ConvertOptions, without=[name for name in options_of(ConvertOptions) if name not in _IN_MEMORY]),
)
"""Options of tools that convert a source model in memory."""
_SOURCE = {"input_layout", "output_layout"}
"""Options that describe the source; others for inputs and outputs change something."""
_STORED = tuple(name for name in options_of(AnnotateOptions) if name != "preserve_io_datatype")
"""Options of ``xdlc.api.annotate`` that converters have."""
_RESULT: tuple[Callable[..., Any], ...] = (
    flags_of(AnnotateOptions, without=("preserve_io_datatype",)),
    port_flags,
    params.template_flag("custom_io_config", "custom_io"),
    params.template_flag("config", "config"),
    params.DLC_VERSION,
    click.option(
        "--dry-run",
        type=click.Choice(["info", "debug"]),
        is_flag=False,
        flag_value="info",
        help="Write no DLC. info: list every problem of the model, and the ops that a DLC would have. debug: "
        "also list the ops of each source node.  [default without a value: info]",
    ),
    click.option(
        "--soc",
        "--target",
        "soc",
        metavar="SOC",
        help="With --dry-run: check the ops for the HTP of this SoC, like sm8650.",
    ),
    click.option(
        "--report",
        type=params.OUTPUT_FILE,
        metavar="FILE",
        help="With --dry-run: write the result to this .json or .csv file.",
    ),
    click.option(
        "--cost",
        "with_cost",
        is_flag=True,
        help="With --dry-run: show the MACs, bytes and memory of the model. With --soc: also show the bytes "
        "that the SoC moves from and to DRAM.",
    ),
)
_HELP = """Convert {models} into a DLC.

The DLC keeps the names, layouts and data types of the model's inputs and outputs. Flags
like --desired-input-layout change layouts and types. xdlc prints inputs, outputs and the ops that xdlc adds.
"""


def converter_tool(name: str, *importers: Frontend) -> Tool:
    """Return a tool that converts.

    Args:
        importers: The importers, of which the one that recognizes the content of the file is taken, else the
            first, with the options of all of them; default: all there are.
    """
    chosen: Sequence[Frontend] = importers or list(frontends().values())
    *some, last = (importer.model.split()[1] for importer in chosen)
    models = f"a model of {', '.join(some)} or {last}" if some else chosen[0].model

    def main(
        path: Path,
        target: Path | None,
        dlc_version: str,
        dry_run: str | None,
        soc: str | None,
        report: Path | None,
        with_cost: bool,
        dump_custom_io_config_template: Path | None,
        dump_config_template: Path | None,
        **options: Any,
    ) -> None:
        options = stated(options)
        options["importer_options"] = {name: options.pop(name) for name in own if name in options}
        options["framework"] = _framework(path, importers)
        stored = {name: options.pop(name) for name in _STORED if name in options}
        templates = (dump_custom_io_config_template, dump_config_template)
        for unused in stored if dry_run is not None or any(templates) else ():
            notice(f"{spell(unused)} has no effect, because xdlc writes no DLC")
        if has_next() and (dry_run is not None or any(templates)):
            notice("flags of quantizing have no effect, because xdlc writes no DLC")
        if dry_run is not None and any(templates):
            raise UsageError("a dry run writes no template", fix="omit --dry-run, or omit the template flag")
        if dry_run is not None:
            _dry_run(path, soc, report, every_node=dry_run == "debug", with_cost=with_cost, options=options)
            return
        if soc or report or with_cost:
            raise UsageError(
                "--soc, --report and --cost require --dry-run", fix="add --dry-run, or omit these flags"
            )
        if any(templates):
            _write_templates(path, templates, options)
            return
        run_next(_convert(path, target, dlc_version, options, stored))

    main.__doc__ = _HELP.format(models=models)
    own_options = _own_options(chosen)
    own = options_of(own_options)
    files = {name for name in own if type_of(own_options, name) == PathLike | None}
    text = "Convert this model." if some else f"Convert this {models.partition(' ')[2]}."
    source = params.source("MODEL", text, "--input-network", name="path", type=params.MODEL)
    decorators: tuple[Callable[..., Any], ...] = (
        flags_of(own_options, without=own.keys() - files),
        _OUTPUT,
        params.INPUT_DIMS,
        _CONVERSION,
        flags_of(own_options, without=files),
        *_RESULT,
    )
    function = all_of(source, *decorators)(main)
    _share_flags(function.__click_params__[::-1], own, importers)  # type: ignore[attr-defined]
    return tool(name)(function)


def _framework(source: Path, importers: Sequence[Frontend]) -> str | None:
    """Return the framework whose importer reads a file; None: that of the file."""
    with contextlib.suppress(OSError, ValueError):  # reported by the conversion
        content = recognize(source)
        if content is DLC:
            path = quote(str(source))
            fix = f"quantize the DLC: xdlc quantize {path} -l samples.txt; or show it: xdlc info {path}"
            raise UsageError("is a DLC already", where=str(source), fix=fix, code="XD209")
        if not importers:
            return None
        return next(
            (importer.framework for importer in importers if importer.recognizes(source, content)),
            importers[0].framework,
        )
    return importers[0].framework if importers else None


def _own_options(chosen: Sequence[Frontend]) -> type:
    """Return a typed mapping of the options that only some importers have."""
    same: dict[str, list[Any]] = {}
    for frontend in chosen:
        for name, annotation in frontend.options.__annotations__.items():
            same.setdefault(name, []).append(annotation)
    merged = {}
    for name, stated_types in same.items():
        options: list[Option] = [annotation.__metadata__[0] for annotation in stated_types]
        flags = dict.fromkeys(flag for option in options for flag in option.flags)
        if len(options) > 1:  # short flags mean other things in each framework
            flags = {flag: None for flag in flags if flag.startswith("--")}
        text = " ".join(dict.fromkeys(option.help for option in options))
        merged[name] = Annotated[
            stated_types[0].__origin__, replace(options[0], help=text, flags=tuple(flags))
        ]
    return type("OwnOptions", (), {"__annotations__": merged})


def _share_flags(params: Sequence[click.Option], own: Collection[str], importers: Sequence[Frontend]) -> None:
    """Add further flags of importers; an option that has a flag already keeps it.

    In a tool for some importers their ``own`` options claim first, in one for all importers last.
    """
    further = {dashed(flag): words for source in importers for flag, words in source.spellings.items()}
    claimed: set[str] = set()
    for param in sorted(params, key=lambda param: (param.name in own) != bool(importers)):
        words = [*param.opts, *(word for flag in param.opts for word in further.get(dashed(flag), ()))]
        param.opts = [word for word in map(dashed, words) if word not in claimed]
        claimed.update(param.opts)


def _convert(
    source: Path, target: Path | None, dlc_version: str, options: dict[str, Any], stored: dict[str, Any]
) -> Path:
    from xdlc import api
    from xdlc.cli.ports import contract, host_only, inserted, user_defined

    if target is None and derived_path(source, ".dlc") == source:
        find_frontend(source)  # which names a DLC as one, before its name is taken for the output's
    target = check_target(target or derived_path(source, ".dlc"))
    with bars.steps("converting") as step:
        model = api.convert(source, notify=notice, step=step, **options)
        if stored:
            model = api.annotate(model, notify=notice, **stored)
        step("writing", 0, 0)
        api.save(model, target, dlc_version)
    facts(graphs=lambda: _graphs(model))
    for line in (*contract(model, recipes=True), *inserted(model), *host_only(model), *user_defined(model)):
        show(line)
    for path in (*(target.parent / name for name in model.files), target):
        written(path)
    return target


def _graphs(model: Model) -> list[dict[str, Any]]:
    from xdlc.content.inspection import graph_facts

    return [graph_facts(graph, model) for graph in model.graphs.values()]


def _write_templates(source: Path, targets: Sequence[Path | None], options: dict[str, Any]) -> None:
    from xdlc import api
    from xdlc.cli.ports import write_template

    for name in sorted(
        {name for name in stated(options) if name in options_of(BoundaryOptions) and name not in _SOURCE}
    ):
        notice(f"the template omits {spell(name)}, because this option describes the source model")
        del options[name]
    model = api.convert(source, notify=notice, **options)
    for has_sections, target in zip((False, True), targets, strict=True):
        if target is not None:
            write_template(model, target, has_sections=has_sections)


def _dry_run(
    source: Path,
    soc: str | None,
    target: Path | None,
    *,
    every_node: bool,
    with_cost: bool,
    options: dict[str, Any],
) -> None:
    from xdlc import api
    from xdlc.cli.cost_table import show_cost
    from xdlc.cli.ports import contract
    from xdlc.cli.problems import as_csv, as_json, lines
    from xdlc.ir.files import replace_text

    if target is not None:
        check_target(target)
    models: list[Model] = []
    with bars.steps("checking"):
        report = api.check(source, target=soc, converted=models.append, **options)
    result(**asdict(report))
    ports: list[str] = []
    for model in models if not report.problems else ():
        result(graphs=_graphs(model))
        ports += contract(model)
    for line in lines(report, every_node=every_node, ports=ports):
        output(line)
    if target is not None:
        replace_text(target, (as_csv if target.suffix == ".csv" else as_json)(report))
        written(target)
    if with_cost and report.exit_code:
        notice("--cost has no effect, because the model has problems")
    elif with_cost:
        with bars.steps("compiling") as step:
            cost = api.cost(models[0], [soc] if soc is not None else (), step=step)
        show_cost(cost)
    click.get_current_context().exit(report.exit_code)
