"""``xdlc-batch``: many models, options and SoCs, in one table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from xdlc.cli import bars, params
from xdlc.cli.tool import result, show, tool, written
from xdlc.errors import XdlcError
from xdlc.options.running import WorkerOptions

_SHOWN = 20


@tool(
    "xdlc-batch",
    epilog="If you interrupt xdlc, the same command continues the work. It makes only DLCs that are missing, "
    "that failed, or whose files or options changed.",
)
@click.argument("folder", type=params.MODEL, metavar="FOLDER")
@click.argument("recipe", type=params.INPUT_FILE, metavar="RECIPE.yaml")
@params.output("Write the DLCs and the table to this folder.  [default: <folder>_dlc]", metavar="FOLDER")
@params.flags_of(WorkerOptions, without=("executor",))
def main(folder: Path, recipe: Path, target: Path | None, **options: Any) -> None:
    """Convert, quantize and prepare all models of a folder.

    The recipe has the models, the variants, and the options of each step. The table has a row for each model,
    variant and SoC: status, size, accuracy, verification, memory traffic and time.
    """
    from xdlc import api

    source = folder.resolve()  # "." has no name
    output = target or source.with_name(f"{source.name}_dlc")
    with bars.steps("making", "DLC") as step:
        batch = api.batch(folder, recipe, output, step=step, **params.stated(options))
    result(kept=batch.kept, rows=[asdict(row) for row in batch.rows])
    for row in batch.failures[:_SHOWN]:
        place = " ".join(filter(None, (row.model, row.variant, row.soc)))
        show(f"failed: {place}: {row.problem}")
    for path in batch.files:
        written(path)
    show(
        f"{len(batch.rows)} rows, {len(batch.failures)} failed; an earlier call made {batch.kept} of the DLCs"
    )
    if batch.failures:
        raise XdlcError(
            f"{len(batch.failures)} of {len(batch.rows)} rows failed",
            where=str(batch.files[0]),
            fix="read the column 'problem'; the same command makes these DLCs again",
        )
