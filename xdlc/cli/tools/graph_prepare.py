"""``xdlc-graph-prepare``: a DLC with compiled HTP caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.params import all_of, flags_of, port_flags, stated
from xdlc.cli.tool import facts, notice, output, show, tool, written
from xdlc.errors import UsageError
from xdlc.options import DEFAULT_SOC
from xdlc.options.graphs import CompileOptions, EditOptions

if TYPE_CHECKING:
    from xdlc.ir import Model

_OWN = ("check", "outputs", "mode", "sdk")
_WITH = (*_OWN, "source", "socs")


_CHECK = all_of(
    click.option(
        "--check",
        is_flag=False,
        flag_value="",
        callback=params.names,
        metavar="[SOC,SOC..]",
        help="Compile nothing: list which caches are usable on these SoCs, or on the SoCs of --soc.",
    ),
    click.option(
        "--outputs",
        callback=params.names,
        metavar="T1,T2",
        help="With --check: require these output tensors.  [default: the graph's outputs]",
    ),
    click.option(
        "--mode",
        type=click.Choice(["permissive", "strict"]),
        help="With --check: permissive accepts caches that run; strict accepts caches that use the "
        "device fully.  [default: permissive]",
    ),
    params.sdk("--check"),
)
"""The flags of checking."""
_SWITCH: dict[str, Any] = {"type": bool, "is_flag": False, "flag_value": True, "metavar": "[true|false]"}
"""Settings of a flag that takes a value as well, like ``--flag=true``, as the vendor's tool has them."""
_SEVERAL = {"multiple": True, "callback": None, "type": str}


@tool(
    "xdlc-graph-prepare",
    epilog="Flags that change outputs, types or dimensions change both the graph and the caches of the "
    "result. With --check, the exit code is 0 if every SoC has a usable cache, 5 if a SoC lacks a usable "
    "cache, and 2 if a name is unknown.",
)
@params.DLC
@params.output("Write the result to this file.  [default: <input>_cached.dlc]", "--output-dlc")
@click.option(
    "--soc",
    "--htp-socs",
    "socs",
    callback=params.names,
    metavar="SOC,SOC..",
    help=f"Compile one cache for each of these SoCs, like sm8550,sm8650.  [default: {DEFAULT_SOC}]",
)
@click.option(
    "--export-binary",
    "exported",
    type=params.OUTPUT_FILE,
    metavar="FILE.bin|FOLDER",
    help="Also write each cache as a context binary. In a folder, a file's name joins the names of DLC and "
    "SoC. Without -o, xdlc writes no DLC. xdlc does not compile a cache again that is up to date.",
)
@click.option(
    "--export-epcontext",
    "contexts",
    type=params.OUTPUT_FILE,
    metavar="FOLDER",
    help="Write an ONNX model with an EPContext node for each graph, for onnxruntime's QNN provider. Also "
    "write the cache of each SoC, next to the model.",
)
@click.option(
    "--embed-context", is_flag=True, help="With --export-epcontext: store the caches inside the ONNX models."
)
@flags_of(
    CompileOptions,
    without=("executor", "timeout"),
    settings={
        "verify": {"type": str, "is_flag": False, "flag_value": ""},
        "htp_archs": {"multiple": False, "callback": params.names},
        "htp_dlbc": _SWITCH,
    },
)
@click.option("--no-verify", is_flag=True, help="Store caches without running them on the emulation.")
@flags_of(
    EditOptions,
    without=("input_dimensions",),
    settings=dict.fromkeys(("set_output_tensors", "set_output_layers", "buffer_data_type"), _SEVERAL),
)
@port_flags
@params.template_flag("custom_io_config", "custom_io")
@all_of(*params.dimension_flags)
@_CHECK
def main(
    source: Path,
    target: Path | None,
    socs: tuple[str, ...],
    htp_archs: tuple[str, ...],
    exported: Path | None,
    contexts: Path | None,
    embed_context: bool,
    verify: str | None,
    no_verify: bool,
    input_names: tuple[str, ...],
    input_dimensions: tuple[str, ...],
    check: tuple[str, ...],
    outputs: tuple[str, ...],
    mode: str | None,
    sdk: str | None,
    dump_custom_io_config_template: Path | None,
    **options: Any,
) -> None:
    """Add compiled HTP caches to a DLC.

    The vendor's compiler makes a cache for each SoC. If compiling for a SoC fails, the result has the caches
    of the remaining SoCs, and the exit code is not 0.
    """
    from xdlc import api
    from xdlc.cli.cache_records import summary
    from xdlc.container.caches import caches
    from xdlc.content.cache_records import cache_records
    from xdlc.errors import raise_all
    from xdlc.prepare.htp import by_cause
    from xdlc.runtime.htp.context_binary import binary_names

    if _is_check(click.get_current_context().params):
        _show_verdicts(source, (*check, *socs), outputs, mode, sdk)
        return
    if dump_custom_io_config_template is not None:
        from xdlc.cli.ports import write_template

        write_template(api.executable(source), dump_custom_io_config_template)
        return
    if no_verify and verify is not None:
        raise UsageError("--verify and --no-verify exclude each other", fix="omit one flag")
    if no_verify and options["verify_budget"] is not None:
        raise UsageError("--verify-budget has no effect with --no-verify", fix="omit one flag")
    dims = params.dims_of(input_names, input_dimensions)
    export = partial(_export, source, exported, contexts, embed_context)
    if embed_context and contexts is None:
        raise UsageError(
            "--embed-context has no effect", fix="add --export-epcontext FOLDER, or omit --embed-context"
        )
    if (exported or contexts) and not (stored := api.load(source)).graphs:
        export(stored, socs or [cache.soc for cache in caches(stored)])
        return
    if not socs and not htp_archs:
        notice(f"you passed no SoC; xdlc uses {DEFAULT_SOC}")
        socs = (DEFAULT_SOC,)
    if not (exported or contexts) or target is not None:
        target = check_target(target or derived_path(source, "_cached.dlc"))
    if exported is not None:
        binary_names(source, exported, [*socs, *htp_archs])
    with bars.steps("compiling", "SoC") as step:
        prepared = api.prepare_all(
            source,
            socs,
            htp_archs=htp_archs,
            input_dimensions=dims,
            step=step,
            verify=verify or not no_verify,
            **stated(options),
        )
    for text in prepared.notices:
        notice(text)
    facts(socs=prepared.done, failed=prepared.failed, caches=cache_records(prepared.model))
    for line in summary(prepared):
        show(line)
    if prepared.done and target is not None:
        _tell_replaced(target, prepared.model)
        with bars.steps("writing"):
            prepared.model.save(target)
        written(target)
    if exported or contexts:
        export(prepared.model, prepared.done)
    raise_all(by_cause(prepared))


