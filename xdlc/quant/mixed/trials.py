"""Trials of widths: a quantized network, or its emulation, against the float one.

The emulation computes 8 bits in 16-bit encodings: one session for all widths of activations that ops may
have.  Its graph has 16 bits wherever ops can have them.  What ops of unlike groups hand to each other goes
through a Convert of its own, and constants through a Quantize, for their widths may differ; scales, zero
points and upper ends are fed.  All values are rounded, as sessions do that are ``plain``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from xdlc.compare.figures import EXACT, Noise
from xdlc.ir import Encoding, Graph, Op, ScaleOffset, Tensor, make_op
from xdlc.ir.dtype import UFIXED16
from xdlc.ir.graph import is_udo
from xdlc.ir.tensor import Role
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.opdefs.traits import macs
from xdlc.options.quantizing import OutputKind
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Metric
from xdlc.quant.judge import Score
from xdlc.quant.mixed.groups import Cost, Group, Level, graph_cost, op_cost
from xdlc.quant.mixed.search import Levels
from xdlc.quant.op_specs import reroute, rule_of
from xdlc.quant.output_accuracy import target_runs
from xdlc.quant.placement import place
from xdlc.quant.plan import Plan
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import QuantType, Use
from xdlc.quant.runs import Runs
from xdlc.quant.samples import is_held_out
from xdlc.quant.storing import entered, quantized_copy

if TYPE_CHECKING:
    from xdlc.quant.calibration.calibrate import Calibration, KeptSample
    from xdlc.quant.engine import Engine
    from xdlc.quant.plan import Plan
    from xdlc.quant.samples import Sample

Results: TypeAlias = Mapping[str, Any]
LARGEST_CONSTANT = 1 << 18
"""Elements of constants that are rounded in every run; larger ones keep 16 bits."""


class Emulation:
    """A session of a graph under any widths of activations.

    Args:
        plan: A plan whose main graph runs no other graph and has no user's ops.
        narrow: Widths with the fewest bits of activations; those of weights stay.
        wide: Widths with 16 bits of activations wherever ops can have them.
    """

    def __init__(
        self,
        plan: Plan,
        calibration: Calibration,
        groups: Sequence[Group],
        narrow: Precision,
        wide: Precision,
        engine: Engine,
        names: Sequence[str],
    ) -> None:
        self._plan, self._calibration = plan, calibration
        self._group = {op.name: index for index, group in enumerate(groups) for op in group.ops}
        self._narrow = plan.with_precision(narrow).decided(calibration).decision.statics
        widest = plan.with_precision(wide).decided(calibration)
        self._wide = widest.decision.statics
        model = quantized_copy(widest, calibration)
        ops = {op.name: op for op in plan.graph.ops}
        self._converted = {
            op.outputs[0].name: (plan.graph.tensors[source.name], op.outputs[0].dtype)
            for op in model.main.ops
            if op.type == "Convert"
            and (source := op.inputs[0]) is not None
            and source.name in plan.graph.tensors
        }
        self._uses: dict[str, Use] = {}
        for op in list(model.main.ops):
            for index, tensor in enumerate(op.inputs):
                if op.name in ops and tensor is not None and tensor.dtype is UFIXED16:
                    use = ops[op.name], index
                    if tensor.is_static:
                        self._round_constant(model.main, op, use)
                    elif self._is_edge(model.main, op, tensor):
                        stored = Tensor("", tensor.shape, tensor.dtype, tensor.encoding)
                        self._insert(model.main, "Convert", tensor, stored, op, use)
        self._runs = Runs(engine, model, adjustable=True, outputs=names)

    def encodings(self, precision: Precision) -> dict[str, Encoding]:
        """Return the encodings of the network for some activation widths.

        Args:
            precision: Widths between the narrowest and the widest.
        """
        plan = self._plan.with_precision(precision)
        decision = plan.main.ranges(self._calibration, plan.options, plan.choice)
        encodings: dict[str, Encoding] = {}
        for tensor, form in decision.activations.items():
            encodings[tensor.name] = encodings[entered(tensor)] = _encoding(form)
        for name, (tensor, dtype) in self._converted.items():
            read = decision.read(tensor, dtype)
            if read is not None and read[0] is dtype:
                encodings[name] = _encoding(read)
        for name, (op, index) in self._uses.items():
            source, type = op.inputs[index], plan.placement.read_type(plan.graph, op, index)
            if source is not None and type is not None:
                statics = self._narrow if type.bits == 8 else self._wide
                encodings[name] = _encoding(
                    statics[op, index] if source.is_static else decision.read(source, type)
                )
        return encodings

    def run(self, samples: Iterable[Sample], encodings: Mapping[str, Encoding]) -> Iterator[Results]:
        """Yield the outputs of each sample as real numbers by tensor name."""
        return self._runs.adjusted((sample, encodings) for sample in samples)

    def _is_edge(self, graph: Graph, op: Op, tensor: Tensor) -> bool:
        """Return whether an op may read a tensor in a width of its own."""
        writer = tensor.producer
        if writer is not None and writer.type not in ("Quantize", "Convert"):
            return self._group.get(writer.name) != self._group.get(op.name)
        return len({self._group.get(reader.name) for reader in graph.consumers(tensor)}) > 1

    def _round_constant(self, graph: Graph, op: Op, use: Use) -> None:
        """Round a constant in the run, if its bits follow narrower activations."""
        wanted, (writer, index) = self._narrow.get(use), use
        rule, real, tensor = rule_of(writer), writer.inputs[index], op.inputs[index]
        if (
            wanted is None
            or wanted[0].bits == 16
            or not rule.activation_bits
            or (rule.selects and index == 0)
            or real is None
            or tensor is None
            or not isinstance(tensor.encoding, ScaleOffset)
            or real.size > LARGEST_CONSTANT
        ):
            return
        plain = Tensor(graph.unique_name(real.name), real.shape, real.dtype, role=Role.STATIC)
        plain.data = real.data
        graph.add_tensor(plain)
        stored = Tensor("", tensor.shape, tensor.dtype, tensor.encoding)
        self._insert(graph, "Quantize", plain, stored, op, use)

    def _insert(self, graph: Graph, type: str, source: Tensor, stored: Tensor, op: Op, use: Use) -> None:
        """Let an op read a tensor by way of another op."""
        index = use[1]
        stored.name = graph.unique_name(f"{op.name}_{index}_read")
        graph.insert_before(op, make_op(graph, type, [source], [stored], name=f"{stored.name}_op"))
        reroute(graph, [(op, index)], stored)
        self._uses[stored.name] = use


def _encoding(form: QuantType | None) -> Encoding:
    """Return the encoding of a stored form, with its number of used bits."""
    assert form is not None
    dtype, encoding = form
    if isinstance(encoding, ScaleOffset) and not dtype.is_signed:
        return replace(encoding, bits=dtype.bits)
    return encoding


RunAll: TypeAlias = Callable[[Iterable["Sample"]], Iterator[Mapping[str, Any]]]
"""Yields the results of each sample."""

MOST_FEW = 4
"""Samples that are enough for comparisons."""
RUNS_A_SAMPLE, FREE_RUNS, FREE_MACS = 8, 400, 4e11
"""Runs of one sample that a search may take for each sample of calibration, and beside these: 20 times the
work of calibrating, and of its overhead with small networks."""
NEARLY = 0.01
"""How far below a goal in dB levels count that reach it and keep too little of the task."""
RUNS_A_SESSION = 10
"""Number of runs that opening a session costs."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal of a search.

    Attributes:
        sqnr: Least SQNR of each output in dB; None: any.
        margin: What is kept beyond that, in dB.
        kept: Least share of the float task that each output keeps; None: no poor output that 16 bits keep.
    """

    sqnr: float | None = None
    margin: float = 0.0
    metric: Metric | None = None
    kept: float | None = None

    def __str__(self) -> str:
        parts = [] if self.sqnr is None else [f"{self.sqnr:.1f} dB"]
        parts += [] if self.metric is None else [f"a score of {self.metric.least:g}"]
        return " and ".join(parts)


class Trials:
    """Trials of levels on samples; each is made once.

    Outputs are measured as ``figures`` does: the input of a Softmax counts, not its result.  All but the last
    trial run in an ``Emulation``, one session for all activation widths.

    Args:
        calibration: Trials have its ranges of the samples that are not held out.
        samples: The samples to run, with what the float model makes of them.
        runs: Runs of one sample that the search may use.
    """

    def __init__(
        self,
        plan: Plan,
        calibration: Calibration,
        engine: Engine,
        groups: Sequence[Group],
        samples: Sequence[KeptSample],
        runs: int,
    ) -> None:
        self.plan = plan
        self._calibration = calibration.without_held_out
        self._engine = engine
        self.groups = groups
        self.goal = Goal()
        self.count = self.runs = 0
        self.most_runs = runs
        self._samples = samples
        self._judge = calibration.judge(plan.graph, plan.options.output_kind, samples)
        self._names = self._judge.names
        kinds = {part.name: part.kind for part in self._judge.parts}
        self._reals = [name for name in self._names if kinds[name] is not OutputKind.LABELS]
        self._scores: dict[Levels, Score] = {}
        self._few = MOST_FEW
        self._most_parts: dict[int, int] = {}
        self._reference: tuple[Levels, list[Results]] | None = None
        self._added: dict[tuple[Levels, Levels], float] = {}
        self._sqnr: dict[Levels, float] = {}
        self._exact: dict[Levels, float] = {}
        self._score: dict[Levels, float] = {}
        self._costs: dict[Levels, Cost] = {}
        self._emulation: tuple[tuple[Level, ...], Emulation] | None = None
        self._is_emulated = not has_control_flow(plan.graph) and not any(map(is_udo, plan.graph.ops))
        self.unit = self.whole_cost(tuple(0 for _ in groups))

    @property
    def sample_count(self) -> int:
        """The number of samples that are judged."""
        return len(self._samples)

    @property
    def held_out_count(self) -> int:
        return sum(is_held_out(kept.number) for kept in self._samples) if self._calibration.holds_out else 0

    def _tried(self) -> None:
        self.count += 1
        self._engine.report("searching widths", min(self.runs, self.most_runs), self.most_runs)

    def is_affordable(self) -> bool:
        """Return whether one more trial on all samples is within the bounds."""
        return self.runs + len(self._samples) <= self.most_runs

    def most_parts(self, groups: int) -> int:
        """Return how many of the groups may be tried singly.

        They may use half of the runs that are left.
        """
        if groups not in self._most_parts:  # the same in each search
            half = max((self.most_runs - self.runs) // 2, 0)
            session = 0 if self._is_emulated else RUNS_A_SESSION
            if not self._added:
                self._few = max(min(half // max(groups, 1) - session, MOST_FEW), 1)
            self._most_parts[groups] = max(half // (self._few + session), 8)
        return self._most_parts[groups]

    def ceilings(self) -> list[Levels]:
        """Return the requested levels, then the highest of each stage up to float."""
        return [tuple(group.highest(stage) for group in self.groups) for stage in range(4)]

    def precision(self, levels: Levels) -> Precision:
        """Return the widths of all ops under some levels."""
        return self._precision([group.levels[at] for group, at in zip(self.groups, levels, strict=True)])

    def added(self, base: Levels, levels: Levels) -> float:
        """Return the noise over signal that levels add to ``base``, on a few samples.

        It is the sum over the outputs.
        """
        few = self._samples[:: -(-len(self._samples) // self._few)]
        if self._reference is None or self._reference[0] != base:
            self._reference = base, self._run(self._runner(base), few)
        key = base, levels
        if key not in self._added:
            noises = _noises(self._reals, self._reference[1], self._run(self._runner(levels), few))
            self._added[key] = sum(10.0 ** (-noise.db / 10.0) for noise in noises)
            self._tried()
        return self._added[key]

    def sqnr(self, levels: Levels) -> float:
        """Return the SQNR in dB of the worst output, pooled over the samples.

        It is emulated, and corrected by what the emulation was off for the levels most like these.
        """
        if levels in self._exact:
            return self._exact[levels]
        nearest = min(self._exact, key=partial(_distance, levels), default=levels)
        correction = self._exact[nearest] - self._emulated(nearest) if self._exact else 0.0
        return self._emulated(levels) + correction

    def _emulated(self, levels: Levels) -> float:
        if levels not in self._sqnr:
            self._sqnr[levels] = self._measure(levels, self._runner(levels))
        return self._sqnr[levels]

    def keeps_task(self, levels: Levels) -> bool:
        """Return whether no output is poor that is good where all may have 16 bits.

        Under a goal of ``kept``: whether all outputs keep so much; under a metric of the user's: True.
        """
        if self.goal.metric is not None:
            return True
        self.sqnr(levels)
        score = self._scores[levels]
        if not score.is_poor or self.goal.kept is not None:
            return not score.is_poor and score.kept >= (self.goal.kept or 0.0)
        best = self.ceilings()[2]
        self.sqnr(best)
        return not score.is_worse(self._scores[best])

    def exact(self, levels: Levels) -> float:
        """Return the SQNR of the network in its stored form."""
        if levels not in self._exact:
            self._exact[levels] = self._measure(levels, self._judged(levels))
        return self._exact[levels]

    def score(self, levels: Levels) -> float:
        if levels not in self._score and self.goal.metric is not None:
            run = self._engine.session(quantized_copy(self._decided(levels), self._calibration)).run

            def counted(feeds: Mapping[str, Any]) -> dict[str, Any]:
                self.runs += 1
                return run(feeds)

            self._score[levels] = self.goal.metric.evaluate(counted)
            self._tried()
        return self._score.get(levels, 0.0)

    def slack(self, levels: Levels) -> float:
        """Return how far levels are above the goal in dB, negative if below.

        Without a goal in dB it is infinite.
        """
        above = math.inf if self.goal.sqnr is None else self.sqnr(levels) - self.goal.sqnr - self.goal.margin
        metric = self.goal.metric
        if above >= 0.0 and metric is not None and self.score(levels) < metric.least:
            return -math.inf
        if above >= 0.0 and not self.keeps_task(levels):
            return -NEARLY
        return above

    def whole_cost(self, levels: Levels) -> Cost:
        cost = self._costs.get(levels)
        if cost is None:
            precision = self.precision(levels)
            graph = self.plan.graph
            cost = graph_cost(graph, place(graph, precision), precision, self._float_bits)
            self._costs[levels] = cost
        return cost

    def cost(self, levels: Levels) -> float:
        """Return the cost of an inference, in units of that of the requested widths."""
        return self.whole_cost(levels).relative(self.unit)

    def own_cost(self, group: int, level: int) -> float:
        """Return the cost of a group, in the unit of the whole network."""
        return self.group_cost(group, level).relative(self.unit)

    def group_cost(self, group: int, level: int) -> Cost:
        chosen = self.groups[group].levels[level]
        total = Cost()
        for op in self.groups[group].ops:
            total += op_cost(op, chosen.acts, chosen.weights, self._float_bits, self.plan.options.soc)
        return total

    @property
    def _float_bits(self) -> int:
        return 32 if self.plan.options.float_bitwidth == 32 else 16

    def _precision(self, chosen: Sequence[Level]) -> Precision:
        made = self.plan.precision.copy()
        for group, level in zip(self.groups, chosen, strict=True):
            if level != group.levels[0]:
                group.set(made, level)
        return made

    def _decided(self, levels: Levels) -> Plan:
        self.runs += RUNS_A_SESSION
        return self.plan.with_precision(self.precision(levels)).decided(self._calibration)

    def _judged(self, levels: Levels) -> RunAll:
        return target_runs(self._decided(levels), self._calibration, self._engine)

    def _runner(self, levels: Levels) -> RunAll:
        """Return a runner of samples that approximates the stored form of some levels."""
        if not self._is_emulated:
            return self._judged(levels)
        wide = tuple(map(_widened, self.groups, levels))
        if self._emulation is None or self._emulation[0] != wide:
            self.runs += 2 * RUNS_A_SESSION
            narrow = (_narrowed(group, level) for group, level in zip(self.groups, wide, strict=True))
            ends = self._precision(tuple(narrow)), self._precision(wide)
            emulation = Emulation(self.plan, self._calibration, self.groups, *ends, self._engine, self._names)
            self._emulation = wide, emulation
        emulation = self._emulation[1]
        return partial(emulation.run, encodings=emulation.encodings(self.precision(levels)))

    def _measure(self, levels: Levels, run: RunAll) -> float:
        floats = [kept.floats for kept in self._samples]
        results = self._run(run, self._samples)
        self._scores[levels] = self._judge.score(results)
        noises = _noises(self._reals, floats, results)
        self._tried()
        return min((noise.db for noise in noises), default=EXACT)

    def _run(self, run: RunAll, samples: Sequence[KeptSample]) -> list[Results]:
        self.runs += len(samples)
        outcomes = run(kept.sample for kept in samples)
        return [{name: results[name] for name in self._names} for results in outcomes]


def _distance(one: Levels, other: Levels) -> int:
    return sum(mine != theirs for mine, theirs in zip(one, other, strict=True))


def _noises(names: Sequence[str], wanted: Sequence[Results], found: Sequence[Results]) -> list[Noise]:
    """Return signal and noise of each tensor over all samples.

    Tensors of zeros are omitted.
    """
    pairs = list(zip(wanted, found, strict=True))
    pooled = [Noise.of((exact[name], rounded[name]) for exact, rounded in pairs) for name in names]
    return [noise for noise in pooled if noise.signal]


def _widened(group: Group, level: int) -> Level:
    """Return a level with 16-bit activations where the group can have them."""
    held = group.levels[level]
    can = held.acts is not None and any(other.acts == 16 for other in group.levels)
    return Level(16, held.weights) if can else held


def _narrowed(group: Group, level: Level) -> Level:
    return level if level.acts is None else Level(group.levels[0].acts, level.weights)


def most_runs(graph: Graph, count: int) -> int:
    """Return how many runs a search may use after calibrating ``count`` samples."""
    work = sum(macs(op) for op in graph.ops)
    return RUNS_A_SAMPLE * count + round(min(FREE_RUNS, FREE_MACS / max(work, 1)))
