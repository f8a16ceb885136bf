"""``xdlc-info``: the content of a DLC."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target
from xdlc.cli.text import clean
from xdlc.cli.tool import output, result, tool, written
from xdlc.cli.vendor_flags import NAMES
from xdlc.errors import UsageError, raise_all


@tool("xdlc-info")
@params.DLC
@click.option("--ops", "with_ops", is_flag=True, help="Show each op with its tensors and parameters.")
@click.option("-b", "--brief", is_flag=True, help="Show no ops. This is the default of xdlc info.")
@click.option("-d", "--encodings", is_flag=True, help="Show the encoding of every tensor.")
@click.option("-t", "--trace", is_flag=True, help="Show the source nodes that each op comes from.")
@click.option(
    "--table",
    is_flag=True,
    help="Show each op as a row of a table: its tensors, shapes, parameters, supported runtimes and shares "
    "of the totals in percent. The letters of runtimes are A (HTA), D (HTP), G (GPU) and C (CPU).",
)
@click.option("-s", "--save", type=params.OUTPUT_FILE, metavar="FILE.csv", help="Write the table as CSV.")
@click.option("-m", "--display-memory", is_flag=True, help="Show an estimate of the memory of each graph.")
@click.option(
    "--cost",
    "with_cost",
    is_flag=True,
    help="Show the MACs, bytes and memory of each graph. With --soc: also show the bytes that the SoC moves "
    "from and to DRAM.",
)
@click.option(
    "--caches",
    "only_caches",
    is_flag=True,
    help="Show only the compiled caches, and the SoCs that can use each cache.",
)
@click.option(
    "--soc",
    "--device",
    "devices",
    callback=params.names,
    metavar="SOC,SOC..",
    help="With --caches: show whether these SoCs can use the caches.  [default: the SoCs that the caches "
    "were compiled for]  With --cost: plan DRAM traffic for these SoCs.",
)
@params.sdk("--caches")
@params.svg("the place of each op of the cached graphs", "--caches")
def main(
    source: Path,
    with_ops: bool,
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
    svg: Path | None,
) -> None:
    """Show the content of a DLC, or of a context binary.

    xdlc prints history, inputs and outputs, totals, caches and HTA records. xdlc reads DLCs of the formats 3
    and 4, from xdlc and from the vendor's tools.
    """
    if not only_caches and (sdk or svg is not None or (devices and not with_cost)):
        raise UsageError("--soc, --sdk and --svg require --caches", fix="add --caches, or omit these flags")
    if only_caches and (save or display_memory or with_cost):
        raise UsageError(
            "--save, --display-memory and --cost have no effect with --caches", fix="omit --caches"
        )
    if only_caches:
        _show_caches(source, devices, sdk, svg)
        return
    from xdlc import api
    from xdlc.content.inspection import inspect

    if save is not None:
        check_target(save)
    model = api.load(source)
    content = inspect(model, source)
    tables: dict[str, Iterable[str]] = {}
    memory: dict[str, str] = {}
    if save is not None or table or display_memory:
        from xdlc.cli import op_table
        from xdlc.ir.files import replace_text

        if save is not None:
            replace_text(save, op_table.as_csv(model, content))
        totals = {graph["name"]: graph["totals"] for graph in content["graphs"]}
        rows = op_table.rows(model, content) if table else ()
        tables = {name: op_table.lines(table_rows, totals[name]) for name, table_rows in rows}
        graphs = model.graphs.values() if display_memory else ()
        memory = {graph.name: op_table.memory_line(graph) for graph in graphs}
    is_json = result(**content)
    is_former = str(click.get_current_context().info_name).startswith((*NAMES, "xdlc-info"))
    shows_ops = (is_former or with_ops or encodings or trace or table) and not brief
    if not is_json:
        from xdlc.cli.report import in_short, report

        for line in () if is_former else in_short(model, source):
            output(line)
        for line in report(content, ops=shows_ops, encodings=encodings, trace=trace, tables=tables):
            output(line)
    result(memory=memory)
    for graph, line in memory.items():
        output(f"memory of graph {graph}: {line}")
    cost = None
    if with_cost:
        from xdlc.cli.cost_table import show_cost

        with bars.steps("compiling") as step:
            cost = api.cost(source, devices, step=step)
        result(cost=cost.as_dict())
        show_cost(cost)
    if save is not None:
        written(save)
    raise_all(cost.refused if cost is not None else ())


def _show_caches(source: Path, devices: tuple[str, ...], sdk: str | None, svg: Path | None) -> None:
    from xdlc import api
    from xdlc.cli.cache_records import cache_lines, table_lines
    from xdlc.content.cache_records import cache_records, cache_table, partition_maps
    from xdlc.ir.files import replace_text
    from xdlc.page.pictures import partition

    if svg is not None:
        check_target(svg)
    model = api.load(source)
    if svg is not None:
        maps = partition_maps(model)
        if not maps:
            fix = "prepare the DLC for a SoC: xdlc prepare"
            raise UsageError("no cache has a graph of the DLC to draw", where=str(source), fix=fix)
        replace_text(svg, partition(maps))
    content = {"file": str(source), "caches": cache_records(model), **cache_table(model, devices, sdk)}
    result(**content)
    output(f"file  {clean(source)}")
    for line in ("", *table_lines(content), *cache_lines(content["caches"])):
        output(line)
    if svg is not None:
        written(svg)
