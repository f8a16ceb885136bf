"""``xdlc-to-onnx``: a DLC as an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.tool import tool, written
from xdlc.options.graphs import ExportOptions


@tool("xdlc-to-onnx")
@params.DLC
@params.output("Write the ONNX model to this file.  [default: the DLC's name.onnx]", "--output-path")
@params.flags_of(ExportOptions)
def main(source: Path, target: Path | None, **options: Any) -> None:
    """Write a DLC as an ONNX model that onnxruntime runs.

    xdlc reads DLCs of the formats 3 and 4, from xdlc and from the vendor's tools. Inputs and outputs keep
    their names and shapes; quantized inputs and outputs become float32.
    """
    from xdlc import api

    target = check_target(target or derived_path(source, ".onnx"))
    with bars.steps("writing"):
        paths = api.to_onnx(source, target, **options)
    for path in paths:
        written(path)
