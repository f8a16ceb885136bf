"""``xdlc-quantize``: a DLC quantized with samples, and prepared in the same call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params, quant_flow
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.params import all_of, flags_of
from xdlc.cli.quant_flow import SAMPLES, file_flags, quantizer_flags
from xdlc.cli.tool import facts, note, notice, tool
from xdlc.errors import UsageError, XdlcError, each_problem
from xdlc.options import DEFAULT_SOC, options_of
from xdlc.options.graphs import AnnotateOptions, CompileOptions, EditOptions

if TYPE_CHECKING:
    from xdlc.ir import Model
    from xdlc.prepare.hta import PreparedHta


_PREPARING = all_of(
    click.option(
        "--prepare",
        "--htp-socs",
        "socs",
        is_flag=False,
        flag_value=DEFAULT_SOC,
        callback=params.names,
        metavar="[SOC,SOC..]",
        help=f"Add compiled HTP caches, one for each SoC.  [default: none; without a value {DEFAULT_SOC}]",
    ),
    click.option("--enable-htp", is_flag=True, hidden=True),
    flags_of(CompileOptions, without=options_of(CompileOptions).keys() - {"overwrite_cache_records"}),
    flags_of(EditOptions, without=options_of(EditOptions).keys() - {"use_float_io"}),
    click.option(
        "--enable-hta",
        is_flag=True,
        help="Add compiled sections for the Hexagon Tensor Accelerator (HTA). This flag implies "
        "--one-act-bitwidth.",
    ),
    click.option(
        "--hta-partitions",
        "partitions",
        metavar="A-B,C-D..",
        help="Make one section from each range of layer ids; xdlc info shows the ids.  [default: xdlc "
        "chooses]",
    ),
    click.option(
        "--hta-reorder",
        "reorder",
        is_flag=True,
        help="Run layers in another order if the new order needs fewer sections. Layer ids then follow the "
        "new order.",
    ),
    flags_of(
        AnnotateOptions,
        without=options_of(AnnotateOptions).keys() - {"preserve_io_datatype"},
        settings={
            "preserve_io_datatype": {
                "cls": params.WordsOption,
                "callback": lambda _context, _param, words: " ".join(words).split() if words else None,
            }
        },
    ),
)
"""The flags of preparing the result."""


@tool("xdlc-quantize", epilog=SAMPLES)
@all_of(file_flags, _PREPARING, quantizer_flags)
def main(
    *,
    source: Path,
    target_dlc: Path | None,
    enable_htp: bool,
    socs: tuple[str, ...],
    overwrite_cache_records: bool | None,
    use_float_io: bool | None,
    enable_hta: bool,
    partitions: str | None,
    reorder: bool,
    preserve_io_datatype: list[str] | None,
    dlc_version: str,
    **flags: Any,
) -> None:
    """Quantize a DLC, and prepare it for HTP or HTA.

    xdlc runs the network on calibration samples, chooses encodings, and stores weights as integers. Without
    --soc, xdlc uses the widths that the oldest SoC of --prepare supports. A quantized DLC needs no samples.
    If a cache or section fails to compile, xdlc still writes the DLC, and the exit code is not 0. If the
    accuracy is below --fail-below, xdlc writes no file, and the exit code is 5.
    """
    from xdlc import api
    from xdlc.errors import raise_all
    from xdlc.prepare.hta import check_soc, parse_ranges
    from xdlc.runtime.htp.cache_verdict import device_soc
    from xdlc.targets import find_soc

    if enable_htp and not socs:
        notice(f"you passed no SoC; xdlc uses {DEFAULT_SOC}")
        socs = (DEFAULT_SOC,)
    for is_set, flag, enabling, is_enabled in (
        (overwrite_cache_records, "--overwrite-cache-records", "--prepare", socs),
        (use_float_io, "--use-float-io", "--prepare", socs),
        (partitions is not None, "--hta-partitions", "--enable-hta", enable_hta),
        (reorder, "--hta-reorder", "--enable-hta", enable_hta),
    ):
        if is_set and not is_enabled:
            raise UsageError(f"{flag} requires {enabling}", fix=f"add {enabling}, or omit {flag}")
    devices = [device_soc(soc) for soc in socs]  # before the long work, as the ranges
    named = params.soc_names(flags["target"] or "")
    on_hta = enable_hta and not socs
    if on_hta:
        for soc in named:
            check_soc(soc)
        if flags["input_list"] is not None:
            flags["one_act_bitwidth"] = True  # HTA has no op that converts widths
    if len(named) > 1 or (flags["input_list"] is not None and devices and not named):
        # What the oldest supports, all support.
        several = map(find_soc if on_hta else device_soc, named) if named else devices
        flags["target"] = min(several, key=lambda device: (device.arch, device.fp16)).name
    if partitions is not None:
        parse_ranges(partitions)
    target = check_target(target_dlc or derived_path(source, "_quantized.dlc"))
    request = quant_flow.take_request(source, flags)
    model, lines, warnings = quant_flow.quantized(request, flags)
    api.annotate(model, preserve_io_datatype=preserve_io_datatype)
    problems: list[XdlcError] = []
    if socs:
        options = {"jobs": flags["jobs"], "scheduler": flags["scheduler"]}
        options |= {"overwrite_cache_records": overwrite_cache_records, "use_float_io": use_float_io}
        model, failed, added = _with_caches(model, socs, options)
        problems += failed
        lines += added
    if enable_hta:
        model, failed, added = _with_sections(model, partitions, reorder)
        problems += failed
        lines += added
    quant_flow.save(request, model, target, dlc_version)
    quant_flow.finish(request, model, lines, warnings, target)
    raise_all(problems)


def _with_caches(
    model: Model, socs: Sequence[str], options: dict[str, Any]
) -> tuple[Model, Sequence[XdlcError], Iterable[str]]:
    """Return the model with caches, and the errors of failed compile jobs."""
    from xdlc import api
    from xdlc.cli.cache_records import summary
    from xdlc.content.cache_records import cache_records
    from xdlc.prepare.htp import by_cause

    try:
        with bars.steps("compiling", "SoC") as step:
            prepared = api.prepare_all(model, socs, step=step, **options)
    except XdlcError as error:
        return model, each_problem(error), []
    for text in prepared.notices:
        notice(text)
    facts(socs=prepared.done, failed=prepared.failed, caches=cache_records(prepared.model))
    return prepared.model, by_cause(prepared), summary(prepared)


def _with_sections(
    model: Model, partitions: str | None, reorder: bool
) -> tuple[Model, Sequence[XdlcError], Iterable[str]]:
    """Return the model with sections, or the reason why it has none."""
    from xdlc import api
    from xdlc.prepare.hta import without_sections

    try:
        with bars.steps() as step:
            prepared = api.prepare_hta(model, partitions, reorder=reorder, notify=note, step=step)
    except XdlcError as error:
        return without_sections(model), each_problem(error), ()
    return prepared.model, prepared.problems, _section_lines(prepared)


def _section_lines(prepared: PreparedHta) -> Iterator[str]:
    for layer in prepared.rejected:
        yield f"not on HTA: {layer}"
    for section in prepared.sections:
        held = f", {len(section.binary)} bytes" if section.binary else ""
        yield f"section {section.engine.name}: layers {section.first}-{section.last}{held}"
    if prepared.crossings.count:
        yield str(prepared.crossings)
