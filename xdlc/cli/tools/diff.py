"""``xdlc-diff``: what differs between two models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import params
from xdlc.cli.convert_options import IN_MEMORY
from xdlc.cli.output_path import check_target
from xdlc.cli.text import clean
from xdlc.cli.tool import result, show, tool, written
from xdlc.diff import GROUPS, KINDS
from xdlc.errors import UsageError

_LISTED = f"Kinds: {', '.join(KINDS)}. Groups of kinds: {', '.join(GROUPS)}."


@tool(
    "xdlc-diff",
    epilog=f"{_LISTED} Static costs follow from other differences, and do not change the exit code.",
    codes={0: "equal", 1: "different", 2: "error"},
)
@params.source(
    "FILE",
    "Compare this file with the other one. Write two files.",
    name="models",
    type=params.MODEL,
    multiple=True,
)
@click.option("--after", type=params.MODEL, help="Compare this file, as the second one.")
@click.option(
    "--ignore",
    multiple=True,
    callback=params.names,
    metavar="KIND,KIND..",
    help="Ignore differences of these kinds or groups. Repeatable. The end of this help lists them.",
)
@click.option(
    "--only",
    multiple=True,
    callback=params.names,
    metavar="KIND,KIND..",
    help="Ignore all other kinds. Repeatable.",
)
@IN_MEMORY
@click.option("--html", type=params.OUTPUT_FILE, help="Write a page with both graphs to this file.")
@click.option("--csv", type=params.OUTPUT_FILE, help="Write a line for each difference to this file.")
def main(
    models: tuple[Path, ...],
    after: Path | None,
    ignore: tuple[str, ...],
    only: tuple[str, ...],
    html: Path | None,
    csv: Path | None,
    **options: Any,
) -> None:
    """Show what differs between two DLCs, or between a source model and its DLC.

    xdlc compares graphs, ops, parameters, encodings, weights, inputs, outputs, caches, other records and
    metadata.
    """
    from xdlc import api
    from xdlc.ir.files import csv_text, replace_text

    files = [*models, *filter(None, [after])]
    if len(files) != 2:
        count = f"{len(files)} file{'s' * (len(files) != 1)}"
        raise UsageError(f"you passed {count}", fix="pass two files: A.dlc B.dlc")
    for path in (html, csv):
        if path is not None:
            check_target(path)
    conversion = params.stated(options)
    differences = api.diff(files[0], files[1], ignore=ignore, only=only, **conversion)
    if csv is not None:
        replace_text(csv, csv_text(differences.rows()))
    if html is not None:
        api.view(files[0], html, against=files[1], ignore=differences.ignored, **conversion)
    result(**differences.as_dict())
    for line in differences.lines():
        show(clean(line))
    for path in (csv, html):
        if path is not None:
            written(path)
    if not differences.is_equal:
        click.get_current_context().exit(1)
