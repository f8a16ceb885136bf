"""``xdlc-quant``: a float DLC quantized with calibration data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import common


@common.tool(
    "xdlc-quant",
    epilog="A line of the input list is one calibration sample: `path` for a model with one input, "
    "`name:=path name2:=path2` for several. Files are raw little-endian float32, or .npy.",
)
@click.option("--input_dlc", "source", type=common.INPUT_FILE, required=True, help="The float DLC.")
@click.option("--input_list", type=common.INPUT_FILE, required=True, help="Calibration samples.")
@click.option(
    "--output_dlc", "target", type=common.OUTPUT_FILE, help="The result.  [default: <input>_quantized.dlc]"
)
@click.option(
    "--weights_bitwidth",
    type=click.Choice(["4", "8", "16"]),
    default="8",
    show_default=True,
    help="Of weights.",
)
@click.option(
    "--act_bitwidth", type=click.Choice(["8", "16"]), default="8", show_default=True, help="Of activations."
)
@click.option(
    "--bias_bitwidth", type=click.Choice(["8", "32"]), default="32", show_default=True, help="Of biases."
)
@click.option(
    "--use_per_channel_quantization/--no_per_channel_quantization",
    default=True,
    show_default=True,
    help="One scale per output channel of convolution and fully connected weights.",
)
@click.option(
    "--use_native_input_files",
    "native",
    is_flag=True,
    help="Raw files hold the inputs' own datatypes instead of float32.",
)
@common.DLC_VERSION
def main(
    source: Path,
    input_list: Path,
    target: Path | None,
    weights_bitwidth: str,
    act_bitwidth: str,
    bias_bitwidth: str,
    native: bool,
    dlc_version: str,
    **options: Any,
) -> None:
    """Quantize a DLC.

    Runs it on calibration samples, chooses encodings, and stores weights as integers.
    """
    from xdlc import api
    from xdlc.cli.contract import contract
    from xdlc.runtime.input_list import read_input_list

    target = common.check_target(target or common.derived_path(source, "_quantized.dlc"))
    model = api.executable(source)
    samples = read_input_list(input_list, model.main, native=native)
    with common.progress("calibrating", "sample", len(samples)) as progress:
        quantized = api.quantize(
            model,
            samples.samples(),
            weights_bitwidth=int(weights_bitwidth),
            act_bitwidth=int(act_bitwidth),
            bias_bitwidth=int(bias_bitwidth),
            progress=progress,
            **options,
        )
    quantized.save(target, version=dlc_version)
    for line in contract(quantized):
        click.echo(line)
    click.echo(f"calibrated with {len(samples)} sample(s)")
    click.echo(f"written: {target}")
