"""All steps from a source model to a prepared DLC, with the figures of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdlc.api.conversion import convert
from xdlc.api.costing import cost
from xdlc.api.models import save
from xdlc.api.preparation import prepare_all, quantize
from xdlc.api.verbs import verb
from xdlc.compare.figures import percent
from xdlc.errors import XdlcError, raise_all, size
from xdlc.options import DEFAULT_SOC, Notify, PathLike, Step
from xdlc.options.quantizing import QuantizeOptions

if TYPE_CHECKING:
    from xdlc.quant.report import QuantReport


@dataclass(frozen=True, slots=True)
class Stage:
    """A file that a step wrote or read.

    Attributes:
        title: What it is.
        path: Where it is.
        bytes: Its size.
        facts: What is known about it, in few words.
        command: The command that makes it; empty for the source.
    """

    title: str
    path: str
    bytes: int
    facts: tuple[str, ...]
    command: str = ""


@dataclass(frozen=True, slots=True)
class Built:
    """Result of all steps.

    Attributes:
        name: Name of the network.
        soc: The SoC.
        verdict: How good the outputs are, as the report states it.
        quality: The outputs' figures.
        place: How many ops run on HTP.
        cost: Bytes, MACs and estimated time.
        stages: The files, in order.
        report: Path of the report page.
        figures: The numbers of the line, and the outputs.
    """

    name: str
    soc: str
    verdict: str
    quality: str
    place: str
    cost: str
    stages: tuple[Stage, ...]
    report: str
    figures: dict[str, Any]

    def __str__(self) -> str:
        """Return one line: how good, where, how much."""
        return f"{self.name} on {self.soc}: {self.verdict}: {self.quality}; {self.place}; {self.cost}"

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON has it."""
        return {"schema": 1, "line": str(self), **asdict(self)}


@verb
def build(
    path: PathLike,
    samples: PathLike,
    soc: str = DEFAULT_SOC,
    folder: PathLike = "output",
    *,
    input_dims: Mapping[str, Sequence[int]] | None = None,
    notify: Notify | None = None,
    step: Step | None = None,
    phrase: Callable[[str], str] = str,
    **options: Unpack[QuantizeOptions],
) -> Built:
    """Convert, quantize, prepare and measure a source model; write files to a folder.

    Args:
        path: The source model.
        samples: Calibration samples: a list, an .npz file, or a folder of .npy or raw files, one a sample.
        soc: Name of the SoC.
        folder: Where the files go.
        input_dims: Shapes by input name, where the model leaves dimensions open.
        notify: Called with each notice, a line of text.
        step: Called with the title of what is done, the number of steps done and of all (0: not known).
        phrase: Writes each line of ``notify``; advice has ``options``; default: as keyword arguments.
        **options: Options of the quantizer.

    Raises:
        XdlcError: As ``convert``, ``quantize`` and ``prepare`` do.
    """
    from xdlc.ir.files import check_readable, make_folder
    from xdlc.quant.advice import Advice
    from xdlc.quant.report import Reporter
    from xdlc.runtime.dynamic_dims import open_problem
    from xdlc.runtime.htp.cache_verdict import device_soc
    from xdlc.runtime.input_list import folder_list

    source, target = Path(path), Path(folder)
    stem, listing = source.stem, Path(samples)
    device_soc(soc)  # before the long work, as the samples

    def quiet(line: str) -> None:
        if notify is not None and line.startswith("warning"):
            notify(line)

    page = target / f"{stem}_report.html"

    def advised(line: str) -> str:
        if isinstance(line, Advice) and "report" in line.options:
            return f"{line.text}: {page}"
        return phrase(line)

    if os.path.isdir(listing):
        folder_list(listing)
    else:
        check_readable(listing)
    plain, small, cached = (target / f"{stem}{end}.dlc" for end in ("", "_quantized", "_cached"))
    model = convert(source, input_dims=input_dims, notify=quiet, step=step)
    if (unbound := open_problem(model)) is not None:
        unbound.where = str(source)
        raise unbound
    make_folder(target)
    save(model, plain)
    reporter = Reporter(page, title=source.name, progress=None)
    options = {"target": soc, **options}
    quantized = quantize(model, listing, report=reporter, notify=quiet, step=step, phrase=advised, **options)
    save(quantized, small)
    prepared = prepare_all(small, [soc], step=step, partition=True)
    raise_all(prepared.problems)
    save(prepared.model, cached)
    report, plan = reporter.result, prepared.plans[0]
    assert report is not None
    ops = plan.cached + len(plan.left)
    try:
        costs = cost(quantized, [soc], step=step)
    except XdlcError:  # a partitioned model has no whole plan
        costs = cost(quantized)
    weights, macs = sum(graph.weights for graph in costs.static), sum(graph.macs for graph in costs.static)
    times = [f"est. {time}" for time in costs.times[:1] if not isinstance(time, str)]
    quality = _quality(report)
    figures = {
        "sqnr": report.reached,
        "outputs": [asdict(output) for output in report.outputs],
        "ops": ops,
        "ops_on_htp": plan.cached,
        "weight_bytes": weights,
        "macs": macs,
        "time": " ".join(times),
    }
    place = f"{plan.cached} of {ops} ops on HTP"
    stages = (
        Stage("Your model", str(source), _bytes(source), (source.suffix.lstrip("."),)),
        Stage("DLC", str(plain), _bytes(plain), (f"{len(model.main)} ops", "float32"), "xdlc convert"),
        Stage("Quantized DLC", str(small), _bytes(small), tuple(quality.split(", ")), "xdlc quantize"),
        Stage("Prepared DLC", str(cached), _bytes(cached), (place, f"cache: {soc}"), "xdlc prepare"),
    )
    amount = ", ".join([f"{size(weights)} of weights", f"{macs / 1e6:.1f} M MACs", *times])
    return Built(stem, soc, report.verdict, quality, place, amount, stages, str(page), figures)


def _bytes(path: Path) -> int:
    return os.path.getsize(path) if path.is_file() else 0


def _quality(report: QuantReport) -> str:
    ratio = "no dB" if report.reached is None else f"{report.reached:.1f} dB"
    lost = min(
        (output for output in report.outputs if output.is_lost), key=lambda o: o.kept or 0.0, default=None
    )
    if lost is not None:
        ratio += f", {lost.name!r} keeps {percent(lost.kept or 0.0)} of its task"
    shares = [(output.top1, output.rows) for output in report.outputs if output.top1 is not None]
    if not shares:
        return f"{ratio} ({report.samples} sample{'s' * (report.samples != 1)})"
    share, rows = min(shares)
    return f"{ratio}, top-1 equal in {percent(share)} of {rows}"
