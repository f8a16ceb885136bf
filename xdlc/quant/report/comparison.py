"""Comparison of a float model with its quantization, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from xdlc.compare.figures import Noise
from xdlc.ir import Graph, Model, Op, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.graph import is_udo
from xdlc.ir.quantization import float_data
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.calibration.statistics import Histogram
from xdlc.quant.encoding_groups import EffectiveRange, EncodingGroups, effective_range
from xdlc.quant.engine import Engine
from xdlc.quant.op_specs import is_real, single_name
from xdlc.quant.placement import Placement
from xdlc.quant.plan import Plan
from xdlc.quant.ranges import NOTHING, QuantType, Range, Use, range_of, representable, to_quantized
from xdlc.quant.samples import Sample, run_sample
from xdlc.quant.storing import quantized_copy
from xdlc.runtime.engine import give_back
from xdlc.runtime.htp_fusion import gate_of, with_producer

GROUP_BYTES = 1 << 27
"""Most bytes of float values of a sample that are held at once, unless one tensor alone has more."""

RUN_BYTES = 1 << 22
"""Bytes of activations that take as long as a run of hardly any."""

Step = Callable[[], None]
COUNTED = 1 << 16
"""Most values of a sample that a histogram counts, evenly spread."""


@dataclass
class Subject:
    """A plan, and samples to measure it with.

    Attributes:
        plan: The plan, decided.
        engine: What runs networks.
        samples: Samples that calibration has not seen.
    """

    plan: Plan
    calibration: Calibration
    engine: Engine
    samples: Sequence[Sample] = ()

    @property
    def reference(self) -> Model:
        """The float model before algorithms changed weights, with the plan's names."""
        return self.plan.float_model

    @cached_property
    def reference_ops(self) -> dict[str, Op]:
        """The ops of the float model by name."""
        return {op.name: op for op in self.reference.main.ops}

    @cached_property
    def trial(self) -> Model:
        """The quantized model."""
        return quantized_copy(self.plan, self.calibration)

    @property
    def graph(self) -> Graph:
        """The plan's graph, whose ops and tensors decisions are about."""
        return self.plan.graph

    @property
    def placement(self) -> Placement:
        return self.plan.placement

    @property
    def groups(self) -> EncodingGroups:
        """Which tensors share an encoding."""
        return self.plan.decision.groups or self.plan.main.groups

    @cached_property
    def activations(self) -> list[Tensor]:
        """Float activations that exist after quantization, in order of execution."""
        made = [tensor for op in self.graph.ops for tensor in op.outputs]
        real = (tensor for tensor in (*self.graph.inputs, *made) if is_real(tensor) and tensor.size)
        return [tensor for tensor in real if tensor.name in self.trial.main.tensors]

    @property
    def work(self) -> int:
        """Cost of a run: bytes of all activations as float32, and a least cost."""
        return RUN_BYTES + 4 * sum(tensor.size for tensor in self.activations)

    @cached_property
    def statics(self) -> dict[Use, QuantType]:
        """The stored form of static data by use, in the main graph."""
        ops = set(self.graph.ops)
        return {use: form for use, form in self.plan.decision.statics.items() if use[0] in ops}

    @cached_property
    def stored_statics(self) -> dict[tuple[str, int], Tensor]:
        """Static tensors of the quantized model by op and input."""
        return {
            (op.name, index): tensor
            for op, index in self.statics
            if (tensor := self._trial_ops[op.name].inputs[index]) is not None
        }

    @cached_property
    def _trial_ops(self) -> dict[str, Op]:
        return {op.name: op for op in self.trial.main.ops}

    def form(self, tensor: Tensor) -> QuantType | None:
        """Return the stored form of an activation; None if it is float."""
        return self.plan.decision.activations.get(tensor)

    def effect(self, tensor: Tensor) -> EffectiveRange:
        """Return the range of an activation that affects its readers."""
        form = self.form(tensor)
        if form is None:
            return EffectiveRange()
        useful = self.plan.decision.useful.get(tensor)
        if useful is not None:
            return EffectiveRange(useful.low, useful.high)
        found = effective_range(self.graph, self.placement, self.groups, tensor, form)
        return replace(found, joined=self.joined_to(tensor))

    def stored_name(self, tensor: Tensor) -> str:
        """Return the name of an activation's stored form in the quantized model."""
        twin = self.trial.main.tensors[tensor.name]
        form = self.form(tensor)
        if form is not None and not twin.dtype.is_fixed:
            for reader in self.trial.main.consumers(twin):
                if single_name(reader) == "Quantize" and reader.outputs[0].dtype is form[0]:
                    return reader.outputs[0].name
        return tensor.name

    def joined_to(self, tensor: Tensor) -> str | None:
        """Return the name of the op that an activation's writer is fused with.

        The op reads the activation before it is rounded.  The result is None if there is no such op.
        """
        stored = self.trial.main.tensors[tensor.name]
        readers = self.trial.main.consumers(stored)
        if not readers or self.trial.main.is_output(stored):
            return None
        return readers[0].name if all(_reads_unrounded(op, stored) for op in readers) else None

    def weighted(self) -> list[Op]:
        """Return the ops with quantized static data that may run under another name."""
        ops = set(self.graph.ops)
        params = (op for op, _ in self.plan.decision.params if op in ops)
        return [op for op in dict.fromkeys((*(op for op, _ in self.statics), *params)) if self._has_twin(op)]

    def _has_twin(self, op: Op) -> bool:
        """Return whether an op can run twice.

        A kernel that comes with a model computes ops of certain names only.
        """
        if not is_udo(op):
            return True
        kernels = self.engine.kernels
        return kernels is not None and kernels.knows(op.twin(lambda tensor: tensor, name=_twin_name(op)))

    def with_stored_weights(self, ops: Sequence[Op]) -> tuple[Model, dict[str, str]]:
        """Return the float model with twins of ops that have the stored static data.

        Args:
            ops: Ops of the plan's graph.

        Returns:
            The model, and by name of an op's result the name of that of its twin.
        """
        model = self.reference.clone()
        graph = model.main
        originals = {op.name: op for op in graph.ops}
        names: dict[str, str] = {}
        for op in ops:
            original = originals[op.name]
            stored = {
                original.inputs[index]: self.stored_statics[op.name, index]
                for held, index in self.statics
                if held is op and (op.name, index) in self.stored_statics
            }
            results = set(original.outputs)

            def twin(
                tensor: Tensor, stored: dict[Tensor | None, Tensor] = stored, results: set[Tensor] = results
            ) -> Tensor:
                if tensor in results:
                    name = names[tensor.name] = graph.unique_name(f"{tensor.name}~stored")
                    return Tensor(name, tensor.shape, tensor.dtype, dynamic_axes=tensor.dynamic_axes)
                if tensor not in stored:
                    return tensor
                name = graph.unique_name(f"{tensor.name}~stored")
                made = Tensor(name, tensor.shape, tensor.dtype, role=tensor.role)
                made.data = float_data(stored[tensor]).cast(tensor.dtype.numpy)
                return graph.add_tensor(made)

            second = original.twin(twin, name=_twin_name(original))
            for name, param in self._trial_ops[op.name].params.items() if is_udo(op) else ():
                if isinstance(param, Tensor) and param.dtype.is_fixed:
                    second.params[name] = real = Tensor(param.name, param.shape, FLOAT32, role=param.role)
                    real.data = float_data(param)
            graph.insert_after(original, second)
        return model, names


