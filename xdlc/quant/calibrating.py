"""Calibration of a plan: runs of its float model, and the samples that are kept of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from xdlc.errors import UsageError
from xdlc.ir.data import Array
from xdlc.quant.attention_masks import add_peaks
from xdlc.quant.auto_range import SAMPLE_BYTES, most_samples
from xdlc.quant.calibration.calibrate import Calibration, calibrate
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.engine import Engine
from xdlc.quant.judge import judged
from xdlc.quant.output_accuracy import MOST_HELD_OUT
from xdlc.quant.plan import Plan
from xdlc.quant.range_methods import find_range_method
from xdlc.quant.samples import HELD_OUT, Sample, Samples, Spread, is_held_out, run_sample

if TYPE_CHECKING:
    from xdlc.quant.sample_summary import SampleSummary


def calibrated(
    plan: Plan, samples: Samples, engine: Engine, summary: SampleSummary | None = None
) -> Calibration:
    """Return the calibration of a plan: the float model is run on all samples.

    Args:
        summary: Counts the samples too.

    Raises:
        UsageError: If there are no samples, or one does not fit the inputs.
        ModelError: If a value is NaN or infinite; names tensor and sample.
    """
    from xdlc.runtime.engine import give_back

    method = find_range_method(plan.options.act_quantizer_calibration)
    chooses = method.needs_network and 8 in plan.placement.fixed.values()
    compared = Spread(most_samples(plan.graph), SAMPLE_BYTES)
    first, held_out = (Spread(2 * MOST_HELD_OUT, SAMPLE_BYTES) for _ in range(2))

    def watched() -> Iterator[Sample]:
        for number, sample in enumerate(samples):
            if summary is not None:
                summary.add(number, sample)
            if chooses:
                compared.add(number, sample)
            if number < HELD_OUT - 1:
                first.add(number, sample)
            if is_held_out(number):
                held_out.add(number, sample)
                first.kept.clear()
            yield sample

    def give(number: int, floats: Mapping[str, Array]) -> None:
        for spread in (compared, first, held_out):
            spread.give(number, floats)

    outputs = judged(plan.graph)
    marks = [(part.graph, part.graph.mark()) for part in plan.parts]
    peaks = {}
    for part in plan.parts:
        peaks.update(add_peaks(part.graph, part.masks))
    try:
        calibration = calibrate(
            plan.model,
            [*(tensor for part in plan.parts for tensor in part.watched), *peaks.values()],
            watched(),
            averaged=[tensor for part in plan.parts for tensor in part.averaged],
            histograms=method.histogram and (chooses or not method.needs_network),
            outputs=outputs,
            give=give,
            jobs=engine.jobs,
            progress=lambda done: engine.report("calibrating", done, samples.count),
            kernels=engine.kernels,
            source=engine.source,
            loop_timeout=engine.loop_timeout,
        )
    finally:
        for graph, mark in marks:
            graph.retract(mark)
    give_back()
    calibration.peaks = {scores: calibration.found.pop(peak) for scores, peak in peaks.items()}
    for peak in peaks.values():
        del calibration.rest[peak]
    _merge_derived(plan, calibration)
    calibration.samples, calibration.compared = samples, compared.kept
    calibration.holds_out = bool(held_out.kept)
    calibration.measured = held_out.evenly(MOST_HELD_OUT) or first.kept
    return calibration


def _merge_derived(plan: Plan, calibration: Calibration) -> None:
    """Add the statistics of tensors that hold values of others: other widths may part them."""
    groups = plan.main.groups
    for tensor in groups.derived:
        for known in (calibration.found, calibration.rest):
            merged = [known[member] for member in groups.members(tensor) if member in known]
            if merged and tensor not in known:
                known[tensor] = reduce(Statistics.merge, merged)


def measure_with(plan: Plan, calibration: Calibration, samples: Iterable[Sample], engine: Engine) -> None:
    """Measure outputs with samples that did not calibrate, in place of those held out.

    Raises:
        UsageError: If a sample does not fit the inputs, or holds NaN or infinite values.
    """
    import numpy as np

    spread = Spread(2 * MOST_HELD_OUT, SAMPLE_BYTES)
    session = engine.session(plan.model, quantized=False, outputs=judged(plan.graph))
    for number, sample in enumerate(samples):
        spread.add(number, sample)
    calibration.measured, calibration.has_own_list = spread.evenly(MOST_HELD_OUT), True
    for kept in calibration.measured:
        place = f"held-out sample {kept.number}"
        kept.floats = run_sample(session, kept.sample, place)
        for name, array in kept.sample.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                fix = "remove the sample, or fix its preprocessing"
                raise UsageError("holds NaN or infinite values", where=f"{place}, {name!r}", fix=fix)
