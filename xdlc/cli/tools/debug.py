"""``xdlc-debug``: the first op that two engines compute in different ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target
from xdlc.cli.tool import notice, result, show, tool, written
from xdlc.options.running import DebugOptions

WRONG = 5
"""Exit code if an op is wrong."""


@tool(
    "xdlc-debug",
    epilog="The exit code is 5 if an op is wrong. FRAMEWORK is caffe, onnx, pytorch, tensorflow or tflite.",
)
@params.DLC
@params.listing("Compare on the samples of this list, one on each line, or of this folder.", required=True)
@params.flags_of(
    DebugOptions,
    without=("notify",),
    settings={
        "reference": {"type": str},  # an engine, maybe a folder
        "candidate": {"type": str},
        "reproducer": {"type": params.FilePath(file_okay=False, path_type=Path)},
    },
)
@click.option(
    "--report",
    type=params.OUTPUT_FILE,
    help="Write the figures of all tensors to this .html, .json or .csv file.",
)
def main(source: Path, input_list: Path, report: Path | None, **options: Any) -> None:
    """Compare two engines tensor by tensor, and name the first op that is wrong."""
    from xdlc import api
    from xdlc.debug.report import check_path

    if report is not None:
        check_path(check_target(report))
    with bars.steps("comparing"):
        comparison = api.debug(source, input_list, notify=notice, **options)
    result(**comparison.as_json())
    for line in str(comparison).splitlines():
        show(line)
    if report is not None:
        comparison.write(report)
        written(report)
    if comparison.first_wrong is not None:
        click.get_current_context().exit(WRONG)