def _twin_name(op: Op) -> str:
    return f"{op.name}~stored"


def _reads_unrounded(op: Op, source: Tensor) -> bool:
    name = single_name(op)
    if name == "ElementWiseMultiply":
        return gate_of(op) is source
    if op.inputs[0] is not source or not with_producer(source, name):
        return False
    # With one encoding for both, rounding before and after the function is the same.
    return name == "Prelu" or source.encoding != op.outputs[0].encoding


def groups(tensors: Sequence[Tensor], limit: int = GROUP_BYTES) -> Iterator[list[Tensor]]:
    """Yield runs of tensors whose float values fit together into ``limit`` bytes.

    Without tensors, there is one empty run.
    """
    group: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if group and size + 4 * tensor.size > limit:
            yield group
            group, size = [], 0
        group.append(tensor)
        size += 4 * tensor.size
    yield group


def run(session: object, sample: Sample, index: int) -> dict[str, Array]:
    """Return a session's results for a held-out sample; errors name the sample."""
    return run_sample(session, sample, f"held-out sample {index}")


def rounded(values: Array, form: QuantType) -> Array:
    """Return float values rounded to an activation's encoding, float32."""
    dtype, encoding = form
    if not isinstance(encoding, ScaleOffset):
        raise ValueError(f"activations cannot be stored under {encoding!r}")
    stored = to_quantized(values, encoding, dtype).astype(np.float32)
    stored += np.float32(encoding.offset)
    stored *= np.float32(encoding.scale)
    return stored


