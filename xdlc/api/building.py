"""All steps from a source model to a prepared DLC, with the figures of each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from xdlc.api.conversion import convert
from xdlc.api.costing import cost
from xdlc.api.models import save
from xdlc.api.preparation import prepare_all, quantize
from xdlc.api.verbs import verb
from xdlc.compare.figures import percent
from xdlc.errors import UsageError, XdlcError, raise_all, size
from xdlc.options import Notify, PathLike, Step

if TYPE_CHECKING:
    from xdlc.quant.report import QuantReport

SUFFIXES = (".npy", ".raw", ".bin")
"""Files of a folder that are samples."""


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
    """

    name: str
    soc: str
    verdict: str
    quality: str
    place: str
    cost: str
    stages: tuple[Stage, ...]
    report: str

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
    soc: str = "sm8650",
    folder: PathLike = "output",
    *,
    notify: Notify | None = None,
    step: Step | None = None,
) -> Built:
    """Convert, quantize, prepare and measure a source model; write files to a folder.

    Args:
        path: The source model.
        samples: Calibration samples: a list, an .npz file, or a folder of .npy or raw files, one a sample.
        soc: Name of the SoC.
        folder: Where the files go.
        notify: Called with each notice, a line of text.
        step: Called with the title of what is done, the number of steps done and of all (0: not known).

    Raises:
        XdlcError: As ``convert``, ``quantize`` and ``prepare`` do.
    """
    from xdlc.ir.files import check_readable, make_folder, replace_text
    from xdlc.quant.report import Reporter
    from xdlc.runtime.htp.cache_verdict import device_soc

    source, target = Path(path), Path(folder)
    stem, listing = source.stem, Path(samples)
    device_soc(soc)  # before the long work, as the samples

    def quiet(line: str) -> None:
        if notify is not None and line.startswith("warning"):
            notify(line)

    names = _files(listing) if listing.is_dir() else []
    if not names:
        check_readable(listing)
    plain, small, cached = (target / f"{stem}{end}.dlc" for end in ("", "_quantized", "_cached"))
    model = convert(source, notify=quiet, step=step)
    make_folder(target)
    save(model, plain)
    if names:
        listing = target / f"{stem}_samples.txt"
        replace_text(listing, "".join(f"{quote(str(file))}\n" for file in names))
    reporter = Reporter(target / f"{stem}_report.html", title=source.name, progress=None)
    quantized = quantize(model, listing, report=reporter, notify=quiet, step=step, target=soc)
    save(quantized, small)
    prepared = prepare_all(small, [soc], step=step, partition=True)
    raise_all(prepared.problems)
    save(prepared.model, cached)
    report, plan = reporter.result, prepared.plans[0]
    assert report is not None
    ops = plan.cached + len(plan.left)
    amounts, quality = list(_amounts(quantized, soc, step)), _quality(report)
    place = f"{plan.cached} of {ops} ops on HTP"
    stages = (
        Stage("Your model", str(source), _bytes(source), (source.suffix.lstrip("."),)),
        Stage("DLC", str(plain), _bytes(plain), (f"{len(model.main)} ops", "float32"), "xdlc convert"),
        Stage("Quantized DLC", str(small), _bytes(small), tuple(quality.split(", ")), "xdlc quantize"),
        Stage("Prepared DLC", str(cached), _bytes(cached), (place, f"cache: {soc}"), "xdlc prepare"),
    )
    return Built(
        stem,
        soc,
        report.verdict,
        quality,
        place,
        ", ".join(amounts),
        stages,
        str(target / f"{stem}_report.html"),
    )


def _files(folder: Path) -> list[Path]:
    """Return the samples of a folder.

    Raises:
        UsageError: If it has none.
    """
    names = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
    if not names:
        fix = f"name a folder of files that end in {', '.join(SUFFIXES)}, or a list of samples"
        raise UsageError("the folder has no samples", where=str(folder), fix=fix, code="XD205")
    return names


def _bytes(path: Path) -> int:
    return os.path.getsize(path) if path.is_file() else 0


def _quality(report: QuantReport) -> str:
    ratio = "no dB" if report.reached is None else f"{report.reached:.1f} dB"
    shares = [(output.top1, output.rows) for output in report.outputs if output.top1 is not None]
    if not shares:
        return f"{ratio} ({report.samples} samples)"
    share, rows = min(shares)
    return f"{ratio}, top-1 equal in {percent(share)} of {rows}"


def _amounts(model: Any, soc: str, step: Step | None) -> Iterator[str]:
    """Yield bytes of weights, MACs and the estimated time, as far as they are known."""
    static = cost(model)
    yield f"{size(sum(graph.weights for graph in static.static))} of weights"
    yield f"{sum(graph.macs for graph in static.static) / 1e6:.1f} M MACs"
    with suppress(XdlcError):  # a partitioned model has no whole plan
        time = cost(model, [soc], step=step).times[0]
        if not isinstance(time, str):
            yield f"est. {time}"
