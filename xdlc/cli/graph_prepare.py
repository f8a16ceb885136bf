"""``xdlc-graph-prepare``: a DLC with compiled HTP caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import common


@common.tool("xdlc-graph-prepare")
@click.option("--input_dlc", "source", type=common.INPUT_FILE, required=True, help="The DLC.")
@click.option(
    "--output_dlc", "target", type=common.OUTPUT_FILE, help="The result.  [default: <input>_cached.dlc]"
)
@click.option(
    "--htp_socs",
    "socs",
    callback=common.names,
    required=True,
    metavar="SOC,SOC..",
    help="SoCs to compile for, like sm8550,sm8650; one cache each.",
)
@click.option(
    "--vtcm_override",
    type=click.IntRange(min=0),
    metavar="MB",
    help="Vector memory to plan for; less than the SoC has gives a cache that runs on smaller ones too.",
)
@click.option(
    "--optimization_level",
    type=click.IntRange(1, 3),
    default=2,
    show_default=True,
    help="3 prepares longest and gives the fastest graph.",
)
@click.option(
    "--num_hvx_threads", type=click.IntRange(min=1), metavar="N", help="Vector threads.  [default: all]"
)
@click.option("--htp_dlbc", is_flag=True, help="Compress feature maps in memory.")
@click.option(
    "--overwrite_cache_records", is_flag=True, help="Compile again where an equal cache is there already."
)
def main(source: Path, target: Path | None, socs: tuple[str, ...], **options: Any) -> None:
    """Add compiled HTP caches to a DLC.

    They come from the vendor's own compiler, one for each SoC. Where some SoCs fail, the result has the
    caches of the others, and the exit code says so.
    """
    from xdlc import api
    from xdlc.cli.inspection import caches
    from xdlc.errors import raise_all
    from xdlc.prepare.htp import prepare_all

    target = common.check_target(target or common.derived_path(source, "_cached.dlc"))
    model = api.preparable(source)
    with common.progress("compiling", "SoC", len(socs)) as progress:
        prepared = prepare_all(model, socs, progress=progress, **options)
    if prepared.done:
        prepared.model.save(target)
        for cache in caches(prepared.model):
            click.echo(f"cache {cache['record']}: {cache['soc']}, {cache['arch']}, {cache['bytes']} bytes")
        click.echo(f"written: {target}")
    raise_all(prepared.problems)
