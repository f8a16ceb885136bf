"""``xdlc-to-onnx``: a DLC as an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.tool import tool, written
from xdlc.options.graphs import ExportOptions


@tool("xdlc-to-onnx")
@click.option("-i", "--input_dlc", "source", type=params.INPUT_FILE, required=True, help="The DLC.")
@click.option(
    "-o",
    "--output_path",
    "target",
    type=params.OUTPUT_FILE,
    help="The ONNX model.  [default: the DLC's name.onnx]",
)
@params.flags_of(ExportOptions)
def main(source: Path, target: Path | None, **options: Any) -> None:
    """Write a DLC as an ONNX model that onnxruntime runs.

    Takes containers of format 3 and 4, ours and the vendor's. Names and shapes of inputs and outputs
    stay; quantized ones are float32.
    """
    from xdlc import api

    target = check_target(target or derived_path(source, ".onnx"))
    with bars.steps("writing"):
        paths = api.to_onnx(source, target, **options)
    for path in paths:
        written(path)
