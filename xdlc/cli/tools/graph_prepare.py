"""``xdlc-graph-prepare``: a DLC with compiled HTP caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.tool import notice, show, tool
from xdlc.errors import UsageError

DEFAULT_SOC = "sm8650"  # of the vendor's tool
SEPARATE = "Repeat the flag, or separate with commas."
_OWN = ("check", "outputs", "mode", "sdk")
_WITH = (*_OWN, "source")
EXIT_CODES = (
    "With --check: exit code 0 if every device has a usable cache, 5 if one has none, "
    "2 if a name is not known."
)


def _switch(name: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a flag that takes a value as well, like ``--flag=true``, as the vendor's tool has them."""
    return click.option(
        name, type=bool, is_flag=False, flag_value=True, default=False, metavar="[true|false]", help=text
    )


def _check_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of ``--check``."""
    for option in (
        click.option(
            "--sdk", metavar="VERSION", help="With --check: SDK of the devices.  [default: installed here]"
        ),
        click.option(
            "--mode",
            type=click.Choice(["permissive", "strict"]),
            help="With --check: permissive, if caches have to run; strict, if they have to use the device "
            "fully.  [default: permissive]",
        ),
        click.option(
            "--outputs",
            callback=params.names,
            metavar="T1,T2",
            help="With --check: required output tensors.  [default: the graph's outputs]",
        ),
        click.option(
            "--check",
            callback=params.names,
            metavar="SOC,SOC..",
            help="Compile nothing: list which caches in the DLC are usable on these devices.",
        ),
    ):
        function = option(function)
    return function


@tool(
    "xdlc-graph-prepare",
    epilog="Flags that change outputs, types or dimensions change the network in the result too, so that "
    f"graph and caches agree. {EXIT_CODES}",
)
@click.option("--input_dlc", "-i", "source", type=params.INPUT_FILE, required=True, help="The DLC.")
@click.option(
    "--output_dlc",
    "-o",
    "target",
    type=params.OUTPUT_FILE,
    help="The result.  [default: <input>_cached.dlc]",
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
    help="Vector memory to plan for: with less than the SoC has, the cache runs on smaller ones too; 0: all "
    "that it has.  [default: 0]",
)
@click.option(
    "--optimization_level",
    type=click.IntRange(1, 3),
    default=2,
    show_default=True,
    help="Effort of the compiler: 3 compiles longest and makes the fastest graph.",
)
@click.option(
    "--num_hvx_threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of vector threads.  [default: all]",
)
@_switch("--htp_dlbc", "Compress feature maps in memory.")
@click.option(
    "--share_weights",
    is_flag=True,
    help="Keep weights in records that caches for several SoCs have in common. Such caches run on devices "
    "only, not on the emulation.",
)
@click.option(
    "--overwrite_cache_records",
    is_flag=True,
    help="Compile again where there is a cache already, whoever made it.",
)
@click.option(
    "--partition",
    is_flag=True,
    help="Compile the largest partitions that HTP supports where it does not support all ops; the CPU runs "
    "the rest. Tensors that leave a partition become outputs. Branches and loop bodies are divided so with "
    "and without this flag.",
)
@click.option(
    "--set_output_tensors",
    multiple=True,
    metavar="T1,T2",
    help="Tensors that become the outputs, in the place of the graph's own; 'GRAPH T1,T2' for a graph that "
    "is not the main one. Ops that no output needs are removed.",
)
@click.option(
    "--set_output_layers",
    multiple=True,
    metavar="OP1,OP2",
    help="Ops whose outputs become those of the graph, in the place of its own.",
)
@click.option(
    "--input_list",
    type=params.INPUT_FILE,
    help="Input list whose lines with names of ops (#) and tensors (%) are read as --set_output_layers and "
    "--set_output_tensors.",
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
@params.port_flags
@params.template_flag("custom_io_config", "custom_io")
@params.dimension_flags
@_switch(
    "--memorymapped_buffer_hint", "Accepted; changes nothing, for a device decides where its buffers are."
)
@click.option(
    "--udo_package_path",
    metavar="LIBRARY",
    help="Accepted; changes nothing: UDOs stay on the CPU, see --partition.",
)
@_check_options
def main(
    source: Path,
    target: Path | None,
    socs: tuple[str, ...],
    htp_archs: tuple[str, ...],
    input_names: tuple[str, ...],
    input_dims: tuple[str, ...],
    memorymapped_buffer_hint: bool,
    udo_package_path: str | None,
    check: tuple[str, ...],
    outputs: tuple[str, ...],
    mode: str | None,
    sdk: str | None,
    dump_custom_io_config_template: Path | None,
    **options: Any,
) -> None:
    """Add compiled HTP caches to a DLC.

    They come from the vendor's own compiler, one for each SoC. Where some SoCs fail, the result has the
    caches of the others, and the exit code is not 0.
    """
    from xdlc import api
    from xdlc.cli.cache_records import summary
    from xdlc.errors import raise_all
    from xdlc.prepare.htp import by_cause

    if _is_check(click.get_current_context().params):
        _show_verdicts(source, check, outputs, mode, sdk)
        return
    if dump_custom_io_config_template is not None:
        from xdlc.cli.report import write_template

        write_template(api.executable(source), dump_custom_io_config_template)
        return
    if udo_package_path is not None:
        notice(
            "--udo_package_path changes nothing: libraries that prepare UDOs for HTP are built with "
            "the vendor's SDK and loaded by its tool alone; here such ops stay on the CPU, with --partition"
        )
    dims = params.dims_of(input_names, input_dims)
    if memorymapped_buffer_hint:
        notice("--memorymapped_buffer_hint changes nothing: the device decides where its buffers are")
    if not socs and not htp_archs:
        notice(f"no SoC is named: the default is {DEFAULT_SOC}")
        socs = (DEFAULT_SOC,)
    target = check_target(target or derived_path(source, "_cached.dlc"))
    with bars.steps("compiling", "SoC") as step:
        prepared = api.prepare_all(
            source, socs, htp_archs=htp_archs, input_dimensions=dims, step=step, **options
        )
    for text in prepared.notices:
        notice(text)
    for line in summary(prepared):
        show(line)
    if prepared.done:
        with bars.steps("writing"):
            prepared.model.save(target)
        show(f"written: {target}")
    raise_all(by_cause(prepared))


def _is_check(given: Mapping[str, Any]) -> bool:
    """Return whether the tool only checks caches.

    Raises:
        UsageError: If options of checking and of compiling are given together.
    """
    context = click.get_current_context()
    options = [
        param
        for param in context.command.params
        if param.name in given and context.get_parameter_source(param.name) == ParameterSource.COMMANDLINE
    ]
    check = bool(given["check"])
    wrong = [param.opts[0] for param in options if (param.name not in _WITH if check else param.name in _OWN)]
    if wrong and check:
        raise UsageError(
            f"{wrong[0]} does not go with --check, which compiles nothing", fix="omit one of the two"
        )
    if wrong:
        raise UsageError(f"{wrong[0]} goes with --check", fix=f"add --check SOC, or omit {wrong[0]}")
    return check


def _show_verdicts(
    source: Path, check: tuple[str, ...], outputs: tuple[str, ...], mode: str | None, sdk: str | None
) -> None:
    """Print a row for each cache and device.

    Raises:
        ConstraintError: If a device has no usable cache.
    """
    from xdlc import api
    from xdlc.cli.cache_records import table_lines
    from xdlc.errors import raise_all
    from xdlc.opdefs.control_flow import has_control_flow
    from xdlc.runtime.htp.cache_verdict import device_soc, lacking, table
    from xdlc.runtime.htp.support import judge

    devices = list(dict.fromkeys(map(device_soc, check)))
    model = api.load(source)
    rows = table(model, devices, outputs=outputs or None, modes=[mode or "permissive"], sdk=sdk)
    for line in table_lines({"verdicts": [row.words() for row in rows], "without_htp": []}):
        click.echo(line)
    for soc in devices if any(map(has_control_flow, model.graphs.values())) else ():
        for line in judge(model, soc).inner:
            show(f"{soc.name}: {line}")
    raise_all(lacking(model, rows, devices), where=str(source))
