"""Flags and steps of quantizing tools: read samples, quantize, report."""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target
from xdlc.cli.params import all_of, dashed, flags_of, kernel_flags, stated
from xdlc.cli.tool import command_line, facts, notice, show, warn, written
from xdlc.errors import UsageError
from xdlc.options import options_of
from xdlc.options.quantizing import QuantizeOptions
from xdlc.options.running import KernelOptions

if TYPE_CHECKING:
    from xdlc.ir import Model


SAMPLES = (
    "Each line of the input list is one sample: `path` for a model with one input, `name:=path "
    "name2:=path2` for a model with several inputs. Files are raw little-endian float32, or .npy. Instead "
    "of a list, pass an .npz file with all samples along the first axis. For a model with one input, you "
    "can also pass an .npy file. Under the names snpe-dlc-quant and qairt-quantizer, xdlc also accepts the "
    "flags of these tools."
)
BESIDE = "<result>_encoding.json"
"""File of encodings where the flag has no value."""
VERSIONS = ("0.4.0", "0.5.0", "0.6.1", "1.0.0", "2.0.0")


def _algorithms(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("bias_correction" if name == "bc" else name for name in params.names(ctx, param, value))


def _steps(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    try:
        return None if value is None else tuple(int(word, 0) for word in value.replace(",", " ").split())
    except ValueError:
        fix = "write a negative and a positive integer, like -0x80,0x7F or -128,127"
        raise params.BadValue(f"{value!r} is not a range of stored integers", fix) from None


_RESULTS = (
    click.option(
        "--report",
        type=params.OUTPUT_FILE,
        metavar="FILE",
        help="Write a report on the accuracy of each tensor: .html, .json, .csv, or .svg for a picture.",
    ),
    click.option(
        "--report-list",
        type=params.INPUT_FILE,
        metavar="FILE",
        help="Measure accuracy on these samples, without calibrating with them.  [default: every fifth "
        "calibration sample]",
    ),
    click.option(
        "--export-encodings",
        type=params.OUTPUT_FILE,
        is_flag=False,
        flag_value=BESIDE,
        metavar="FILE",
        help="Write all encodings as JSON.  [default without a value: <output>_encoding.json]",
    ),
    click.option(
        "--encoding-version",
        type=click.Choice(VERSIONS),
        default="1.0.0",
        show_default=True,
        help="Write the file of --export-encodings in this version of AIMET's format.",
    ),
)


file_flags = all_of(
    params.DLC,
    params.listing("Calibrate with the samples of this list, one on each line, or of this folder."),
    params.output(
        "Write the result to this file.  [default: <input>_quantized.dlc]", "--output-dlc", name="target_dlc"
    ),
    params.NATIVE,
)
"""The flags of the DLC that is read, the samples, and the result."""


def _ties(
    _context: click.Context, _param: click.Parameter, pairs: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, ...], ...]:
    return tuple((first, *others.split()) for first, others in pairs)


quantizer_flags = all_of(
    flags_of(
        QuantizeOptions,
        without=(*options_of(KernelOptions), "executor"),
        settings={
            "restrict_quantization_steps": {"callback": _steps},
            "algorithms": {"callback": _algorithms},
            "tie": {"cls": params.WordsOption, "type": (str, str), "callback": _ties},
        },
    ),
    kernel_flags,
    *_RESULTS,
    params.DLC_VERSION,
)
"""The flags of quantizing, of UDO kernels, and of the files written beside the DLC."""


_HOW = ("jobs", "scheduler", "loop_timeout", "udo_package_path", "udo_timeout")
"""Flags of running a model, which do not change the result."""


@dataclass(frozen=True, slots=True)
class Request:
    """Files that a quantizing tool reads, and writes besides the DLC.

    Attributes:
        native: Whether raw files hold the inputs' own datatypes.
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


def take_request(source: Path, flags: dict[str, Any]) -> Request:
    """Remove the flags about files from ``flags``; return them as a request."""
    return Request(source, *(flags.pop(field.name) for field in fields(Request)[1:]))


def quantized(request: Request, flags: Mapping[str, Any]) -> tuple[Model, list[str], list[str]]:
    """Quantize with progress on the terminal; a requested report is written meanwhile.

    A quantized DLC stays as it is if there are neither samples nor flags.

    Returns:
        The model, lines on how it was made, and warnings of lost outputs.
    """
    from xdlc import api
    from xdlc.quant.report import Judgement, Reporter, summary
    from xdlc.quant.samples import from_list
    from xdlc.runtime.states import next_values

    options = stated(flags)
    requested = {name for name, value in options.items() if value is not False} - set(_HOW)
    if request.input_list is None and not requested:
        model = api.executable(request.source)
        if any(tensor.dtype.is_fixed for op in model.main.ops for tensor in op.outputs):
            _announce_lost(request.source, model.records)
            return model, ["the model is already quantized; xdlc keeps the encodings of the model"], []
    warnings: list[str] = []
    judgement: list[Judgement] = []
    phrase = partial(in_command, command_line())

    def notify(text: str) -> None:
        if text.startswith("warning"):
            warnings.append(text.partition(":")[2].strip())
        elif isinstance(text, Judgement):
            judgement.append(text)
            facts(verdict=text.verdict, sqnr=text.sqnr, outputs=[asdict(output) for output in text.outputs])
        else:
            show(f"note: {text}")

    for path in (request.report, request.export_encodings):
        if path is not None and str(path) != BESIDE:
            check_target(path)
    report_list = request.report_list
    with bars.steps("reading") as step:
        model = api.executable(request.source)
        _announce_lost(request.source, {})
        states = next_values(model)
        samples = from_list(request.input_list, model.main, native=request.native, optional=states)
        held_out = (
            None
            if report_list is None
            else from_list(report_list, model.main, native=request.native, optional=states)
        )
        count = len(samples) if isinstance(samples, Sized) else 0
        measured = partial(step, "measuring for the report")
        report = request.report
        title = request.source.name
        reporter = (
            None
            if report is None
            else Reporter(report, progress=measured, title=title, command=command_line())
        )
        result = api.quantize(
            model,
            samples,
            step=step,
            report=reporter,
            report_list=held_out,
            notify=notify,
            phrase=phrase,
            **options,
        )
    lines = [f"calibrated with {count} sample(s)", *judgement]
    if reporter is not None and reporter.result is not None:
        lines += summary(reporter.result)[len(judgement) :]
    return result, lines, warnings


def in_command(command: Sequence[str], line: str) -> str:
    """Return a line; advice ends with a command line that sets its options.

    Example:
        >>> from xdlc.quant.advice import Advice
        >>> in_command(["xdlc", "quantize", "--act-bitwidth", "8"], Advice("16 bits", {"act_bitwidth": 16}))
        '16 bits: xdlc quantize --act-bitwidth 16'
    """
    from xdlc.quant.advice import Advice

    if not isinstance(line, Advice) or not line.options:
        return line
    words = list(command)
    for name, value in line.options.items():
        flag = dashed(f"--{name}")
        if isinstance(value, Mapping):
            for key, entry in value.items():
                words = [*_without(words, flag, str(key)), flag, str(key), str(entry)]
        else:
            text = str(value) if isinstance(value, str | int | float) else ",".join(value)
            words = [*_without(words, flag), flag, text]
    return f"{line.text}: {shlex.join(words)}"


def _without(words: Sequence[str], flag: str, key: str | None = None) -> list[str]:
    """Return a command line without an option, or without the option for one name.

    Args:
        key: The name that the option's first value has to be; None: it has one value, any.
    """
    left: list[str] = []
    index = 0
    while index < len(words):
        name, glued, value = words[index].partition("=")
        count = (1 if key is None else 2) + (not glued) if dashed(name) == flag else 1
        taken = words[index : index + count]
        first = value if glued else "".join(taken[1:2])
        if dashed(name) != flag or (key is not None and first != key):
            left += taken
        index += count
    return left


def _announce_lost(source: Path, kept: Container[str]) -> None:
    """Report dropped AIP records."""
    from xdlc import api
    from xdlc.prepare.hta import sections_in

    records = {name: data for name, data in api.load(source).records.items() if name not in kept}
    for held in sections_in(records):
        notice(f"drops {held}")


def save(request: Request, model: Model, target: Path, dlc_version: str) -> None:
    """Write the DLC and, if requested, the file of encodings: both or none.

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


def finish(
    request: Request, model: Model, lines: Sequence[str], warnings: Sequence[str], target: Path
) -> None:
    """Print the result after it is written, warnings last."""
    from xdlc.cli.ports import contract
    from xdlc.content.inspection import graph_facts

    facts(graphs=lambda: [graph_facts(graph, model) for graph in model.graphs.values()])
    for line in (*contract(model), *lines):
        show(line)
    written(target)
    if request.report is not None:
        show(f"report: {request.report}")
    if request.export_encodings is not None:
        show(f"encodings: {_encodings_path(request.export_encodings, target)}")
    for text in warnings:
        warn(text)
