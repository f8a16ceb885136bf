"""``xconv-onnx-to-dlc``: an ONNX model as a DLC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import common


@common.tool("xconv-onnx-to-dlc")
@click.option(
    "-i", "--input_network", "source", type=common.INPUT_FILE, required=True, help="The ONNX model."
)
@click.option(
    "-o", "--output_path", "target", type=common.OUTPUT_FILE, help="The DLC.  [default: the model's name.dlc]"
)
@click.option(
    "-d",
    "--input_dim",
    "input_dims",
    type=(str, str),
    multiple=True,
    callback=common.dims_by_name,
    metavar="NAME D1,D2,..",
    help="Shape of an input; needed where the model leaves it open. Repeatable.",
)
@click.option("-b", "--batch", type=common.EXTENT, help="First extent of every input.")
@click.option(
    "-s",
    "--define_symbol",
    "define_symbol",
    type=(str, common.EXTENT),
    multiple=True,
    metavar="SYMBOL N",
    help="Value of a symbolic dimension. Repeatable.",
)
@click.option(
    "--out_name",
    "out_name",
    multiple=True,
    callback=common.distinct_names,
    metavar="NAME",
    help="Tensor at which the graph ends instead of the model's outputs. Repeatable.",
)
@click.option("--disable_batchnorm_folding", is_flag=True, help="Keep Batchnorm apart from convolutions.")
@common.DLC_VERSION
def main(
    source: Path,
    target: Path | None,
    input_dims: dict[str, tuple[int, ...]],
    define_symbol: tuple[tuple[str, int], ...],
    out_name: tuple[str, ...],
    dlc_version: str,
    **options: Any,
) -> None:
    """Convert an ONNX model into a DLC.

    Prints what goes in, what comes out and what was inserted. Inputs and outputs keep the model's
    names, layout and datatypes.
    """
    from xdlc import api
    from xdlc.cli.contract import contract, host_only, inserted

    target = common.check_target(target or common.derived_path(source, ".dlc"), keep=source)
    model = api.convert(
        source,
        input_dims=input_dims or None,
        define_symbol=dict(define_symbol) or None,
        out_name=out_name or None,
        **options,
    )
    model.save(target, version=dlc_version)
    for line in (*contract(model), *inserted(model), *host_only(model)):
        click.echo(line)
    click.echo(f"written: {target}")
