"""Faults of calibration samples, each with its remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from xdlc.errors import UsageError
from xdlc.ir import Graph, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.opdefs.traits import traits
from xdlc.options import spell
from xdlc.passes.fold_preprocessing import factor_and_term
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.op_specs import is_real
from xdlc.quant.ranges import Range, representable
from xdlc.quant.sample_summary import InputSummary, Picture, SampleSummary, readers
from xdlc.quant.samples import Sample, is_held_out

if TYPE_CHECKING:
    from xdlc.quant.calibration.calibrate import Calibration
    from xdlc.quant.engine import Engine
    from xdlc.quant.plan import Plan

_Respond: TypeAlias = "Callable[[InputSummary], tuple[float, float]]"

FEW = 8
"""Number of samples below which there are few."""

ALIKE = 0.8
"""Rows in another form of pictures are closer than this share of their distance in the stated one."""

SMOOTH, WHITE = 0.6, 0.93
"""Neighbours in pictures are closer than the first share of the distance of any two values, in noise not
closer than the second."""

LARGE, SATURATED, UNHEARD = 50.0, 200.0, 0.02
"""Results of first layers in units of their biases: where inputs may be, and where they are too large; and
the deviation of those of the first where they are too small.

Measured on nine networks of vision: 0.1 to 6 with the right samples (100 where biases are tiny), 98 to 541
with 0..255 for normalized ones; deviations of 0.24 and more with the right ones, up to 0.008 with 0..1 for
0..255.
"""

NEAR = 0.2
"""A near copy of another sample differs from it by less than this share of what samples usually differ by,
and of what it differs from their median by: silence is no copy of silence."""

_FIRST, _NO_BIAS = 3, 1e-6
_LEAST = 16
_REAL = "use samples of real input, preprocessed as in your application"
_MORE = "use 32 to 200 different samples of the real input"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of calibration samples.

    Attributes:
        kind: Which one, in a word.
        is_certain: Whether it is a fact; else it is a question.
    """

    kind: str
    text: str
    fix: str
    is_certain: bool = True

    @property
    def is_problem(self) -> bool:
        """Whether this fault makes the figures meaningless."""
        return self.kind == "noise" or (self.is_certain and self.kind != "few")

    def __str__(self) -> str:
        begin = "warning: " if self.is_certain or self.is_problem else ""
        return f"{begin}calibration samples: {self.text}; {self.fix}"


def find_faults(plan: Plan, calibration: Calibration, engine: Engine, summary: SampleSummary) -> list[Fault]:
    """Return the faults of the samples that a plan was calibrated with.

    Args:
        summary: What the samples hold.
    """
    respond = partial(_response, plan, calibration, engine)
    states = {name for tie in plan.main.ties if len(tie.names) > 1 for name in tie.names}
    inputs = [entry for name, entry in summary.inputs.items() if entry.count and name not in states]
    faults = list(_constants(inputs)) or list(_counts(summary))
    for entry in inputs:
        faults += _tokens(entry, summary.rows.get(entry.tensor.name, 0))
        if not entry.is_constant:
            faults += _contents(entry, plan.graph, respond)
    return [*faults, *_near_copies(calibration, summary)]


def misfits(graph: Graph, samples: Iterable[Sample]) -> list[Fault]:
    """Return the faults of samples to run: another scale or layout than the input."""
    summary = SampleSummary(graph, {})
    for number, sample in enumerate(samples):
        with suppress(UsageError):  # the session refuses it
            summary.add(number, sample)
    entries = [entry for entry in summary.inputs.values() if entry.count and is_real(entry.tensor)]
    return [
        fault
        for entry in entries
        if not entry.is_constant
        for fault in _contents(entry, graph, lambda _: (math.nan, math.nan))
        if fault.is_certain and fault.kind in ("scale", "layout", "turned")
    ]


def _counts(summary: SampleSummary) -> Iterator[Fault]:
    count, distinct = len(summary.numbers), summary.distinct
    if count == 1:
        yield Fault("few", "there is only one sample", _MORE)
    elif distinct == 1:
        yield Fault("identical", f"all {count} samples are equal", _MORE)
    elif 2 * distinct <= count:
        yield Fault("identical", f"only {distinct} of {count} samples differ", _MORE)
    elif count < FEW:
        yield Fault("few", f"there are only {count} samples", _MORE, is_certain=False)
    varied = [entry for entry in summary.inputs.values() if not entry.is_constant]
    batches = [entry for entry in varied if entry.tensor.rank > 1 and entry.tensor.shape[0] > 1]
    if batches and all(entry.count == entry.repeated for entry in batches):
        yield Fault("batch", "all items of each batch are equal", "fill each batch with different items")


