"""``xdlc-quant``: a float DLC quantized with calibration data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import params, quant_flow
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.quant_flow import SAMPLES, file_flags, quantizer_flags
from xdlc.cli.tool import tool


@tool("xdlc-quant", epilog=SAMPLES)
@file_flags
@click.option(
    "--preserve_io_datatype",
    cls=params.WordsOption,
    callback=lambda _ctx, _param, given: " ".join(given).split() if given else None,
    metavar="[NAME..]",
    help="Keep the named inputs and outputs float32, or all, with Quantize and Dequantize inside.",
)
@quantizer_flags
def main(
    source: Path,
    target_dlc: Path | None,
    preserve_io_datatype: list[str] | None,
    dlc_version: str,
    **flags: Any,
) -> None:
    """Quantize a DLC.

    Runs it on calibration samples, chooses encodings, and stores weights as integers.
    """
    from xdlc import api

    target = check_target(target_dlc or derived_path(source, "_quantized.dlc"))
    request = quant_flow.take_request(source, flags)
    made = quant_flow.quantized(request, flags)
    api.annotate(made.model, preserve_io_datatype=preserve_io_datatype)
    quant_flow.save(request, made.model, target, dlc_version)
    quant_flow.finish(request, made, target)
