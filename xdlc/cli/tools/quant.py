"""``xdlc-quant``: a float DLC quantized with calibration data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xdlc.cli import bars, quant_flow
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.quant_options import SAMPLES, file_flags, quantizer_flags
from xdlc.cli.tool import tool


@tool("xdlc-quant", epilog=SAMPLES)
@file_flags
@quantizer_flags
def main(source: Path, target_dlc: Path | None, dlc_version: str, **flags: Any) -> None:
    """Quantize a DLC.

    Runs it on calibration samples, chooses encodings, and stores weights as integers.
    """
    from xdlc import api

    target = check_target(target_dlc or derived_path(source, "_quantized.dlc"))
    request = quant_flow.take_request(source, flags)
    made = quant_flow.quantized(request, flags)
    with bars.steps("writing"):
        api.save(made.model, target, dlc_version)
    quant_flow.finish(request, made, target)
