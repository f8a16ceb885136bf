"""Work for one DLC of a batch: convert, quantize, prepare, verify, cost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from xdlc.api.batches.recipe import SUFFIX, Variant
from xdlc.api.conversion import convert
from xdlc.api.costing import cost
from xdlc.api.models import load
from xdlc.api.preparation import prepare_all, quantize
from xdlc.content.cache_records import cache_records
from xdlc.content.static_cost import static_cost
from xdlc.errors import XdlcError, each_problem
from xdlc.ir import Model
from xdlc.quant.report.model import Judgement
from xdlc.worker.temporary import TemporaryFolder

OK, FAILED = "ok", "failed"
_WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: a model in a variant, on a SoC.

    Attributes:
        model: Path of the model in the folder.
        variant: Name of the variant.
        soc: Name of the SoC; empty without caches.
        status: ``ok`` or ``failed``.
        problem: The first problem, with its code and place.
        ops: Ops of the main graph.
        macs: Multiplications of the main graph for an inference.
        dlc_bytes: Size of the DLC.
        verdict: Verdict about the quantization.
        sqnr: Mean SQNR of the outputs in dB on samples that were held out.
        cache_bytes: Size of the SoC's cache.
        verified: Part of the cache's ops that ran on the emulation, 0 to 1.
        emulated: Least SQNR in dB of an output on the emulation against the host.
        dram_bytes: Bytes that an inference reads from and writes to DRAM.
        milliseconds: Estimated time of an inference, if a fit covers it.
        warnings: Warnings of the quantizer.
    """

    model: str
    variant: str
    soc: str = ""
    status: str = OK
    problem: str = ""
    ops: int | None = None
    macs: int | None = None
    dlc_bytes: int | None = None
    verdict: str = ""
    sqnr: float | None = None
    cache_bytes: int | None = None
    verified: float | None = None
    emulated: float | None = None
    dram_bytes: int | None = None
    milliseconds: float | None = None
    warnings: str = ""


COLUMNS = tuple(column.name for column in fields(Row))


@dataclass(frozen=True, slots=True)
class Unit:
    """A DLC to make.

    Attributes:
        folder: Folder of the batch.
        model: Path of the model in the folder.
        recipe: The variant as the recipe has it.
        target: Path of the DLC.
        beside: Files beside the model with its stem.  Weights of many formats are in one of them:
            ``net.onnx.data``, ``net.caffemodel``.
    """

    folder: Path
    model: str
    recipe: Variant
    target: Path
    beside: tuple[Path, ...] = ()

    @property
    def source(self) -> Path:
        """The model."""
        return self.folder / self.model

    @property
    def variant(self) -> Variant:
        """The variant for this model."""
        return self.recipe.of(self.source, self.folder)

    @property
    def title(self) -> str:
        """Name of the model and of the variant."""
        return f"{self.model} ({self.recipe.name})"

    def files(self) -> list[Path]:
        """Return the files in the folder that the unit reads."""
        paths = [self.source, *self.beside]
        if self.variant.samples is not None:
            paths.append(self.variant.samples)
        files = {file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])}
        return sorted(file for file in files if file.is_file() and file.is_relative_to(self.folder))

    def named(self) -> list[Path]:
        """Return the files that options name, as encodings and kernels."""
        variant = self.variant
        values = [variant.convert, variant.quantize, variant.prepare]
        paths = [path for text in _texts(values) for path in (text, *text.split(","))]
        return sorted({Path(path) for path in paths if os.path.isfile(path)})

    def failed(self, error: XdlcError) -> list[Row]:
        """Return the rows of a unit that has no DLC."""
        return [self._failure(soc, error) for soc in self.recipe.socs or ("",)]

    def run(self) -> list[Row]:
        """Make the DLC; return a row for each SoC."""
        try:
            return list(self._rows())
        except XdlcError as error:
            return self.failed(error)

    def _rows(self) -> Iterator[Row]:
        variant = self.variant
        facts: dict[str, Any] = {}
        model = load(self.source) if self.source.suffix == SUFFIX else _converted(self.source, variant)
        if variant.quantize is not None:
            model = _quantized(model, variant.quantize, facts)
        failures: dict[str, XdlcError] = {}
        if variant.prepare is not None:
            prepared = prepare_all(model, **variant.prepare, jobs=1)
            failures = dict(zip(prepared.failed, prepared.problems, strict=True))
            model = prepared.model
        model.save(self.target)
        static = static_cost(model.main)
        facts |= {"ops": len(model.main.ops), "macs": static.macs, "dlc_bytes": self.target.stat().st_size}
        on_socs = dict(_cache_facts(model))
        for soc in variant.socs or ("",):
            try:
                if soc in failures:
                    raise failures[soc]
                costs = _cost_facts(model, soc) if variant.cost and soc else {}
                yield Row(self.model, variant.name, soc, **facts, **on_socs.get(soc, {}), **costs)
            except XdlcError as error:
                yield self._failure(soc, error, facts)

    def _failure(self, soc: str, error: XdlcError, facts: Mapping[str, Any] = {}) -> Row:
        first = each_problem(error)[0]
        place = f"{first.where}: " if first.where else ""
        problem = f"{first.code}: {place}{first.problem}".replace(f"{self.folder}{os.sep}", "")
        return Row(self.model, self.recipe.name, soc, FAILED, problem, **facts)


