"""Steps that the quantizing tools share: reading samples, quantizing, reporting."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sized
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars
from xdlc.cli.output_path import check_target
from xdlc.cli.quant_options import BESIDE
from xdlc.cli.tool import command_line, notice, show, warn
from xdlc.cli.words import in_flags
from xdlc.errors import UsageError

if TYPE_CHECKING:
    from xdlc.ir import Model


_HOW = ("jobs", "loop_timeout", "udo_package_path", "udo_timeout")
"""Flags of running a model, which do not change the result."""


@dataclass(frozen=True, slots=True)
class Request:
    """Files that a quantizing tool reads and writes beside the DLC it makes.

    Attributes:
        source: The float DLC.
        input_list: Calibration samples.
        native: Whether raw files hold the inputs' own datatypes.
        report: Where the report goes.
        report_list: Samples of the figures and the report.
        export_encodings: Where the encodings go as JSON.
        encoding_version: Form of that JSON.
    """

    source: Path
    input_list: Path | None
    native: bool
    report: Path | None
    report_list: Path | None
    export_encodings: Path | None
    encoding_version: str


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized model and the lines to print once it is written.

    Attributes:
        model: The model.
        lines: How it was made.
        warnings: Warnings of lost outputs; printed last.
    """

    model: Model
    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def take_request(source: Path, flags: dict[str, Any]) -> Request:
    """Take the flags about files out of ``flags``."""
    return Request(source, *(flags.pop(field.name) for field in fields(Request)[1:]))


def quantized(request: Request, flags: Mapping[str, Any]) -> Quantized:
    """Quantize with progress on the terminal; a requested report is written meanwhile."""
    from xdlc import api
    from xdlc.quant.report import Reporter, summary
    from xdlc.quant.samples import from_list
    from xdlc.runtime.states import next_values

    warnings: list[str] = []

    def notify(text: str) -> None:
        if text.startswith("warning"):
            warnings.append(text.partition(":")[2].strip())
        else:
            show(f"note: {in_flags(text, click.get_current_context())}")

    options = {name: value for name, value in flags.items() if value is not None}
    for path in (request.report, request.export_encodings):
        if path is not None and str(path) != BESIDE:
            check_target(path)
    given = request.report_list
    with bars.steps("reading") as step:
        model = api.executable(request.source)
        _announce_lost(request.source, {})
        states = next_values(model)
        samples = from_list(request.input_list, model.main, native=request.native, optional=states)
        held_out = (
            None if given is None else from_list(given, model.main, native=request.native, optional=states)
        )
        count = len(samples) if isinstance(samples, Sized) else 0
        measured = partial(step, "measuring for the report")
        report = request.report
        title = request.source.name
        reporter = None if report is None else Reporter(report, progress=measured, title=title)
        result = api.quantize(
            model,
            samples,
            step=step,
            report=reporter,
            report_list=held_out,
            notify=notify,
            command=command_line(),
            **options,
        )
    lines = [f"calibrated with {count} sample(s)"]
    if reporter is not None and reporter.result is not None:
        lines += summary(reporter.result)
    return Quantized(result, tuple(lines), tuple(warnings))


def quantized_or_as_it_is(request: Request, flags: Mapping[str, Any]) -> Quantized:
    """Quantize as ``quantized`` does, but keep a DLC that is quantized already if there are no samples."""
    from xdlc import api

    given = {name for name, value in flags.items() if value not in (None, False) and name not in _HOW}
    if request.input_list is None and not given:
        model = api.executable(request.source)
        if any(tensor.dtype.is_fixed for op in model.main.ops for tensor in op.outputs):
            _announce_lost(request.source, model.records)
            return Quantized(model, ("quantized already: its encodings are kept",))
    return quantized(request, flags)


def _announce_lost(source: Path, kept: Container[str]) -> None:
    """Print a notice of each AIP record of a file that is none of those kept."""
    from xdlc import api
    from xdlc.prepare.hta import sections_in

    records = {name: data for name, data in api.load(source).records.items() if name not in kept}
    for held in sections_in(records):
        notice(f"drops {held}")


def save(request: Request, model: Model, target: Path, dlc_version: str) -> None:
    """Write the DLC, and the file of encodings if there is to be one: both or none.

    Raises:
        UsageError: If the encodings have no form in their file; the DLC is written then.
        StorageError: If one cannot be written.
    """
    from xdlc import api
    from xdlc.ir.files import together
    from xdlc.quant.overrides import save_encodings

    problem = None
    with bars.steps("writing"), together():
        api.save(model, target, dlc_version)
        if request.export_encodings is not None:
            try:
                path = _encodings_path(request.export_encodings, target)
                save_encodings(model, path, request.encoding_version)
            except UsageError as error:
                problem = error
    if problem is not None:
        raise problem


def _encodings_path(given: Path, target: Path) -> Path:
    return target.with_name(f"{target.stem}_encoding.json") if str(given) == BESIDE else given


def finish(request: Request, made: Quantized, target: Path) -> None:
    """Print the result, once it is written."""
    from xdlc.cli.report import contract

    for line in (*contract(made.model), *made.lines):
        show(line)
    show(f"written: {target}")
    if request.report is not None:
        show(f"report: {request.report}")
    if request.export_encodings is not None:
        show(f"encodings: {_encodings_path(request.export_encodings, target)}")
    for text in made.warnings:
        warn(text)
