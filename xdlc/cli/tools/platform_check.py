"""``xdlc-platform-check``: the capabilities of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params, text
from xdlc.cli.output_path import check_target
from xdlc.cli.tool import output, result, tool, written
from xdlc.registry import module_names

if TYPE_CHECKING:
    from xdlc.api.runtimes import Machine
    from xdlc.prepare.htp.support_matrix import Support
    from xdlc.targets import Soc


@tool(
    "xdlc-platform-check",
    epilog="With --runtime, the exit code is 0 if that runtime works. Without --runtime, the exit code is 0 "
    "if the runtime cpu works. To convert and quantize, you need only the runtime cpu.",
)
@click.option(
    "--runtime",
    type=click.Choice([*module_names("xdlc.api.runtimes"), "all"]),
    help="Run a small graph on this runtime. cpu: onnxruntime; htp: the vendor's compiler and emulation; "
    "aip: sections of HTA.  [default: all]",
)
@click.option("--soc", metavar="SOC", help="List only this SoC, and emulate this SoC with the runtime htp.")
@click.option(
    "--matrix",
    "model",
    type=params.INPUT_FILE,
    help="Show only which ops of this DLC the vendor's library supports on each SoC.",
)
@click.option(
    "--libraries",
    multiple=True,
    callback=params.paths,
    metavar="DIR,DIR..",
    help="With --matrix: use the vendor's libraries in these folders of SDKs or of onnxruntime-qnn.  "
    "[default: the library in use]",
)
@params.svg("which SoC supports which op", "--matrix")
def main(
    runtime: str | None, soc: str | None, model: Path | None, libraries: tuple[str, ...], svg: Path | None
) -> None:
    """Show which runtimes work on this machine, and which SoCs xdlc knows.

    xdlc prints versions, and runs a small graph on each runtime. If a runtime fails, xdlc prints a fix.
    """
    from xdlc import api
    from xdlc.errors import UsageError, raise_all
    from xdlc.ir.files import replace_text
    from xdlc.prepare.htp.support_matrix import as_svg

    if (libraries or svg is not None) and model is None:
        flag = "--libraries" if libraries else "--svg"
        raise UsageError(f"{flag} requires --matrix", fix=f"add --matrix FILE.dlc, or omit {flag}")
    if runtime is not None and model is not None:
        raise UsageError("--runtime has no effect with --matrix", fix="omit one flag")
    if model is not None:
        if svg is not None:
            check_target(svg)
        matrix = api.support_matrix(model, libraries or None, [soc] if soc else None)
        _show_matrix(matrix)
        if svg is not None:
            replace_text(svg, as_svg(api.executable(model), matrix))
            written(svg)
        return
    with bars.steps("trying"):
        machine = api.check_platform(None if runtime in (None, "all") else [runtime], soc)
    result(**described(machine))
    for line in (*machine_lines(machine, every_trial=True), *_socs(machine)):
        output(line)
    raise_all(
        [
            held.problem
            for held in machine.runtimes
            if held.problem is not None and (runtime is not None or held.name == "cpu")
        ]
    )


def _show_matrix(matrix: Sequence[Support]) -> None:
    result(matrix=[asdict(support) for support in matrix])
    rows: list[Sequence[str]] = [("library", "SoC", "ops", "not supported")]
    for support in matrix:
        reasons = [f"{op.op} ({op.type}): {op.reason}" for op in support.unsupported]
        ops = "-" if support.problems else f"{support.ops - len(support.unsupported)} of {support.ops}"
        row = (support.build or support.library, support.soc or "-", ops)
        rows.append((*map(text.clean, row), text.clean("; ".join([*support.problems, *reasons]) or "-")))
    for line in text.columns(rows):
        output(line)


def machine_lines(machine: Machine, *, every_trial: bool) -> Iterator[str]:
    """Yield the versions, and the state of each runtime."""
    yield f"machine  {machine.system}, {machine.processors} processors"
    yield from text.columns([(name, held or "not installed") for name, held in machine.versions.items()])
    for runtime in sorted(machine.runtimes, key=lambda runtime: runtime.problem is not None):
        state = "does not work" if runtime.problem else "works"
        yield f"runtime {runtime.name}  {state}: {runtime.library}; {runtime.core}"
        rows = []
        for trial in runtime.trials:
            fix = f" (fix: {trial.problem.fix})" if trial.problem and trial.problem.fix else ""
            if trial.problem or every_trial:
                rows.append((trial.target, f"{trial.problem.problem}{fix}" if trial.problem else "passed"))
        yield from text.columns([(text.clean(target), text.clean(outcome)) for target, outcome in rows])


def _socs(machine: Machine) -> Iterator[str]:
    if len(machine.socs) == 1:
        yield from _soc(machine.socs[0])
        return
    yield "SoCs: name, id, VTCM, features"
    archs = sorted({soc.arch for soc in machine.socs})
    for arch in archs:
        held = [soc for soc in machine.socs if soc.arch == arch]
        yield f"  {held[0].capabilities.name}"
        yield from text.columns([_row(soc) for soc in held])


def _row(soc: Soc) -> tuple[str, ...]:
    names = ", ".join([soc.name, *soc.aliases])
    has = [what for what, there in (("FP16", soc.fp16), ("HTA", soc.hta)) if there]
    return names, str(soc.id), f"{soc.vtcm_mb} MB" if soc.vtcm_mb else "-", " ".join(has) or soc.note


def _soc(soc: Soc) -> Iterator[str]:
    yield f"SoC {soc.name}"
    rows: list[Sequence[str]] = [
        ("also called", ", ".join(soc.aliases) or "-"),
        ("QNN id", str(soc.id)),
        ("DSP", soc.capabilities.name),
        ("VTCM", f"{soc.vtcm_mb} MB" if soc.vtcm_mb else "not known"),
        ("float graphs", "yes" if soc.fp16 else "no"),
        ("HTA", "yes" if soc.hta else "no"),
        ("number formats", ", ".join(_capabilities(soc)) or "none known"),
        ("note", soc.note or soc.capabilities.note or "-"),
    ]
    yield from text.columns([tuple(row) for row in rows])


def _capabilities(soc: Soc) -> Iterator[str]:
    from xdlc.targets.loader import CAPABILITIES

    yield from (name for name in CAPABILITIES if getattr(soc.capabilities, name))


def described(machine: Machine) -> dict[str, Any]:
    """Return the capabilities of a machine for JSON."""
    return {
        "system": machine.system,
        "processors": machine.processors,
        "versions": machine.versions,
        "runtimes": [
            {
                "name": runtime.name,
                "works": runtime.problem is None,
                "library": runtime.library,
                "core": runtime.core,
                "trials": [
                    {
                        "target": trial.target,
                        "passed": trial.problem is None,
                        "problem": trial.problem and trial.problem.problem,
                        "fix": trial.problem and trial.problem.fix,
                    }
                    for trial in runtime.trials
                ],
            }
            for runtime in machine.runtimes
        ],
        "socs": [
            {**asdict(soc), "arch": soc.capabilities.name, "capabilities": list(_capabilities(soc))}
            for soc in machine.socs
        ],
    }
