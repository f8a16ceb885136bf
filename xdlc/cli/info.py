"""``xdlc-info``: what a DLC holds."""

from __future__ import annotations

from pathlib import Path

import click

from xdlc.cli import common


@common.tool("xdlc-info")
@click.argument("file", required=False, type=common.INPUT_FILE)
@click.option("-i", "--input_dlc", type=common.INPUT_FILE, help="The DLC, if not given as an argument.")
@click.option("-b", "--brief", is_flag=True, help="Leave the table of ops out.")
@click.option("-d", "--encodings", is_flag=True, help="Show the encoding of every tensor.")
@click.option("-t", "--trace", is_flag=True, help="Show the source nodes that each op comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with everything.")
def main(
    file: Path | None, input_dlc: Path | None, brief: bool, encodings: bool, trace: bool, as_json: bool
) -> None:
    """Show what a DLC holds.

    Its making, inputs and outputs, ops, totals, caches, HTA records. Reads containers
    of format 3 and 4, ours and the vendor's.
    """
    source = file or input_dlc
    if source is None or (file and input_dlc):
        raise click.UsageError("name one DLC.")
    from xdlc import api
    from xdlc.cli.inspection import inspect
    from xdlc.cli.report import report

    found = inspect(api.load(source), source)
    if as_json:
        import json

        click.echo(json.dumps(found, indent=2))
        return
    for line in report(found, ops=not brief, encodings=encodings, trace=trace):
        click.echo(line)