def make(
    unit: Unit, names: Sequence[str], mark: Path, own_mark: Path, *paths: Path
) -> tuple[list[Row], bytes | None]:
    """Run a unit in a worker; return its rows, and a DLC to send back.

    A worker that sees the folder of the results writes the DLC there.

    Args:
        names: Paths of the unit's files in the folder.
        mark: Path with the content of ``own_mark``, which is a file in the folder of the results.
        paths: Paths with the contents of the unit's files.
    """
    sees_target = mark == own_mark
    with TemporaryFolder() as temporary:
        place, target = Path(temporary, "models"), Path(temporary, f"result{SUFFIX}")
        if any(path != unit.folder / name for name, path in zip(names, paths, strict=True)):
            for name, path in zip(names, paths, strict=True):
                link = place / name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path)
            unit = replace(unit, folder=place)
        if not sees_target:
            unit = replace(unit, target=target)
        rows = unit.run()
        return rows, target.read_bytes() if target.exists() else None


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value of the recipe."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for element in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(element)


def _converted(source: Path, variant: Variant) -> Model:
    return convert(source, **variant.convert, notify=lambda text: None)


def _quantized(model: Model, options: Mapping[str, Any], facts: dict[str, Any]) -> Model:
    """Return the quantized model; add its verdict and warnings to the facts."""
    warnings: list[str] = []

    def notify(text: str) -> None:
        if isinstance(text, Judgement):
            facts["verdict"] = text.verdict
            facts["sqnr"] = None if text.sqnr is None else round(text.sqnr, 2)
        elif text.startswith(_WARNING):
            warnings.append(text.partition(":")[2].strip())

    samples = options.get("samples", ())  # some options need none
    options = {name: value for name, value in options.items() if name != "samples"}
    quantized = quantize(model, samples, **options, notify=notify)
    facts["warnings"] = "; ".join(warnings)
    return quantized


def _cache_facts(model: Model) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield for each cache its SoC, size and verification."""
    for record in cache_records(model):
        verified = record.get("verified")
        figures = verified["outputs"].values() if verified else ()
        yield (
            record["soc"].lower(),
            {
                "cache_bytes": record["bytes"],
                "verified": verified and verified["share"],
                "emulated": min((each["sqnr"] for each in figures), default=None),
            },
        )


def _cost_facts(model: Model, soc: str) -> dict[str, Any]:
    """Return the DRAM traffic and the time of the main graph on a SoC."""
    for plan in cost(model, [soc]).as_dict()["devices"]:
        if plan["graph"] == model.main.name:
            totals, time = plan["totals"], plan["milliseconds"]
            return {
                "dram_bytes": totals["dram_read"] + totals["dram_write"],
                "milliseconds": time.get("value"),
            }
    return {}