def _constants(inputs: list[InputSummary]) -> Iterator[Fault]:
    reals = [entry for entry in inputs if entry.tensor.dtype.is_float and entry.tensor.size >= _LEAST]
    are_all = all(entry.is_constant for entry in reals)
    for entry in reals:
        name, blank, is_coloured = entry.tensor.name, entry.constants, entry.colours == 3
        if entry.is_constant and (are_all or is_coloured):
            everywhere = entry.seen.low == entry.seen.high
            what = f"is {entry.seen.low:.4g} everywhere" if everywhere else "has one value in each sample"
            yield Fault("constant", f"input {name!r} {what}", _REAL)
        elif blank and is_coloured:
            numbers = ", ".join(map(str, blank[:5])) + (", ..." if len(blank) > 5 else "")
            text = f"input {name!r} has one value in {len(blank)} of {entry.count} samples ({numbers})"
            yield Fault("blank", text, "remove these samples")


def _tokens(entry: InputSummary, rows: int) -> Iterator[Fault]:
    name, seen = entry.tensor.name, entry.seen
    if rows > 2 and entry.tensor.size > 1 and entry.is_constant:
        yield Fault("padding", f"input {name!r} holds one token in each sample", _REAL)
    if "mask" not in name.lower() or is_real(entry.tensor):
        return
    if seen.low == seen.high == 0:
        fix = "use the tokenizer's mask: 1 at tokens, 0 at padding"
        yield Fault("mask", f"mask {name!r} is 0 everywhere", fix)
    elif seen.high > 1:
        text = f"mask {name!r} holds values up to {seen.high:.0f}: are they tokens?"
        yield Fault("swapped", text, "pass the mask of 0 and 1")


def _stated(tensor: Tensor, pair: np.ndarray | None) -> Range | None:
    """Return the range that an input should have, or None.

    It is that of its encoding, or 0..255 if the network scales that.
    """
    bits = given_bits(tensor)
    if isinstance(tensor.encoding, ScaleOffset) and bits is not None:
        unsigned = UFIXED8 if bits == 8 else UFIXED16
        return representable(tensor.encoding, tensor.dtype if tensor.dtype.is_fixed else unsigned)
    if pair is None or Picture.of(tensor) is None:
        return None
    factor, term = pair
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, deviation = np.abs(term / factor).max(), (1 / np.abs(factor)).max()
    return Range(0.0, 255.0) if deviation > 16 or mean > 30 else None


def _affine(entry: InputSummary, graph: Graph) -> np.ndarray | None:
    """Return the factor and term by channel that a network of pictures begins with.

    None: it has none.

    A constant that differs by row or column ends them.
    """
    pair, tensor = None, entry.tensor
    while True:
        ops = [op for op, _ in readers(graph, tensor)]
        step = factor_and_term(ops[0]) if len(ops) == 1 else None
        if step is None or step[0].size not in (1, entry.colours):
            return pair
        step = step.reshape(2, -1)
        pair = step if pair is None else np.stack([pair[0] * step[0], pair[1] * step[0] + step[1]])
        tensor = ops[0].outputs[0]


def _contents(entry: InputSummary, graph: Graph, respond: _Respond) -> Iterator[Fault]:
    name, seen, pair = f"input {entry.tensor.name!r}", entry.seen, _affine(entry, graph)
    numbers = f"{seen.low:.4g} to {seen.high:.4g}"
    stated = _stated(entry.tensor, pair)
    peak = max(-seen.low, seen.high)
    is_natural = entry.shares[1:].min(initial=1.0) < SMOOTH
    is_bytes = seen.low >= 0 and 100 < seen.high <= 255 and (entry.is_whole or is_natural)
    if stated is not None and not stated.width / 20 < seen.width < 3 * stated.width:
        has_encoding = entry.tensor.encoding is not None
        why = "its encoding" if has_encoding else "the scale that the network begins with"
        text = f"{name} holds {numbers}, but {why} expects {stated.low:.4g} to {stated.high:.4g}"
        yield Fault("scale", text, "scale the samples to this range, or omit a step of preprocessing")
    elif stated is None and (is_bytes or (entry.is_whole and 1000 < peak <= 32768)):
        response, _ = respond(entry)
        if response > LARGE:
            text = f"{name} holds {numbers}, {response:.0f} times the range that the first layers expect"
            fix = f"divide the samples by {255 if is_bytes else 32768}, or normalize them, as in training"
            yield Fault("scale", text, fix, is_certain=response > SATURATED)
    elif stated is None and is_natural and peak <= 1 and respond(entry)[1] < UNHEARD:
        text = f"{name} is {numbers}, too small to change the results of the first layer"
        yield Fault("scale", text, "multiply the samples by 255, or preprocess them as in training")
    elif entry.colours == 3 and is_natural and (peak <= 0.01 or entry.deviation < 0.02 * abs(entry.mean)):
        text = f"{name} hardly varies: {numbers}, deviation {entry.deviation:.2g}"
        yield Fault("scale", f"{text}; the samples may be normalized twice", "normalize the samples once")
    yield from _form(entry)
    if entry.colours == 3:
        yield from _colours(entry, pair)
        constant = [str(index) for index in (entry.lows == entry.highs).nonzero()[0]]
        if 0 < len(constant) < 3:
            text = f"{name}: channel {' and '.join(constant)} has one value in all samples"
            yield Fault("channel", text, "check how your program reads and orders the channels")
    if entry.clipped > 0 and 2 * entry.clipped >= entry.count:
        text = f"{name}: more than 1 % of the values are at the ends of the range"
        yield Fault("clipped", text, "record the samples with less gain")
    if entry.colours != 4 and entry.shares.min(initial=1.0) > WHITE and entry.neighbours:
        text = f"{name} holds noise, so the accuracy figures mean nothing"
        yield Fault("noise", text, _REAL, is_certain=False)


