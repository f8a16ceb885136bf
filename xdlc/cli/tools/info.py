"""``xdlc-info``: the content of a DLC."""

from __future__ import annotations

from pathlib import Path

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target
from xdlc.cli.text import clean
from xdlc.cli.tool import tool
from xdlc.errors import UsageError, raise_all


@tool("xdlc-info")
@params.DLC
@click.option("-b", "--brief", is_flag=True, help="Omit the table of ops.")
@click.option("-d", "--encodings", is_flag=True, help="Show the encoding of every tensor.")
@click.option("-t", "--trace", is_flag=True, help="Show the source nodes that each op comes from.")
@click.option(
    "--table",
    is_flag=True,
    help="Show ops in a table: id, name, type, inputs, outputs, dimensions, supported runtimes (A: HTA, "
    "D: HTP, G: GPU, C: CPU), parameters, shares in percent.",
)
@click.option("-s", "--save", type=params.OUTPUT_FILE, metavar="FILE.csv", help="Write that table as CSV.")
@click.option("-m", "--display-memory", is_flag=True, help="Show an estimate of the memory of each graph.")
@click.option(
    "--cost",
    "with_cost",
    is_flag=True,
    help="Show MACs, bytes and memory of each graph, and what a SoC of --device moves.",
)
@click.option(
    "--caches", "only_caches", is_flag=True, help="Show the compiled caches only, and where they are usable."
)
@click.option(
    "--soc",
    "--device",
    "devices",
    callback=params.names,
    metavar="SOC,SOC..",
    help="With --caches: SoCs to judge the caches for.  [default: SoCs that they were compiled for]  "
    "With --cost: SoCs to plan for.",
)
@click.option(
    "--sdk",
    "--runtime-version",
    "sdk",
    metavar="VERSION",
    help="With --caches: SDK of the devices.  [default: installed here]",
)
@click.option("--json", "as_json", is_flag=True, help="Print all results as a JSON object.")
def main(
    source: Path,
    brief: bool,
    encodings: bool,
    trace: bool,
    table: bool,
    save: Path | None,
    display_memory: bool,
    with_cost: bool,
    only_caches: bool,
    devices: tuple[str, ...],
    sdk: str | None,
    as_json: bool,
) -> None:
    """Show the content of a DLC, or of a context binary.

    Its history, inputs and outputs, ops, totals, caches, HTA records. Reads containers
    of format 3 and 4, ours and the vendor's.
    """
    if not only_caches and (sdk or (devices and not with_cost)):
        raise UsageError("--device and --sdk go with --caches", fix="add --caches, or omit them")
    if only_caches and (save or display_memory or with_cost):
        raise UsageError(
            "--save, --display-memory and --cost are of ops, not of caches", fix="omit them, or --caches"
        )
    if as_json and (display_memory or with_cost):
        raise UsageError(
            "--display-memory and --cost are printed as text", fix="omit them, or use xdlc-cost --json"
        )
    if only_caches:
        _show_caches(source, devices, sdk, as_json)
        return
    from xdlc import api
    from xdlc.cli import op_table
    from xdlc.cli.cost_table import show_cost
    from xdlc.cli.inspection import inspect
    from xdlc.cli.report import report
    from xdlc.ir.files import replace_text

    if save is not None:
        check_target(save)
    model = api.load(source)
    content = inspect(model, source)
    if save is not None:
        replace_text(save, op_table.as_csv(model, content))
    if as_json:
        import json

        click.echo(json.dumps(content, indent=2))
        return
    totals = {graph["name"]: graph["totals"] for graph in content["graphs"]} if table else {}
    rows = op_table.rows(model, content) if table else ()
    tables = {name: op_table.lines(table_rows, totals[name]) for name, table_rows in rows}
    for line in report(content, ops=not brief, encodings=encodings, trace=trace, tables=tables):
        click.echo(line)
    for graph in model.graphs.values() if display_memory else ():
        click.echo(f"memory of graph {clean(graph.name)}: {op_table.memory_line(graph)}")
    cost = None
    if with_cost:
        with bars.steps("compiling") as step:
            cost = api.cost(source, devices, step=step)
        show_cost(cost)
    if save is not None:
        click.echo(f"written: {clean(save)}")
    raise_all(cost.refused if cost is not None else ())


def _show_caches(source: Path, devices: tuple[str, ...], sdk: str | None, as_json: bool) -> None:
    from xdlc import api
    from xdlc.cli.cache_records import cache_lines, cache_records, cache_table, table_lines

    model = api.load(source)
    content = {"file": str(source), "caches": cache_records(model), **cache_table(model, devices, sdk)}
    if as_json:
        import json

        click.echo(json.dumps(content, indent=2))
        return
    click.echo(f"file  {clean(source)}")
    for line in (*cache_lines(content["caches"]), "", *table_lines(content)):
        click.echo(line)
