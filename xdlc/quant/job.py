"""Job: one quantization under way, the state that its steps share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from xdlc import passes
from xdlc.errors import UsageError
from xdlc.ir import Graph, Model
from xdlc.ir.data import Array
from xdlc.ir.dtype import SFIXED16
from xdlc.quant.apply import sign
from xdlc.quant.attention_masks import add_peaks
from xdlc.quant.auto_range import SAMPLE_BYTES, Choice, choose, most_samples
from xdlc.quant.calibration.calibrate import Calibration, calibrate
from xdlc.quant.calibration.session import Give
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.decision import Decision
from xdlc.quant.existing_encodings import join_borders
from xdlc.quant.judge import OutputJudge, Part, judged, parts_of_outputs
from xdlc.quant.kernels import KernelSource
from xdlc.quant.options import QuantOptions
from xdlc.quant.output_accuracy import MOST_HELD_OUT, Figure
from xdlc.quant.output_kinds import OutputKind
from xdlc.quant.plan import GraphPlan
from xdlc.quant.precision import Precision
from xdlc.quant.range_methods import RangeMethod, find_range_method
from xdlc.quant.samples import HELD_OUT, KeptSample, Sample, Samples, Spread, is_held_out, run_sample
from xdlc.quant.sharing import Sharing
from xdlc.quant.subgraphs import Inner
from xdlc.runtime.states import next_values
from xdlc.runtime.timeout import OBSERVED

if TYPE_CHECKING:
    from xdlc.quant.ladder import Rung
    from xdlc.quant.mixed.record import RaisedOp
    from xdlc.quant.remedies import Trial
    from xdlc.quant.sample_summary import SampleSummary
    from xdlc.quant.user_metric import Evaluate
    from xdlc.runtime.cpu import CpuSession
    from xdlc.runtime.udo import Kernels

Progress = Callable[[int], None]
Step = Callable[[str, int, int], None]


@dataclass
class Job(GraphPlan):
    """A quantization under way.

    Attributes:
        model: The copy that is being quantized; float until the last step.
        options: The options of the user.
        samples: Calibration samples, which can be read again.
        precision: Bit widths of ops; ``place`` again after a change.
        inner: The branches and loop bodies that are quantized too.
        calibration: What is known of activations; empty before calibration.
        decision: The stored form of tensors; empty before that is decided.
        notes: What was done beyond ranges, and why, for people: one line each.
        raised: The ops whose bits mixed precision raised.
        rungs: What the ladder of ``accuracy`` tried.
        remedies: What was tried for warnings, by its text; None: the other options leave no room for it.
        goal: Least SQNR in dB that mixed precision kept on the samples it judged by; None: it had no such
            goal, or did not reach it.
        evaluate: The user's judge of a network, given a function that runs it; None: none.
        min_score: What ``evaluate`` has to give at least.
        reference: The float model before the first algorithm touched static data; None: none has.
        step: Called by what takes long with its title, the number of steps done, and that of all (0: not
            known), through ``under_way``.
        choice: The range method of ``auto`` where activations have 8 bits, once it is chosen.
        measured: Samples to measure the outputs with: those held out, or all where these are too few.
        holds_out: Whether samples are held out, to be measured with under the ranges of the others.
        figures: How good the outputs are.
        corrects_biases: Whether biases make up for what rounding the weights adds to means.
        warnings: What is lost of them and what to do about it, one line each.
        command: The command line that advice adds options to; empty: the API was called.
        per_channel: Whether scales per channel, the default, were set by the user.
        kernels: Kernels of UDOs; None: the model has no such ops, or need not run.
        kernel_source: Where other processes get them from.
        data_problems: What is wrong with the calibration samples, one line each: no bits repair that, and
            figures of noise mean nothing.
        has_own_list: Whether ``measured`` are samples of the user's that did not calibrate.
    """

    model: Model
    options: QuantOptions
    samples: Samples
    precision: Precision
    inner: list[Inner] = field(default_factory=list)
    calibration: Calibration = field(default_factory=Calibration)
    decision: Decision = field(default_factory=Decision)
    notes: list[str] = field(default_factory=list)
    raised: list[RaisedOp] = field(default_factory=list)
    rungs: list[Rung] = field(default_factory=list)
    remedies: dict[str, Trial | None] = field(default_factory=dict)
    goal: float | None = None
    evaluate: Evaluate | None = None
    min_score: float = -math.inf
    reference: Model | None = None
    step: Step | None = None
    choice: Choice | None = None
    measured: list[KeptSample] = field(default_factory=list)
    holds_out: bool = False
    figures: list[Figure] = field(default_factory=list)
    corrects_biases: bool = False
    warnings: list[str] = field(default_factory=list)
    command: Sequence[str] = ()
    per_channel: bool = False
    kernels: Kernels | None = None
    kernel_source: KernelSource = field(default_factory=KernelSource)
    data_problems: list[str] = field(default_factory=list)
    has_own_list: bool = False
    _spread: Spread | None = None
    _judged_parts: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = self.model.main
        self.states = next_values(self.model)
        self.bounds_masks = self.options.bound_attention_masks

    def session(self, graph: Model | Graph, **options: Any) -> CpuSession:
        """Return a session of a model or graph with the ops of this one, which may be users'.

        Args:
            graph: The model or graph.
            **options: Keyword arguments of :class:`xdlc.runtime.cpu.CpuSession`.
        """
        from xdlc.runtime.cpu import CpuSession

        return CpuSession(
            graph, kernels=self.kernels, spins=False, loop_timeout=self._loop_timeout, **options
        )

    @property
    def output_kinds(self) -> dict[str, OutputKind]:
        """The kinds of outputs that the options name."""
        return {name: OutputKind(kind) for name, kind in self.options.output_kind.items()}

    @property
    def _loop_timeout(self) -> float:
        return OBSERVED if self.options.loop_timeout is None else self.options.loop_timeout

    def under_way(self, title: str, done: int = 0, total: int = 0) -> None:
        """Report what is done now, for a line of progress: all that may take a second calls this.

        Args:
            title: What is done, in a word or two.
            done: Steps done.
            total: All steps; 0: not known.
        """
        if self.step is not None:
            self.step(title, done, total)

    def calibrate(self, summary: SampleSummary | None = None) -> None:
        """Run the float model on all samples and keep what is to be known of activations.

        Args:
            summary: Counts the samples too.
        """
        from xdlc.runtime.engine import give_back

        self.__dict__.pop("masks", None)
        kept = Spread(most_samples(self.graph), SAMPLE_BYTES)
        first, held = (Spread(2 * MOST_HELD_OUT, SAMPLE_BYTES) for _ in range(2))
        chooses = self._has_choice()

        def watched() -> Iterator[Sample]:
            for number, sample in enumerate(self.samples):
                if summary is not None:
                    summary.add(number, sample)
                if chooses:
                    kept.add(number, sample)
                if number < HELD_OUT - 1:
                    first.add(number, sample)
                if is_held_out(number):
                    held.add(number, sample)
                    first.kept.clear()
                yield sample

        def give(number: int, floats: Mapping[str, Array]) -> None:
            for spread in (kept, first, held):
                spread.give(number, floats)

        def progress(done: int) -> None:
            self.under_way("calibrating", done, self.samples.count)

        self.calibration = self.calibration_of(watched(), give=give, progress=progress)
        give_back()
        self._spread = kept if chooses else None
        self.holds_out, self.measured = bool(held.kept), held.evenly(MOST_HELD_OUT) or first.kept

    def look_at_samples(self, summary: SampleSummary) -> None:
        """Note what the samples of calibration hold and what is wrong with them, and keep the latter."""
        from xdlc.quant.sample_faults import find_faults

        faults = find_faults(self, summary)
        self.data_problems = [fault.text for fault in faults if fault.is_certain or fault.kind == "noise"]
        self.notes += [*summary.lines(), *map(str, faults)]

    def measure_with(self, samples: Iterable[Sample]) -> None:
        """Take samples that did not calibrate to measure outputs with, in place of those held out.

        Raises:
            UsageError: If one does not fit the inputs, or holds NaN or infinite values.
        """
        import numpy as np

        spread = Spread(2 * MOST_HELD_OUT, SAMPLE_BYTES)
        session = self.session(self.model, quantized=False, outputs=judged(self.graph))
        for number, sample in enumerate(samples):
            spread.add(number, sample)
        self.measured, self.has_own_list = spread.evenly(MOST_HELD_OUT), True
        for kept in self.measured:
            place = f"held-out sample {kept.number}"
            kept.floats = run_sample(session, kept.sample, place)
            for name, array in kept.sample.items():
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    fix = "remove the sample, or fix its preprocessing"
                    raise UsageError("holds NaN or infinite values", where=f"{place}, {name!r}", fix=fix)

    def choose(self) -> None:
        """Choose the range method of ``auto`` at 8 bits, by the samples that calibration kept."""
        if self._spread is not None:
            self.under_way("choosing ranges")
            self.choice = choose(self, self._spread)
            self._spread = None

    @property
    def _method(self) -> RangeMethod:
        return find_range_method(self.options.act_quantizer_calibration)

    def _has_choice(self) -> bool:
        return self._method.needs_network and 8 in self.placement.fixed.values()

    def calibration_of(
        self, samples: Iterable[Sample], *, give: Give | None = None, progress: Progress | None = None
    ) -> Calibration:
        """Return the calibration of some samples; ``give`` gets the results of the float model."""
        parts: list[GraphPlan] = [self, *self.inner]
        marks = [(part.graph, part.graph.mark()) for part in parts]
        outputs = judged(self.graph) if give is not None else ()
        peaks = {}
        for part in parts:
            peaks.update(add_peaks(part.graph, part.masks))
        try:
            calibration = calibrate(
                self.model,
                [*(tensor for part in parts for tensor in part.watched), *peaks.values()],
                samples,
                averaged=[tensor for part in parts for tensor in part.averaged],
                histograms=self._method.histogram and (not self._method.needs_network or self._has_choice()),
                outputs=outputs,
                give=give,
                jobs=self.options.jobs,
                progress=progress,
                kernels=self.kernels,
                source=self.kernel_source,
                loop_timeout=self._loop_timeout,
            )
        finally:
            for graph, mark in marks:
                graph.retract(mark)
        calibration.peaks = {scores: calibration.found.pop(peak) for scores, peak in peaks.items()}
        for peak in peaks.values():
            del calibration.rest[peak]
        # Under other widths they may be apart from those that hold their values.
        for tensor in self.sharing.derived:
            for known in (calibration.found, calibration.rest):
                merged = [known[member] for member in self.sharing.members(tensor) if member in known]
                if merged and tensor not in known:
                    known[tensor] = reduce(Statistics.merge, merged)
        return calibration

    def decide(self) -> None:
        """Choose the stored form of every tensor that quantized ops touch."""
        self.place()
        self.decision = self.decider(self.calibration, self.options, self.choice).decide()
        for inner in self.inner:
            inner.decide(self.calibration, self.options, self.choice)

    def decide_activations(self) -> Decision:
        """Return what would be decided of activations; changes nothing but the placement."""
        self.place()
        return self.decider(self.calibration, self.options, self.choice).activations()

    @contextmanager
    def without_held_out(self) -> Iterator[None]:
        """Have activations under the ranges of the samples that are not held out, for as long as it lasts."""
        whole, decision = self.calibration, self.decision
        if self.holds_out and not self.has_own_list:
            self.calibration = replace(whole, found=whole.rest)
            sharing = Sharing(self.graph, self.placement)
            found = self.decider(self.calibration, self.options, self.choice, sharing).activations()
            self.decision = replace(
                decision, activations=found.activations, converted=found.converted, useful=found.useful
            )
            for inner in self.inner:
                inner.decide(self.calibration, self.options, self.choice)
        try:
            yield
        finally:
            self.calibration, self.decision = whole, decision
            for inner in self.inner:
                inner.decide(whole, self.options, self.choice)

    @contextmanager
    def under(
        self,
        change: Callable[[Precision], Precision],
        inner_change: Callable[[Precision], Precision] | None = None,
    ) -> Iterator[None]:
        """Have all graphs decided under other widths, for as long as it lasts.

        Args:
            change: Returns the widths of the main graph, given a copy of those that it has.
            inner_change: The same of branches and loop bodies; None: ``change``.
        """
        parts: list[GraphPlan] = [self, *self.inner]
        decision, before = self.decision, [part.precision for part in parts]
        try:
            self.precision = change(self.precision.copy())
            for inner in self.inner:
                inner.precision = (inner_change or change)(inner.precision.copy())
            self.decide()
            yield
        finally:
            for part, precision in zip(parts, before, strict=True):
                part.precision = precision
            self.place()
            self.decision = decision
            for inner in self.inner:
                inner.decide(self.calibration, self.options, self.choice)

    def finish(self) -> None:
        """Make the model a quantized one: store what was decided."""
        means = self.calibration.means if self.corrects_biases else {}
        self.store(self.decision, means)
        self.notes += self.store_floats(self.options)
        for inner in self.inner:
            self.notes += inner.finish(means, self.options)
        for graph in self.model.graphs.values():
            join_borders(graph)
            passes.find("convolve_blocks").apply(graph)
        self.notes += self.decision.notes

    def output_judge(self, samples: Sequence[KeptSample] | None = None) -> OutputJudge:
        """Return the judge of quantized models by some samples, by default those kept to measure with."""
        kept = self.measured if samples is None else samples
        if not self._judged_parts:  # once, for kinds are inferred from values
            floats = [sample.floats for sample in self.measured or kept]
            self._judged_parts = parts_of_outputs(self.graph, floats, self.output_kinds)
        return OutputJudge(self._judged_parts, [sample.floats for sample in kept])

    def measured_results(self, *, corrected: bool) -> Iterator[Mapping[str, Array]]:
        """Yield what the quantized model makes of each of ``measured``, under the ranges of the others.

        Args:
            corrected: Whether biases are corrected.
        """
        if not self.measured or not judged(self.graph):
            return
        with self.without_held_out():
            session = self.target_session(corrected=corrected)
        for kept in self.measured:
            yield session.run(kept.sample)

    def target_session(self, *, corrected: bool | None = None) -> CpuSession:
        """Return a session of what outputs are judged by, under the present decision, near to the target.

        Values are rounded to their encodings between onnxruntime's own kernels (``plain``): within 1.6 dB of
        the emulation of HTP on ten networks, for half its time.  The session of the choice of ranges, which
        rounds less, was up to 4 dB too good.  HTP's sums of products with 16-bit weights lose up to 40 dB
        more: a network with such weights runs in its arithmetic.  Ops that stay float are computed in float16
        where the target has that alone.

        Args:
            corrected: Whether biases are corrected; default: as was decided.
        """
        model = self.trial(corrected=corrected, as_on_target=True)
        plain = all(dtype is not SFIXED16 for dtype, _ in self.decision.statics.values())
        return self.session(model, outputs=judged(self.graph), plain=plain)

    def trial(
        self, *, weights_of: Model | None = None, corrected: bool | None = None, as_on_target: bool = False
    ) -> Model:
        """Return a quantized copy under the present decision; the model itself stays float.

        Args:
            weights_of: A float model with the same ops and tensors, whose static data stay as they are.
            corrected: Whether biases are corrected; default: as was decided.
            as_on_target: Whether floats are float16 where the target computes with these.
        """
        options, source = self.options, self.model if weights_of is None else weights_of
        if as_on_target and options.soc is not None and options.soc.fp16 and options.float_bitwidth == 32:
            options = replace(options, float_bitwidth=16)
        twin = Job(source.clone(), options, self.samples, self.precision, kernels=self.kernels)
        ops = dict(zip(self.graph.ops, twin.graph.ops, strict=True))
        twin.decision = self.decision.moved(ops, twin.graph.tensors, statics=weights_of is None)
        means = self.means_of(self.calibration.means, twin.graph)
        for inner in self.inner:
            copy, more = inner.twin(twin.model, self.calibration.means, statics=weights_of is None)
            twin.inner.append(copy)
            means.update(more)
        twin.calibration = Calibration(means=means)
        twin.corrects_biases = self.corrects_biases if corrected is None else corrected
        twin.finish()
        sign(twin.model, options)
        return twin.model
