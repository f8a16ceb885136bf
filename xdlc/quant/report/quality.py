"""Quality of each tensor: in the quantized network, and rounded alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.quant.affine import representable, to_quantized
from xdlc.quant.calibration.statistics import Histogram
from xdlc.quant.decision import QuantType
from xdlc.quant.effective_range import EffectiveRange
from xdlc.quant.noise_power import Noise
from xdlc.quant.ranges import NOTHING, Range, range_of
from xdlc.quant.report.comparison import Step, Subject, groups, run

COUNTED = 1 << 16
"""Most values of a sample that a histogram counts, evenly spread."""


def rounded(values: Array, form: QuantType) -> Array:
    """Return float values rounded to an activation's encoding, float32."""
    import numpy as np

    dtype, encoding = form
    if not isinstance(encoding, ScaleOffset):
        raise ValueError(f"activations cannot be stored under {encoding!r}")
    stored = to_quantized(values, encoding, dtype).astype(np.float32)
    stored += np.float32(encoding.offset)
    stored *= np.float32(encoding.scale)
    return stored


def spread(values: Array) -> Array:
    """Return at most ``COUNTED`` of an array's finite values; the same of all places in all rows."""
    import numpy as np

    flat = values.reshape(-1)
    if flat.size > COUNTED:
        step = -(-flat.size // COUNTED)
        while math.gcd(step, flat.size) != 1:
            step += 1
        flat = flat[::step]
    return flat[np.isfinite(flat)]


@dataclass(slots=True)
class Quality:
    """What was measured of an activation.

    Attributes:
        form: Its stored form; None if it stays float.
        effect: The part of it that affects its readers.
        cumulative: The quantized network against the float one.
        isolated: Its op alone quantized, on float inputs.
        rounding: The value alone rounded.
        weights: Static data of its op alone quantized; nothing is added where there are none.
        seen: Range of the float values.
        effective: Range of those that affect its readers.
        histogram: Of a part of the float values.
        count: Values in all samples.
        clipped: Those that are more than half a step beyond the encoding's ends.
        beyond: How far the farthest does.
    """

    form: QuantType | None
    effect: EffectiveRange
    cumulative: Noise = field(default_factory=Noise)
    isolated: Noise = field(default_factory=Noise)
    rounding: Noise = field(default_factory=Noise)
    weights: Noise = field(default_factory=Noise)
    seen: Range = NOTHING
    effective: Range = NOTHING
    histogram: Histogram = field(default_factory=Histogram)
    count: int = 0
    clipped: int = 0
    beyond: float = 0.0

    def add(self, value: Array, local: Array | None, quantized: Array, floats: dict[str, Array]) -> None:
        """Count one sample.

        Args:
            value: The float network's value.
            local: What the op makes of float inputs with its stored static data; None without such.
            quantized: The quantized network's value.
            floats: The float network's values by name.
        """
        import numpy as np

        value = value.astype(np.float32, copy=False)
        finite = value if np.isfinite(value).all() else value[np.isfinite(value)]
        self.seen = self.seen.merge(range_of(finite))
        self.histogram = self.histogram.merge(Histogram.of(spread(finite)))
        self.count += value.size
        wanted = self.effect.cut(value, floats)
        self.cumulative.add(wanted, quantized)
        if self.form is None:
            return
        steps = rounded(wanted, self.form)
        self.rounding.add(wanted, steps)
        if local is not None:
            self.weights.add(value, local)
            steps = rounded(local, self.form)
        if self.effect.joined is not None:
            steps = wanted if local is None else self.effect.cut(local, floats)
        self.isolated.add(wanted, steps)
        self._count_clipped(wanted, self.form)

    def _count_clipped(self, wanted: Array, form: QuantType) -> None:
        import numpy as np

        dtype, encoding = form
        if not wanted.size or not isinstance(encoding, ScaleOffset):
            return
        effective = range_of(wanted)
        self.effective = self.effective.merge(effective)
        held = representable(encoding, dtype)
        beyond = max(held.low - effective.low, effective.high - held.high)
        if beyond > encoding.scale / 2:
            self.beyond = max(self.beyond, beyond)
            edge = encoding.scale / 2
            self.clipped += int(np.count_nonzero((wanted < held.low - edge) | (wanted > held.high + edge)))


def measure_activations(subject: Subject, step: Step) -> dict[Tensor, Quality]:
    """Return the quality of each activation on held-out samples.

    The float network and the quantized one run with all values of a group of tensors given out, a sample at
    a time; groups bound what is held.

    Raises:
        UsageError: If a sample does not fit the inputs.
    """
    found: dict[Tensor, Quality] = {}
    weighted = set(subject.weighted())
    for group in groups(subject.activations):
        for tensor in group:
            found[tensor] = Quality(subject.form(tensor), subject.effect(tensor))
        ops = dict.fromkeys(
            tensor.producer for tensor in group if tensor.producer is not None and tensor.producer in weighted
        )
        model, locals_ = subject.with_stored_weights(list(ops))
        clamped = [name for tensor in group if (name := found[tensor].effect.clamped) is not None]
        names = [tensor.name for tensor in group]
        local_names = [locals_[name] for name in names if name in locals_]
        stored = {name: subject.stored_name(tensor) for name, tensor in zip(names, group, strict=True)}
        floats = subject.engine.session(model, quantized=False, outputs=[*names, *clamped, *local_names])
        quantized = subject.engine.session(subject.trial, outputs=stored.values())
        for index, sample in enumerate(subject.samples):
            values, results = run(floats, sample, index), run(quantized, sample, index)
            for tensor in group:
                local = values[locals_[tensor.name]] if tensor.name in locals_ else None
                found[tensor].add(values[tensor.name], local, results[stored[tensor.name]], values)
            step()
    return found
