"""``xdlc-quant``: a float DLC quantized with calibration data."""

from __future__ import annotations

from collections.abc import Sized
from functools import partial
from pathlib import Path
from typing import Any

import click

from xdlc.cli import common
from xdlc.cli.quant_options import quantizer_flags, result_flags


@common.tool(
    "xdlc-quant",
    epilog="A line of the input list is one calibration sample: `path` for a model with one input, "
    "`name:=path name2:=path2` for several. Files are raw little-endian float32, or .npy. Instead of a list, "
    "one .npz (or .npy for a model with one input) may hold all samples along a first axis. "
    "Flags of snpe-dlc-quant and qairt-quantizer are understood under their names, given-up ones too.",
)
@click.option("--input_dlc", "-i", "source", type=common.INPUT_FILE, required=True, help="The float DLC.")
@click.option("--input_list", "-l", type=common.INPUT_FILE, help="Calibration samples.")
@click.option(
    "--output_dlc",
    "-o",
    "target_dlc",
    type=common.OUTPUT_FILE,
    help="The result.  [default: <input>_quantized.dlc]",
)
@quantizer_flags
@click.option(
    "--use_native_input_files",
    "native",
    is_flag=True,
    help="Raw files hold the inputs' own datatypes instead of float32.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes that calibrate."
)
@result_flags
@common.DLC_VERSION
def main(
    source: Path,
    input_list: Path | None,
    target_dlc: Path | None,
    native: bool,
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
    from xdlc.cli.contract import contract
    from xdlc.quant.legacy import modern
    from xdlc.quant.overrides import save_encodings
    from xdlc.quant.report import Reporter, summary
    from xdlc.quant.samples import from_list

    options, notices = modern(flags)
    for notice in notices:
        click.echo(f"notice: {notice}", err=True)
    target = common.check_target(target_dlc or common.derived_path(source, "_quantized.dlc"))
    for path in (report, export_encodings):
        if path is not None:
            common.check_target(path, keep=source)
    model = api.executable(source)
    samples = from_list(input_list, model.main, native=native)
    held_out = None if report_list is None else from_list(report_list, model.main, native=native)
    count = len(samples) if isinstance(samples, Sized) else 0
    with common.steps() as step:
        measured = partial(step, "measuring for the report")
        reporter = None if report is None else Reporter(report, held_out, progress=measured)
        quantized = api.quantize(
            model,
            samples,
            progress=lambda done: step("calibrating", done, count),
            tried=lambda done: step("trying widths", done, 0),
            step=step,
            report=reporter,
            tell=lambda note: click.echo(f"note: {note}"),
            **options,
        )
    quantized.save(target, version=dlc_version)
    for line in contract(quantized):
        click.echo(line)
    click.echo(f"calibrated with {count} sample(s)")
    if reporter is not None and reporter.result is not None:
        for line in summary(reporter.result):
            click.echo(line)
    click.echo(f"written: {target}")
    if report is not None:
        click.echo(f"report: {report}")
    if export_encodings is not None:
        click.echo(f"encodings: {save_encodings(quantized, export_encodings, encoding_version)}")
