"""Equalization: factors by channel move from activations into weights of readers.

The results stay what they are; the activation between gets channels of like range, so that one
scale serves them all, at the cost of weights whose inputs differ more.  Cross-layer equalization
(Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, 2019) and
SmoothQuant (Xiao et al., 2022) are this between convolutions and after norms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from xdlc.ir import Model, Op, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.data import Array
from xdlc.quant.acceptance import Guard, keep_what_helps
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.equalization_chains import Chain, Shift, beside_weight, find_chains, rescale, shift
from xdlc.quant.judge import Score
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import Plan
from xdlc.quant.precision import Precision
from xdlc.quant.samples import Sample
from xdlc.runtime.lower import Lowered

QUIET = 1 / 32
"""Channels with less of the whole range than this count as having it, for other data may hold more."""
_LOW, _HIGH = "ReduceMin", "ReduceMax"
_KINDS = (_LOW, _HIGH, "ReduceSumSquare")
_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
TRIALS, MORE_TRIALS = 12, 3
"""Most trials of the first kind of change, and of each kind that is tried after it."""
WORTH_TRYING = 0.1
"""Least gain in dB that the noise model has to promise."""
MARGIN = 0.1
"""How far below all values seen, in parts of their range, constants after Relu stay."""


@dataclass(slots=True)
class ChannelStatistics:
    """Statistics of the channels of an activation: float64 arrays of its last axis.

    Attributes:
        power: Mean of the squares.
    """

    low: Array
    high: Array
    power: Array

    def expected(self) -> ChannelStatistics:
        """Return ranges that other samples are likely to keep.

        The largest of few values predicts little of the next ones: of channels that are alike, some have seen
        larger values than others.  So each is granted the ratio of peak to root mean square that any has,
        within the range of the whole.
        """
        rms = np.sqrt(self.power)
        alive = rms > rms.max(initial=0.0) * QUIET
        ends = []
        for end in (-self.low, self.high):
            ratio = (end[alive] / rms[alive]).max(initial=0.0)
            ends.append(np.maximum(end, np.minimum(ratio * rms, end.max(initial=0.0))))
        return ChannelStatistics(-ends[0], ends[1], self.power)


def channel_statistics(
    model: Model, tensors: Sequence[Tensor], samples: Iterable[Sample], engine: Engine
) -> dict[Tensor, ChannelStatistics]:
    """Return statistics of the channels of activations of the main graph.

    Args:
        tensors: Activations with at least one element.
    """
    session = engine.session(
        model, quantized=False, refine=partial(_add_reductions, {t.name: t for t in tensors})
    )
    statistics: dict[Tensor, ChannelStatistics] = {}
    count = 0
    for sample in samples:
        results = session.run(sample)
        count += 1
        for tensor in tensors:
            low, high, square = (np.asarray(results[f"{k}:{tensor.name}"], np.float64) for k in _KINDS)
            mean = square * (tensor.shape[-1] / tensor.size)
            channels = statistics.get(tensor)
            if channels is None:
                statistics[tensor] = ChannelStatistics(low, high, mean)
            else:
                channels.low, channels.high = np.minimum(channels.low, low), np.maximum(channels.high, high)
                channels.power = channels.power + mean
    for channels in statistics.values():
        channels.power = channels.power / count
    return statistics


def _add_reductions(left: dict[str, Tensor], lowered: Lowered) -> None:
    """Add outputs with reductions of the channels of tensors."""
    for name in [name for name in left if name in lowered.graph.tensors]:
        tensor = left.pop(name)
        order = lowered.layout(name)
        axes = np.array([place for place, axis in enumerate(order) if axis != tensor.rank - 1], np.int64)
        inputs = [lowered.value(name, any_layout=True), lowered.add_constant(axes)]
        for kind in _KINDS:
            (reduced,) = lowered.add_node(kind, inputs, keepdims=0)
            lowered.add_output(f"{kind}:{name}", reduced, dt.FLOAT32, (tensor.shape[-1],))


@dataclass(slots=True)
class _Reader:
    """A reader of a channel in the noise model.

    All arrays have the axes of its weight: [in of a group, out].

    Attributes:
        seen: What is known of its input.
        energy: Sum of squared weights over taps.
        largest: Largest magnitude over taps.
        taps: Weights between one channel in and one channel out.
        act_steps: Steps of the input's range.
        weight_steps: Steps of a weight's magnitude.
        single: Whether the weight has one scale.
    """

    op: Op
    seen: ChannelStatistics
    energy: Array
    largest: Array
    taps: int
    act_steps: int
    weight_steps: int
    single: bool

    def noise(self, factors: Array) -> float:
        """Return the power of the noise after the op over that of its signal."""
        spread = beside_weight(self.op, factors)
        power = beside_weight(self.op, self.seen.power)
        low, high = (self.seen.low / factors).min(), (self.seen.high / factors).max()
        act_step = (max(high, 0.0) - min(low, 0.0)) / self.act_steps
        axis = 1 if self.op.type == "FullyConnected" else 0
        tops = (self.largest * spread).max(axis=axis, keepdims=True)
        weight_step = (tops.max() if self.single else tops) / self.weight_steps
        noise = act_step**2 * (self.energy * spread**2).sum()
        noise += self.taps * np.broadcast_to(weight_step**2 * power / spread**2, self.energy.shape).sum()
        signal = (self.energy * power).sum()
        return float(noise / signal) / 12 if signal > 0 else 0.0


def best_factors(
    chain: Chain, seen: dict[Op, ChannelStatistics], options: QuantOptions, precision: Precision
) -> tuple[Array, float]:
    """Return the best factors by channel of a chain, and their gain in dB.

    The gain is that of the noise in the model.

    They are products of powers of the channel's range and of the largest weight that reads it, so
    that range is traded against weights anywhere between neither and all.

    Args:
        seen: Channels of each sink's input.
    """
    readers = [_reader(sink, seen[sink], options, precision) for sink in chain.sinks]
    ranges, weights = np.zeros(chain.count), np.zeros(chain.count)
    for reader in readers:
        found = reader.seen
        ranges = np.maximum(ranges, np.maximum(np.abs(found.low), np.abs(found.high)))
        weights = np.maximum(weights, _per_channel(reader, chain.count))
    best, ones = (np.ones(chain.count), 1.0), np.ones(chain.count)
    before = sum(reader.noise(ones) for reader in readers)
    if not ranges.max() > 0 or not weights.max() > 0 or not before > 0:
        return ones, 0.0
    ranges = np.maximum(ranges, QUIET * ranges.max())
    weights = np.maximum(weights, QUIET * weights.max())
    for of_range in _EXPONENTS:
        for of_weight in _EXPONENTS:
            factors = ranges**of_range / weights**of_weight
            # The channel with the largest range keeps it.
            factors *= (ranges / factors).max() / ranges.max()
            ratio = sum(reader.noise(factors) for reader in readers) / before
            if ratio < best[1]:
                best = factors, ratio
    return best[0], -10 * math.log10(best[1]) if best[1] > 0 else math.inf


def _reader(sink: Op, seen: ChannelStatistics, options: QuantOptions, precision: Precision) -> _Reader:
    tensor = sink.inputs[1]
    if tensor is None or tensor.data is None:
        raise ValueError(f"{sink.name!r} has no static weight")
    weight = np.asarray(tensor.numpy(), np.float64)
    taps = weight.size // (weight.shape[-1] * weight.shape[-2])
    flat = weight.reshape(taps, *weight.shape[-2:])
    energy, largest = (flat**2).sum(axis=0), np.abs(flat).max(axis=0)
    tensor.data.release()
    act_bits, weight_bits = precision.act_bits_of(sink), precision.weight_bits_of(sink)
    return _Reader(
        sink,
        seen,
        energy,
        largest,
        taps,
        (1 << (act_bits or 16)) - 1,
        (1 << (weight_bits - 1)) - 1,
        not options.use_per_channel_quantization,
    )


def _per_channel(reader: _Reader, count: int) -> Array:
    """Return the largest magnitude of the weights that read each input channel."""
    if reader.op.type == "FullyConnected":
        return reader.largest.max(axis=0)
    depth, outputs = reader.largest.shape
    groups = count // depth if reader.op.type != "TransposeConv2d" else 1
    return np.asarray(reader.largest.reshape(depth, groups, outputs // groups).max(axis=2).T.reshape(-1))


@dataclass(slots=True, eq=False)
class _Change:
    """A change of the chain after one op; ``edit`` makes it."""

    name: str
    edit: Callable[..., None]
    values: Array
    gain: float


def equalize(
    plan: Plan, calibration: Calibration, engine: Engine, name: str, is_source: Callable[[Op], bool]
) -> Plan:
    """Return a plan whose chains are rescaled and shifted where outputs gain by it.

    First factors by the ranges that were seen are tried, where none of them helps more cautious ones.
    Last come constants ("high-bias absorption").

    Args:
        plan: The plan, before calibration; its graph is changed.
        is_source: Which ops may be changed.
    """
    chains = {chain.source.name: chain for chain in find_chains(plan.graph, is_source)}
    if not chains:
        return plan.noted(f"{name}: no op has channels that xdlc can rescale")
    guard = Guard(plan, calibration, engine)
    seen = _seen(plan, engine, guard, chains)
    before = guard.score_of_float(plan.model)
    reached = before
    rescaled, refused = list[_Change](), list[_Change]()
    for cautious, most in ((False, TRIALS), (True, MORE_TRIALS)):
        if rescaled:
            break
        changes = []
        for chain in chains.values():
            known = {s: seen[s].expected() if cautious else seen[s] for s in chain.sinks}
            factors, gain = best_factors(chain, known, plan.options, plan.precision)
            changes.append(_Change(chain.source.name, rescale, factors, gain))
        rescaled, tried, reached = _try(plan.model, guard, changes, reached, most)
        refused += tried
    factors_of = {change.name: change.values for change in rescaled}
    changes = [_absorption(chain, seen, factors_of.get(key)) for key, chain in chains.items()]
    shifted, unshifted, reached = _try(plan.model, guard, changes, reached, MORE_TRIALS)
    notes = [
        f"{name}: rescaled {len(rescaled)} of {len(chains)} chains, shifted {len(shifted)}; SQNR of the "
        f"outputs is {reached.mean_db:.1f} dB, was {before.mean_db:.1f} dB"
    ]
    for done, kept, left in (("rescaled", rescaled, refused), ("shifted", shifted, unshifted)):
        for change in kept:
            notes.append(
                f"{name}: {done} after {change.name!r}; expected noise falls by {change.gain:.1f} dB"
            )
        for source in dict.fromkeys(change.name for change in left):
            if all(source != change.name for change in kept):
                notes.append(f"{name}: not {done} after {source!r}, because the outputs did not improve")
    return plan.noted(*notes)


def _seen(plan: Plan, engine: Engine, guard: Guard, chains: dict[str, Chain]) -> dict[Op, ChannelStatistics]:
    reads = {sink: sink.inputs[0] for chain in chains.values() for sink in chain.sinks}
    tensors = list(dict.fromkeys(tensor for tensor in reads.values() if tensor is not None))
    found = channel_statistics(plan.model, tensors, guard.seen, engine)
    return {sink: found[tensor] for sink, tensor in reads.items() if tensor is not None}


def _try(
    model: Model, guard: Guard, changes: list[_Change], reached: Score, most: int
) -> tuple[list[_Change], list[_Change], Score]:
    """Make the changes that help; return them, the refused ones, and the new score."""
    worth = (change for change in changes if change.gain >= WORTH_TRYING)
    tried = sorted(worth, key=lambda change: -change.gain)
    kept, reached = keep_what_helps(guard, model, tried, _make, reached, most)
    for change in kept:
        _make(model, change)
    return kept, [change for change in tried if change not in kept], reached


def _make(model: Model, change: _Change) -> None:
    (chain,) = find_chains(model.main, lambda op: op.name == change.name)
    change.edit(model.main, chain, change.values)


def _absorption(chain: Chain, seen: dict[Op, ChannelStatistics], factors: Array | None) -> _Change:
    """Plan a shift of each channel by the middle of its range.

    After a Relu it is the largest constant below all values.
    """
    scale = np.ones(chain.count) if factors is None else factors
    low = np.min([seen[sink].low for sink in chain.sinks], axis=0) / scale
    high = np.max([seen[sink].high for sink in chain.sinks], axis=0) / scale
    constants = np.zeros(chain.count)
    if chain.shift is Shift.ANY:
        constants = (low + high) / 2
    elif chain.shift is Shift.BELOW:
        # Other samples may hold a little less, which Relu would cut off.
        constants = np.maximum(low - MARGIN * (high - low), 0.0)
    before = max(high.max(), 0.0) - min(low.min(), 0.0)
    after = max((high - constants).max(), 0.0) - min((low - constants).min(), 0.0)
    gain = 20 * math.log10(before / after) if before > 0 and after > 0 else 0.0
    return _Change(chain.source.name, shift, constants, gain)