def _colours(entry: InputSummary, pair: np.ndarray | None) -> Iterator[Fault]:
    """Yield a question if channels seem reversed.

    The means of the samples are in reverse to those that the network subtracts.
    """
    if pair is None or pair.shape[1] != 3 or entry.count < FEW or not pair[0].all():
        return
    both = (-pair[1] / pair[0], entry.channels)
    gaps = [means[0] - means[2] for means in both]
    if all(abs(g) > 0.05 * abs(m.mean()) for g, m in zip(gaps, both, strict=True)) and gaps[0] * gaps[1] < 0:
        order = "RGB" if gaps[0] > 0 else "BGR"
        text = f"the network subtracts means in the order {order}, but the samples have the reverse order"
        yield Fault("colours", text, f"reverse the channels, if they are {order[::-1]}", is_certain=False)


def _form(entry: InputSummary) -> Iterator[Fault]:
    """Yield a fault if samples are pictures in another layout than stated."""
    picture, shares = entry.picture, entry.shares
    if picture is None or not shares.size:
        return
    rows = np.array(entry.neighbours)[:, 2:]
    is_best = (rows < ALIKE * rows[:, :1]).mean(0) >= 0.9
    best = 1 + int(np.argmin(np.where(is_best, shares[1:], np.inf)[1:]))
    if not is_best[best] or shares[1 + best] >= SMOOTH:
        return
    name, words = entry.tensor.name, ("NHWC", "NCHW")
    stated, actual = words[picture.is_planar], words[not picture.is_planar]
    if picture.channels == 1 or best == 2:
        text = f"input {name!r} has {picture.rows} rows of {picture.columns}, but the samples have rows of "
        yield Fault("turned", f"{text}{picture.rows} values", "swap rows and columns of the arrays")
        return
    fix = "apply .transpose(2, 1, 0) to each array"
    if best == 1:
        axes = "(2, 0, 1)" if picture.is_planar else "(1, 2, 0)"
        option = f"{spell('desired_input_layout')} {quote(name)} {actual}"
        fix = f"apply .transpose{axes} to each array, or convert with {option}"
    yield Fault("layout", f"input {name!r} is {stated}, but the samples are {actual}", fix)


def _response(
    plan: Plan, calibration: Calibration, engine: Engine, entry: InputSummary
) -> tuple[float, float]:
    """Return how large results of the first layers are, and how much they vary.

    The second is of the first layer alone.

    Both are in units of the largest bias; of ``_FIRST`` layers with biases the least counts.  NaN: not known.
    """
    twin = plan.model.clone()
    graph = twin.main
    for tensor in graph.outputs:
        tensor.role = Role.NATIVE
    graph.outputs, sizes, reached = [], list[float](), {entry.tensor.name}
    for op in graph.ops:
        if reached.isdisjoint(tensor.name for tensor in op.inputs if tensor is not None):
            continue
        reached.update(tensor.name for tensor in op.outputs)
        place = traits(op).bias
        bias = op.inputs[place] if place is not None and place < len(op.inputs) else None
        if traits(op).macs and bias is not None and bias.is_static and bias.dtype.is_float:
            size = float(np.abs(bias.numpy()).max(initial=0.0))
            if size > _NO_BIAS and len(sizes) < _FIRST:
                sizes.append(size)
                graph.add_output(op.outputs[0])
    if not sizes or not calibration.measured:
        return math.nan, math.nan
    graph.prune()
    results = engine.session(twin, quantized=False).run(calibration.measured[0].sample).values()
    units = [values / size for values, size in zip(results, sizes, strict=True)]
    peaks = [float(np.abs(values).max()) for values in units]
    return min(peaks), float(units[0].reshape(-1, units[0].shape[-1]).std(0).max())


def _near_copies(calibration: Calibration, summary: SampleSummary) -> Iterator[Fault]:
    """Yield a question if held-out samples are nearly equal to calibration samples."""
    if not calibration.holds_out:
        return
    measured = [kept.number for kept in calibration.measured if kept.number in summary.numbers]
    rest = [number for number in summary.numbers if not is_held_out(number)]
    if not measured or len(rest) < FEW // 2 or 2 * summary.distinct <= len(summary.numbers):
        return  # repetitions are stated as such
    nearest = [summary.distances(number, rest) for number in measured]
    usual = np.median(nearest)
    near = sum(float(row[:-1].min()) < NEAR * min(usual, row[-1]) for row in nearest)
    if 2 * near >= len(measured):
        text = (
            f"{near} of {len(measured)} held-out samples almost repeat other samples, so figures are too good"
        )
        yield Fault("copies", text, f"pass other samples as {spell('report_list')}", is_certain=False)