def _tell_replaced(target: Path, model: Model) -> None:
    """Print a notice if a file to replace has caches for SoCs that the model has not."""
    from xdlc import api
    from xdlc.container.caches import caches
    from xdlc.errors import XdlcError
    from xdlc.ir.files import kept_apart

    with suppress(XdlcError), kept_apart(()):  # the file may be missing, or no DLC
        before = dict.fromkeys(cache.soc for cache in caches(api.load(target)))
        lost = [soc for soc in before if soc not in {cache.soc for cache in caches(model)}]
        if lost:
            notice(
                f"xdlc replaces {target}, with caches for {', '.join(before)}, and drops {', '.join(lost)}"
            )


def _export(
    source: Path,
    exported: Path | None,
    contexts: Path | None,
    embed: bool,
    model: Model,
    socs: Sequence[str],
) -> None:
    """Write the caches of SoCs as context binaries, and with ONNX models around them.

    Args:
        source: The DLC, after which files are named.
        exported: A file or folder of binaries, if requested.
        contexts: The folder of ONNX models, if requested.
        embed: Whether these hold the caches.
        model: The model with the caches.
    """
    from xdlc.cli.output_path import folder_for
    from xdlc.ir.files import replace_file
    from xdlc.runtime.export.epcontext import export_epcontext
    from xdlc.runtime.htp.context_binary import binary_names, binary_of

    files = binary_names(source, exported, socs) if exported is not None and socs else {}
    for soc, path in files.items():
        with folder_for(path):
            replace_file(path, binary_of(model, soc).write_to)
        written(path)
    if contexts is None:
        return
    for soc in socs:
        with folder_for(contexts / "model.onnx"):
            for path in export_epcontext(model, contexts, source.stem, soc, embed=embed):
                written(path)


def _is_check(flags: Mapping[str, Any]) -> bool:
    """Return whether the tool only checks caches."""
    options = params.typed(flags)
    check = any(param.name == "check" for param in options)
    wrong = [
        param.opts[-1] for param in options if (param.name not in _WITH if check else param.name in _OWN)
    ]
    if wrong and check:
        raise UsageError(
            f"{wrong[0]} has no effect with --check, which compiles nothing", fix="omit one flag"
        )
    if wrong:
        raise UsageError(f"{wrong[0]} requires --check", fix=f"add --check SOC, or omit {wrong[0]}")
    return check


def _show_verdicts(
    source: Path, check: tuple[str, ...], outputs: tuple[str, ...], mode: str | None, sdk: str | None
) -> None:
    """Print a row for each cache and device."""
    from xdlc import api
    from xdlc.cli.cache_records import table_lines
    from xdlc.errors import raise_all
    from xdlc.opdefs.control_flow import has_control_flow
    from xdlc.runtime.htp.cache_verdict import device_soc, lacking, table
    from xdlc.runtime.htp.support import judge

    devices = list(dict.fromkeys(map(device_soc, check or (DEFAULT_SOC,))))
    model = api.load(source)
    rows = table(model, devices, outputs=outputs or None, modes=[mode or "permissive"], sdk=sdk)
    verdicts = [row.words() for row in rows]
    facts(verdicts=verdicts)
    for line in table_lines({"verdicts": verdicts, "without_htp": []}):
        output(line)
    for soc in devices if any(map(has_control_flow, model.graphs.values())) else ():
        for line in judge(model, soc).inner:
            show(f"{soc.name}: {line}")
    raise_all(lacking(model, rows, devices), where=str(source))
