"""``xdlc-quant``: a float DLC quantized with calibration data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import bars, params, quant_flow
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.params import kernel_flags
from xdlc.cli.quant_options import SAMPLES, quantizer_flags, result_flags, sample_flags
from xdlc.cli.tool import tool


@tool("xdlc-quant", epilog=SAMPLES)
@click.option(
    "--input_dlc",
    "-i",
    "source",
    type=params.INPUT_FILE,
    required=True,
    help="The DLC to quantize.",
)
@sample_flags
@click.option(
    "--output_dlc",
    "-o",
    "target_dlc",
    type=params.OUTPUT_FILE,
    help="The result.  [default: <input>_quantized.dlc]",
)
@quantizer_flags
@kernel_flags
@result_flags
@params.DLC_VERSION
def main(
    source: Path,
    input_list: Path | None,
    native: bool,
    target_dlc: Path | None,
    report: Path | None,
    report_list: Path | None,
    export_encodings: Path | None,
    encoding_version: str,
    dlc_version: str,
    **flags: Any,
) -> None:
    """Quantize a DLC.

    Runs it on calibration samples, chooses encodings, and stores weights as integers.
    """
    from xdlc import api

    target = check_target(target_dlc or derived_path(source, "_quantized.dlc"))
    request = quant_flow.Request(
        source, input_list, native, report, report_list, export_encodings, encoding_version
    )
    made = quant_flow.quantized(request, flags)
    with bars.steps("writing"):
        api.save(made.model, target, dlc_version)
    quant_flow.finish(request, made, target)
