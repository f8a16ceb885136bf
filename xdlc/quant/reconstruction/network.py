"""Layer-by-layer fit of weights, kept if it improves other samples.

The network runs level by level on several samples, so that layers change as their turn comes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Lock
from zlib import crc32

import numpy as np

from xdlc.ir import Graph, Op, Tensor, TensorData
from xdlc.ir.data import Array
from xdlc.ir.partitions import leaving, levels, partition_of
from xdlc.ir.quantization import to_float, to_quantized
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.quant.acceptance import SampleJudge
from xdlc.quant.calibration.calibrate import Calibration, Spread
from xdlc.quant.engine import Engine
from xdlc.quant.op_specs import single_name
from xdlc.quant.plan import Plan
from xdlc.quant.reconstruction.problem import Problem, Rows, Sums, damping_for, rounded_in_turn, turns_of
from xdlc.quant.reconstruction.sites import Fitted, Site, find_sites, scales_of, show, store
from xdlc.quant.samples import Sample
from xdlc.quant.storing import quantized_copy
from xdlc.runtime.cpu import CpuSession

MOST_SAMPLES = 128
MEMORY = 96 << 20
"""Bytes of activations between two levels, over all samples; there are fewer samples if one needs more."""
LEAST_SAMPLES = 4
EACH = 8
"""One sample in this many is held out."""
LEAST_JUDGED = 8
"""Least samples to judge the outputs by."""
ROWS = 4096
"""Rows of a layer, over all samples; twice its inputs if those are more."""
Solve = Callable[[Plan, Site, Problem, Array, Array], Fitted]
"""Fits a layer by its plan, site, problem, float weights [G, K, M] and scales."""


class Walk:
    """Values of a graph at its present level, for each sample.

    What later levels do not read is dropped.

    A level ends before ops that part the graph: their inputs are there, their results are not yet.

    Args:
        quantized: Whether fixed-point tensors are rounded; they are kept as quantized values then.
    """

    def __init__(
        self, graph: Graph, parts: Callable[[Op], bool], *, quantized: bool, engine: Engine | None = None
    ) -> None:
        self.graph = graph
        self.level = -1
        self._quantized = quantized
        self._engine = engine or Engine()
        self._parts = parts
        self._levels = levels(graph.ops, lambda source, op: parts(source))
        self._values: list[dict[str, Array]] = []

    def enter(self, samples: Iterable[Sample]) -> None:
        """Begin with some samples."""
        self._values = [self._entered(sample) for sample in samples]

    @property
    def count(self) -> int:
        """Number of levels at which ops wait to be fitted."""
        return 1 + max((level for op, level in self._levels.items() if self._parts(op)), default=-1)

    def waiting(self) -> list[Op]:
        """Return the ops that divide the graph at the present level."""
        return [op for op, level in self._levels.items() if level == self.level and self._parts(op)]

    def advance(self) -> None:
        """Run the waiting ops in their present state, and go to the next level."""
        self.level += 1
        # The result of an op that parts the graph belongs to the level after it.
        turn = {op: level + self._parts(op) for op, level in self._levels.items()}
        done = {op for op, level in turn.items() if level <= self.level}
        session = self._session([op for op, level in turn.items() if level == self.level])
        if session is not None:
            names = [tensor.name for tensor in session.graph.inputs]
            feeds = ({name: values[name] for name in names} for values in self._values)
            runs = self._engine.calls(partial(session.run, sample, native=True) for sample in feeds)
            for values, results in zip(self._values, runs, strict=True):
                values.update(results)
        for values in self._values:
            for name in [name for name in values if not self._is_read(name, done)]:
                del values[name]

    @property
    def samples(self) -> int:
        return len(self._values)

    def peak(self) -> int:
        """Return the most bytes that a sample's values have between levels, as float32."""
        total = [0] * (max(self._levels.values(), default=0) + 1)
        for tensor in self.graph.tensors.values():
            readers = [self._levels[op] + self._parts(op) for op in self.graph.consumers(tensor)]
            maker = tensor.producer
            born = self._levels[maker] + self._parts(maker) if maker is not None else 0
            if not tensor.is_static:
                for level in range(born, min(max(readers, default=0), len(total))):
                    total[level] += 4 * tensor.size
        return max(total)

    def has(self, tensor: Tensor) -> bool:
        """Return whether an activation is available at the present level."""
        return bool(self._values) and tensor.name in self._values[0]

    def value(self, sample: int, tensor: Tensor) -> Array:
        """Return the float values of an activation at the present level or later."""
        found = self._values[sample][tensor.name]
        held = self.graph.tensors[tensor.name]
        if self._quantized and held.dtype.is_fixed and held.encoding is not None:
            return to_float(found, held.encoding, where=f"tensor {tensor.name!r}")
        return found

    def _session(self, ops: list[Op]) -> CpuSession | None:
        outputs = leaving(self.graph, ops)
        if not outputs:
            return None
        part = partition_of(self.graph, ops, outputs)
        return self._engine.session(part, quantized=self._quantized, threads=self._engine.workers.threads)

    def _is_read(self, name: str, done: set[Op]) -> bool:
        return any(op not in done for op in self.graph.consumers(self.graph.tensors[name]))

    def _entered(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs in the form for later levels, rounded if the graph rounds."""
        values: dict[str, Array] = {}
        for tensor in self.graph.inputs:
            array = np.asarray(sample[tensor.name])
            rounded = self._quantized and tensor.dtype.is_fixed and array.dtype.kind == "f"
            values[tensor.name] = to_quantized(array, tensor) if rounded else array
        return values


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Let numpy's OpenBLAS, if it has that, compute on one thread.

    Its threads wait busily for pieces of small products: two need three times the processor time of one, and
    are no faster.
    """
    import ctypes

    from numpy.linalg import _umath_linalg

    library = ctypes.CDLL(_umath_linalg.__file__)
    get, limit = (getattr(library, f"scipy_openblas_{verb}_num_threads64_", None) for verb in ("get", "set"))
    if get is None or limit is None:
        yield
        return
    with _LOCK:
        _BEFORE.append(_BEFORE[0] if _BEFORE else get())
        limit(1)
    try:
        yield
    finally:
        with _LOCK:
            before = _BEFORE.pop()
            if not _BEFORE:
                limit(before)


_BEFORE: list[int] = []
"""Threads of OpenBLAS before, for each thread that limits them."""
_LOCK = Lock()


def fit_network(
    plan: Plan, calibration: Calibration, engine: Engine, name: str, solve: Solve, *, data: bool
) -> Plan:
    """Return a plan whose layers fit their float results on quantized inputs.

    Every layer that can be is fitted, in the order of execution.  If the outputs of the network are
    farther from float ones than before, on samples held out where there are enough, all is taken
    back.  What was omitted and why is noted.

    Args:
        name: Name of the algorithm, for notes and progress.
        data: Whether weights and biases change, beside the scales.
    """
    sites, others = find_sites(plan)
    plan = plan.noted(*(f"{name}: {line}" for line in others))
    if has_control_flow(plan.graph):
        return plan.noted(f"{name}: not applied, because the graph runs other graphs")
    if not sites:
        return plan.noted(f"{name}: not applied, because no weights of the graph support it")
    named = {op.outputs[0].name: site for op, site in sites.items()}
    exact = plan.float_model.clone().main
    left = Walk(exact, lambda op: _result(op) in named, quantized=False, engine=engine)
    most = max(LEAST_SAMPLES, min(MOST_SAMPLES, MEMORY // max(left.peak(), 1)))
    spread = Spread(most, sys.maxsize)
    for number, sample in enumerate(calibration.samples):
        spread.add(number, sample)
    samples = [kept.sample for kept in spread.kept]
    seen = [sample for index, sample in enumerate(samples) if index % EACH != EACH - 1]
    held_out = samples[EACH - 1 :: EACH]
    # A few samples are uncertain: what they miss is made up from the others.
    held_out += seen[: max(LEAST_JUDGED - len(held_out), 0)]
    before = _data_of(sites)
    judge = SampleJudge(plan, engine, exact, held_out)
    rounded = quantized_copy(plan, calibration).main
    first = judge.score(rounded)
    changed = plan.with_statics(plan.decision.statics)
    right = Walk(rounded, lambda op: _result(op) in named, quantized=True, engine=engine)
    left.enter(seen)
    right.enter(seen)
    done = 0
    for _ in range(left.count):
        left.advance()
        right.advance()
        twins = {_result(op): op for op in right.waiting()}
        for op in left.waiting():
            site = named[_result(op)]
            twin = twins[_result(op)]
            fitted = _fit(changed, engine, site, (left, op), (right, twin), solve)
            store(changed.decision, site, fitted, data=data)
            show(changed.decision, site, fitted, twin)
            done += 1
            engine.report(name, done, len(sites))
    last = judge.score(quantized_copy(changed, calibration).main)
    gain = last.mean_db - first.mean_db
    if gain < 0 or last.is_worse(first):
        for tensor, stored in before.items():
            tensor.data = stored
        return plan.noted(
            f"{name}: dropped, because on {len(held_out)} samples the outputs "
            + (f"are {-gain:.1f} dB worse than before" if gain < 0 else "have fewer correct results")
            + " with it"
        )
    return changed.noted(
        f"{name}: fitted {len(sites)} layers; on {len(held_out)} samples the outputs are {gain:.1f} dB better"
        if gain
        else f"{name}: no effect, because the {len(sites)} layers were as accurate before"
    )


def _data_of(ops: Iterable[Op]) -> dict[Tensor, TensorData]:
    """Return the data of the weights and biases of some ops."""
    tensors = [tensor for op in ops for tensor in op.inputs[1:3] if tensor is not None]
    return {tensor: tensor.data for tensor in tensors if tensor.data is not None}


def _result(op: Op) -> str:
    return op.outputs[0].name if op.outputs else ""


def _added_to(exact: Walk, rounded: Walk, op: Op) -> Tensor | None:
    """Return the other operand of a sum that is the only reader of a layer's result.

    The layer makes up for the error of that too, as far as it can.  The result is None if there is no such
    sum, or the term is not known yet.
    """
    result = op.outputs[0]
    reader = exact.graph.sole_consumer(result)
    if reader is None or single_name(reader) != "ElementWiseAdd" or exact.graph.is_output(result):
        return None
    for other in reader.inputs:
        if other is None or other is result or other.is_static or other.shape != result.shape:
            continue
        if exact.has(other) and rounded.has(other):
            return other
    return None


@_one_blas_thread()
def _fit(
    plan: Plan, engine: Engine, site: Site, left: tuple[Walk, Op], right: tuple[Walk, Op], solve: Solve
) -> Fitted:
    (exact, op), layout = left, site.layout
    weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    if weight is None:
        raise ValueError(f"op {op.name!r} has no weight")
    matrix = np.ascontiguousarray(layout.matrix(weight.numpy().astype(np.float32)))
    added = np.zeros(1, np.float32) if bias is None else bias.numpy().astype(np.float32)
    added = np.broadcast_to(added, layout.groups * layout.width).reshape(layout.groups, 1, layout.width)
    beside = _added_to(exact, right[0], op)

    def rows() -> Iterator[Rows]:
        source, stored = op.inputs[0], right[1].inputs[0]
        if source is None or stored is None:
            return
        most = -(-max(ROWS, 2 * layout.depth) // exact.samples)
        rng = np.random.default_rng(crc32(_result(op).encode()))
        for index in range(exact.samples):
            values = exact.value(index, source)
            total = layout.positions(values.shape)
            chosen = np.arange(total) if total <= most else np.sort(rng.choice(total, most, replace=False))
            real = layout.rows(values, chosen)
            results = real @ matrix + added
            if beside is not None:
                shortfall = exact.value(index, beside) - right[0].value(index, beside)
                results += shortfall.reshape(total, layout.groups, layout.width)[chosen].transpose(1, 0, 2)
            yield layout.rows(right[0].value(index, stored), chosen), results

    scales = scales_of(site, plan.decision)
    halves = Sums.of(rows(), matrix, centred=site.bias is not None)

    def weights(problem: Problem) -> Array:
        return rounded_in_turn(turns_of(problem.gram), problem.solution(), scales, site.limits) * scales

    damping = damping_for(halves, weights, engine.calls)
    halves[0].merge(halves[1])
    problem = halves[0].problem(damping)
    del halves
    return solve(plan, site, problem, matrix, scales)
