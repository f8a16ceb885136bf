"""``xdlc-graph-prepare``: a DLC with compiled HTP caches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from xdlc.cli import bars, cache_check, params
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.tool import notice, show, tool
from xdlc.errors import UsageError

DEFAULT_SOC = "sm8650"  # of the vendor's tool
SEPARATE = "Repeat the flag, or separate with commas."


def _switch(name: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a flag that takes a value as well, like ``--flag=true``, as the vendor's tool has them."""
    return click.option(
        name, type=bool, is_flag=False, flag_value=True, default=False, metavar="[true|false]", help=text
    )


@tool(
    "xdlc-graph-prepare",
    epilog="Flags that change outputs, types or extents change the network in the result too, so that graph "
    f"and caches agree. {cache_check.EXIT_CODES}",
)
@click.option("--input_dlc", "source", type=params.INPUT_FILE, required=True, help="The DLC.")
@click.option(
    "--output_dlc", "target", type=params.OUTPUT_FILE, help="The result.  [default: <input>_cached.dlc]"
)
@click.option(
    "--htp_socs",
    "socs",
    callback=params.names,
    metavar="SOC,SOC..",
    help=f"SoCs to compile for, like sm8550,sm8650; one cache each.  [default: {DEFAULT_SOC}]",
)
@click.option(
    "--htp_archs",
    callback=params.names,
    metavar="ARCH,ARCH..",
    help="Architectures instead of SoCs, like v68,v73; one cache each, which runs on all SoCs of it.",
)
@click.option(
    "--vtcm_override",
    type=click.IntRange(min=0),
    metavar="MB",
    help="Vector memory to plan for; less than the SoC has gives a cache that runs on smaller ones too. "
    "0 is all that it has.  [default: 0]",
)
@click.option(
    "--optimization_level",
    type=click.IntRange(1, 3),
    default=2,
    show_default=True,
    help="3 prepares longest and gives the fastest graph.",
)
@click.option(
    "--num_hvx_threads", type=click.IntRange(min=1), metavar="N", help="Vector threads.  [default: all]"
)
@_switch("--htp_dlbc", "Compress feature maps in memory.")
@click.option(
    "--share_weights",
    is_flag=True,
    help="Keep weights in records that caches for several SoCs have in common. Such caches run on devices "
    "only, not on the emulation.",
)
@click.option(
    "--overwrite_cache_records", is_flag=True, help="Compile again what is there already, whoever made it."
)
@click.option(
    "--partition",
    is_flag=True,
    help="Where HTP does not take all ops, compile the largest parts that it takes and leave the rest to the "
    "CPU. What crosses from a part to elsewhere becomes an output.",
)
@click.option(
    "--set_output_tensors",
    multiple=True,
    metavar="T1,T2",
    help="Tensors that become the outputs, in the place of the graph's own; 'GRAPH T1,T2' for a graph that "
    "is not the main one. What no output needs is left out.",
)
@click.option(
    "--set_output_layers", multiple=True, metavar="OP1,OP2", help="The same, for all outputs of these ops."
)
@click.option(
    "--input_list",
    type=params.INPUT_FILE,
    help="An input list, of which only the lines with names of ops (#) and of tensors (%) are read, as if "
    "given to the two flags above.",
)
@click.option(
    "--use_float_io",
    is_flag=True,
    help="Make quantized inputs and outputs float32; the graph converts them inside.",
)
@click.option(
    "--buffer_data_type",
    multiple=True,
    metavar="NAME=TYPE",
    help="Type of one input or output: float32, fixedPoint8 or fixedPoint16. " + SEPARATE,
)
@click.option(
    "--input_name",
    "input_names",
    multiple=True,
    metavar="NAME",
    help="An input that gets other dimensions; goes with --input_dimensions, both repeatable.",
)
@click.option("--input_dimensions", "extents", multiple=True, metavar="D,D..", help="Its dimensions.")
@_switch(
    "--memorymapped_buffer_hint", "Accepted; changes nothing, for a device decides where its buffers are."
)
@click.option(
    "--udo_package_path",
    metavar="LIBRARY",
    help="Accepted; changes nothing: users' ops stay on the CPU, see --partition.",
)
@cache_check.options
def main(
    source: Path,
    target: Path | None,
    socs: tuple[str, ...],
    htp_archs: tuple[str, ...],
    input_names: tuple[str, ...],
    extents: tuple[str, ...],
    memorymapped_buffer_hint: bool,
    udo_package_path: str | None,
    check: tuple[str, ...],
    outputs: tuple[str, ...],
    mode: str | None,
    sdk: str | None,
    **options: Any,
) -> None:
    """Add compiled HTP caches to a DLC.

    They come from the vendor's own compiler, one for each SoC. Where some SoCs fail, the result has the
    caches of the others, and the exit code says so.
    """
    from xdlc import api
    from xdlc.cli.cache_records import summary
    from xdlc.errors import raise_all

    if cache_check.is_asked(click.get_current_context().params):
        cache_check.show(source, check, outputs, mode, sdk)
        return
    if udo_package_path is not None:
        notice(
            "--udo_package_path changes nothing: libraries that prepare users' ops for HTP are built with "
            "the vendor's SDK and loaded by its tool alone; here such ops stay on the CPU, with --partition"
        )
    if len(input_names) != len(extents):
        raise UsageError(
            f"--input_name is given {len(input_names)} times, --input_dimensions {len(extents)} times",
            fix="give both for each input: --input_name NAME --input_dimensions 1,3,224,224",
        )
    if memorymapped_buffer_hint:
        notice("--memorymapped_buffer_hint changes nothing: the device decides where its buffers are")
    if not socs and not htp_archs:
        notice(f"no SoC is named, {DEFAULT_SOC} is taken")
        socs = (DEFAULT_SOC,)
    dims = params.dims(zip(input_names, extents, strict=True))
    target = check_target(target or derived_path(source, "_cached.dlc"))
    with bars.outcomes("compiling", "SoC", len(socs or htp_archs)) as (notify, found):
        prepared = api.prepare_all(
            source, socs, htp_archs=htp_archs, input_dimensions=dims, notify=notify, **options
        )
    for text in prepared.notices:
        notice(text)
    for line in summary(prepared.model, found):
        show(line)
    if prepared.done:
        with bars.steps("writing"):
            prepared.model.save(target)
        show(f"written: {target}")
    raise_all(prepared.problems)