def spread(values: Array) -> Array:
    """Return at most ``COUNTED`` finite values of an array, from all of it."""
    flat = values.reshape(-1)
    if flat.size > COUNTED:
        step = -(-flat.size // COUNTED)
        while math.gcd(step, flat.size) != 1:
            step += 1
        flat = flat[::step]
    return flat[np.isfinite(flat)]


@dataclass(slots=True)
class Quality:
    """Measurements of an activation.

    Attributes:
        form: Its stored form; None if it stays float.
        effect: The part of it that affects its readers.
        cumulative: The quantized network against the float one.
        isolated: Its op alone quantized, on float inputs.
        rounding: The value alone rounded.
        weights: Static data of its op alone quantized; nothing is added where there are none.
        seen: Range of the float values.
        effective: Range of those that affect its readers.
        histogram: Histogram of a part of the float values.
        count: Values in all samples.
        clipped: Those that are more than half a step beyond the encoding's ends.
        beyond: Largest distance of a value from the encoding's ends.
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
            local: What the op makes of float inputs with its stored static data; None without such.
            floats: The float network's values by name.
        """
        value = value.astype(np.float32, copy=False)
        finite = value if np.isfinite(value).all() else value[np.isfinite(value)]
        self.seen = self.seen.merge(range_of(finite))
        self.histogram = self.histogram.merge(Histogram.of(spread(finite)))
        self.count += value.size
        exact = self.effect.cut(value, floats)
        self.cumulative.add(exact, quantized)
        if self.form is None:
            return
        steps = rounded(exact, self.form)
        self.rounding.add(exact, steps)
        if local is not None:
            self.weights.add(value, local)
            steps = rounded(local, self.form)
        if self.effect.joined is not None:
            steps = exact if local is None else self.effect.cut(local, floats)
        self.isolated.add(exact, steps)
        self._count_clipped(exact, self.form)

    def _count_clipped(self, exact: Array, form: QuantType) -> None:
        dtype, encoding = form
        if not exact.size or not isinstance(encoding, ScaleOffset):
            return
        effective = range_of(exact)
        self.effective = self.effective.merge(effective)
        ends = representable(encoding, dtype)
        beyond = max(ends.low - effective.low, effective.high - ends.high)
        if beyond > encoding.scale / 2:
            self.beyond = max(self.beyond, beyond)
            edge = encoding.scale / 2
            self.clipped += int(np.count_nonzero((exact < ends.low - edge) | (exact > ends.high + edge)))


Pair: TypeAlias = tuple[Mapping[str, Array], Mapping[str, Array]]
"""Outputs of the float network and of another one for a sample, by name."""


def measure_activations(subject: Subject, step: Step) -> tuple[dict[Tensor, Quality], list[Pair]]:
    """Return the quality of each activation on held-out samples, and the outputs.

    The float network and the quantized one run with all values of a group of tensors given out, a sample at
    a time; groups bound what is held.

    Raises:
        UsageError: If a sample does not fit the inputs.
    """
    qualities: dict[Tensor, Quality] = {}
    outputs: list[Pair] = []
    for group in groups(subject.activations):
        outputs = _measure_group(subject, group, qualities, step)
        give_back()  # the sessions of the group are closed
    return qualities, outputs


def _measure_group(
    subject: Subject, group: Sequence[Tensor], qualities: dict[Tensor, Quality], step: Step
) -> list[Pair]:
    """Add the quality of some activations; return the outputs."""
    for tensor in group:
        qualities[tensor] = Quality(subject.form(tensor), subject.effect(tensor))
    weighted = set(subject.weighted())
    ops = dict.fromkeys(
        tensor.producer for tensor in group if tensor.producer is not None and tensor.producer in weighted
    )
    model, locals_ = subject.with_stored_weights(list(ops))
    clamped = [name for tensor in group if (name := qualities[tensor].effect.clamped) is not None]
    names = [tensor.name for tensor in group]
    local_names = [locals_[name] for name in names if name in locals_]
    stored = {name: subject.stored_name(tensor) for name, tensor in zip(names, group, strict=True)}
    floats = subject.engine.session(model, quantized=False, outputs=[*names, *clamped, *local_names])
    quantized = subject.engine.session(subject.trial, outputs=stored.values())
    outputs: list[Pair] = []
    for index, sample in enumerate(subject.samples):
        values, results = run(floats, sample, index), run(quantized, sample, index)
        for tensor in group:
            local = values[locals_[tensor.name]] if tensor.name in locals_ else None
            qualities[tensor].add(values[tensor.name], local, results[stored[tensor.name]], values)
        left = [output.name for output in subject.graph.outputs]
        # Copies, for an array of a session keeps all of the session's memory.
        exact, found = ({name: np.array(made[name]) for name in left} for made in (values, results))
        outputs.append((exact, found))
        step()
    return outputs
