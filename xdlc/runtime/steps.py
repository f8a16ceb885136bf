"""Steps of an execution plan: a session, a UDO, or plans of other graphs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy

from xdlc.errors import BackendError
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE, Graph, Op, Role, Tensor
from xdlc.ir.dtype import FLOAT64
from xdlc.ir.names import place_of
from xdlc.ir.quantization import encoding_of, quantized_limits, scale_and_offset
from xdlc.opdefs.control_flow import Loop
from xdlc.runtime.engine import Engine, contiguous
from xdlc.runtime.lower import Lowered, as_float
from xdlc.runtime.timeout import Watch

if TYPE_CHECKING:
    from xdlc.runtime.profile import Profiler
    from xdlc.runtime.udo.kernels import Kernels
    from xdlc.runtime.udo.operation import Operation


Array = Any  # numpy.ndarray
Values = dict[str, Array]
_LOOP_BYTES, _STEEP = 1 << 27, 1.25


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A state that grows at one end by the results of each iteration.

    It is not handed from iteration to iteration: its pieces are kept and joined once, so that the work is in
    proportion to the result.

    Attributes:
        in_front: Whether new pieces come first.
    """

    axis: int
    in_front: bool

    def joined(self, initial: Array, pieces: Sequence[Array]) -> Array:
        """Return the state after all iterations."""
        if not pieces:
            return initial
        parts = [*reversed(pieces), initial] if self.in_front else [initial, *pieces]
        return numpy.concatenate(parts, self.axis)


def accumulators(cond: Graph, body: Graph, counts: Loop) -> dict[int, Accumulator]:
    """Return by position the growing states that the loop body does not read."""
    grown = {}
    for index in range(counts.outputs):
        state, result = body.inputs[index], body.outputs[index]
        op = result.producer
        if (
            op is None
            or op.type != "Concat"
            or op.package not in (NATIVE_PACKAGE, HOST_PACKAGE)
            or len(op.inputs) != 2
            or op.inputs.count(state) != 1
            or body.consumers(state) != (op,)
            or body.consumers(result)
            or cond.consumers(cond.inputs[index])
            or cond.outputs[0] is cond.inputs[index]
        ):
            continue
        piece = op.inputs[1 if op.inputs[0] is state else 0]
        same = piece is not None and (piece.dtype, piece.encoding) == (state.dtype, state.encoding)
        if piece is None or not same:
            continue
        axis = int(op.param("axis", state.rank - 1))
        grown[index] = Accumulator(axis, op.inputs[1] is state)
    return grown


def iteration(cond: Graph, body: Graph, grown: Mapping[int, Accumulator]) -> tuple[Graph, list[str]]:
    """Return the graph of an iteration, and the names of its results.

    Its inputs are those of the body but for the accumulators.  Its outputs are those of the body,
    of an accumulator the part that is appended, and last whether there is another iteration.
    """
    graph = body.clone()
    states, results = list(graph.inputs), list(graph.outputs)
    for index in grown:
        op, state = results[index].producer, states[index]
        if op is None:
            continue
        piece = next(tensor for tensor in op.inputs if tensor is not None and tensor is not state)
        results[index].role = Role.NATIVE
        results[index] = piece
        graph.remove(op)
        del graph.tensors[state.name]
    graph.inputs = [tensor for index, tensor in enumerate(states) if index not in grown]
    graph.outputs = [tensor for index, tensor in enumerate(results) if index not in grown]
    goes_on = _append(graph, cond, [*results, *states[len(results) :]])
    return graph, [tensor.name for tensor in (*results, goes_on)]


def _append(graph: Graph, cond: Graph, inputs: Sequence[Tensor]) -> Tensor:
    """Add copies of the ops of a graph, which read ``inputs``; return its output."""
    twins = dict(zip(cond.inputs, inputs, strict=True))

    def twin(tensor: Tensor) -> Tensor:
        if tensor not in twins:
            role = Role.STATIC if tensor.is_static else Role.NATIVE
            name = graph.unique_name(tensor.name)
            twins[tensor] = graph.add_tensor(replace(tensor, name=name, role=role, producer=None))
        return twins[tensor]

    for op in cond.ops:
        graph.append(op.twin(twin, name=graph.unique_name(op.name)))
    return twin(cond.outputs[0])


class Step(Protocol):
    """A step of an execution plan."""

    def run(self, values: Values, watch: Watch) -> None:
        """Add the step's results to ``values``, by tensor name."""


class Observer(Protocol):
    """Receiver of values while a graph runs, also of graphs inside of it."""

    def refine(self, lowered: Lowered) -> None:
        """Add nodes and outputs to each part of a graph, once, before any runs."""

    def see(self, results: Mapping[str, Array]) -> None:
        """Observe the added outputs of a part; called after each run of the part."""


@dataclass(frozen=True, slots=True)
class SessionStep:
    """Ops that one session runs.

    Attributes:
        observer: What looks on, if anything does.
        added: Names of the outputs that are for the observer.
    """

    engine: Engine
    observer: Observer | None = None
    added: tuple[str, ...] = ()

    def run(self, values: Values, watch: Watch) -> None:
        """Run the session; a time-out of an enclosing loop can end it."""
        try:
            results = self.engine.run(values, watch.options)
        except BackendError:
            watch.check()
            raise
        if self.observer is not None and self.added:
            self.observer.see({name: results.pop(name) for name in self.added})
        values.update(results)


@dataclass(frozen=True, slots=True)
class Branch:
    """An ``If``."""

    op: Op
    then: Plan
    other: Plan

    def run(self, values: Values, watch: Watch) -> None:
        """Run the branch that the condition chooses."""
        condition, *inputs = (values[tensor.name] for tensor in self.op.inputs if tensor is not None)
        chosen = self.then if truth(condition, place_of(self.op)) else self.other
        results = chosen.run(inputs, watch)
        values.update(zip((tensor.name for tensor in self.op.outputs), results, strict=True))


@dataclass(frozen=True, slots=True)
class Repeat:
    """A ``While``.

    Attributes:
        counts: How its operands divide.
        condition: The graph of the condition, run before the first iteration.
        iteration: The body, and the condition after it; without the accumulators.
        places: Positions among its results of the next states, and of whether there is another iteration.
    """

    op: Op
    counts: Loop
    condition: Plan
    iteration: Plan
    places: Sequence[int]
    grown: Mapping[int, Accumulator]

    def run(self, values: Values, watch: Watch) -> None:
        """Run the body while the condition is true.

        Raises:
            BackendError: If a loop takes longer than its time-out, or its values take too much memory.
        """
        where = place_of(self.op)
        initial = [values[tensor.name] for tensor in self.op.inputs if tensor is not None]
        carried, constants = initial[: self.counts.carried], initial[self.counts.carried :]
        memory = LoopMemory(where, initial)
        pieces: dict[int, list[Array]] = {index: [] for index in self.grown}
        with watch.loop(where) as loop:
            goes_on = truth(self.condition.run(initial, watch)[0], where)
            while goes_on:
                watch.check()
                kept = [array for index, array in enumerate(carried) if index not in pieces]
                results = self.iteration.run([*kept, *constants], watch)
                *carried, condition = (results[place] for place in self.places)
                for index, rows in pieces.items():
                    rows.append(carried[index])
                goes_on = truth(condition, where)
                loop.done += 1
                memory.add(carried, pieces)
        for index, tensor in enumerate(self.op.outputs):
            held = carried[index]
            if index in pieces:
                held = self.grown[index].joined(initial[index], pieces[index])
            values[tensor.name] = held


class LoopMemory:
    """Memory of the values of a loop, with a limit.

    The bound is 128 MiB, or 4 times what the loop begins with if that is more; 3 times as much while the
    values grow by less than a quarter, as results that are collected do.  A state that has grown twice is
    expected to grow likewise once more, so that one which doubles is refused in time.
    """

    def __init__(self, where: str, given: Iterable[Array]) -> None:
        self._where = where
        self._older = self._last = sum(array.nbytes for array in given)
        self._most = max(_LOOP_BYTES, 4 * self._last)
        self._collected = 0

    def add(self, carried: Sequence[Array], collected: Collection[int]) -> None:
        """Count the values after an iteration.

        Args:
            carried: The next states.
            collected: Positions of those that are kept from every iteration.

        Raises:
            BackendError: If they take too much memory, or will after the next iteration.
        """
        self._collected += sum(carried[index].nbytes for index in collected)
        held = sum(array.nbytes for index, array in enumerate(carried) if index not in collected)
        size = self._collected + held
        factor = max(min(size / max(self._last, 1), self._last / max(self._older, 1)), 1.0)
        self._older, self._last = self._last, size
        most = self._most if factor > _STEEP else 3 * self._most
        if size * factor > most:
            raise BackendError(
                f"the values that the loop carries grew to {size} bytes; xdlc supports at most {most}",
                where=self._where,
                fix="end the loop earlier with its condition, or pass less data to the next iteration",
            )


def truth(condition: Array, where: str) -> bool:
    """Return a condition as a bool.

    Raises:
        BackendError: If it is not one element.
    """
    if condition.size != 1:
        raise BackendError(
            f"the condition of the op has {condition.size} elements, but needs 1",
            where=where,
            fix="make the condition a single bool in the source model, and convert again",
        )
    return bool(condition.reshape(-1)[0])


class Plan:
    """A graph as steps.

    Attributes:
        outputs: Names of its outputs: the graph's, then others requested.
    """

    def __init__(self, graph: Graph, outputs: Iterable[str] = ()) -> None:
        self.graph = graph
        self.outputs = list(dict.fromkeys((*(tensor.name for tensor in graph.outputs), *outputs)))
        self.steps: list[Step] = []
        self.constants: Values = {}

    def run(self, inputs: Sequence[Array], watch: Watch) -> list[Array]:
        """Return the outputs.

        Args:
            inputs: Arrays for the graph's inputs, in order.
            watch: Keeps the time of loops.

        Raises:
            BackendError: If onnxruntime fails, or a loop takes longer than its time-out.
        """
        values = dict(self.constants)
        values.update(zip((tensor.name for tensor in self.graph.inputs), inputs, strict=True))
        for step in self.steps:
            step.run(values, watch)
        return [values[name] for name in self.outputs]


@dataclass(frozen=True, slots=True)
class UdoStep:
    """A user-defined operation.

    Attributes:
        operation: The op with its kernel.
        quantized: Whether fixed-point values are rounded to their encodings.
        profiler: Collects the times of the kernel.
    """

    op: Op
    operation: Operation
    quantized: bool
    profiler: Profiler | None = None

    @classmethod
    def of(
        cls, op: Op, kernels: Kernels | None, profiler: Profiler | None = None, *, quantized: bool
    ) -> UdoStep:
        """Return the step of an op.

        Raises:
            UnsupportedOp: If there is no kernel for it.
            BackendError: If its kernel rejects it.
            ModelError: If a fixed-point value has no usable encoding.
        """
        if kernels is None:
            from xdlc.runtime.udo.kernels import missing

            raise missing(op, None)
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and not tensor.is_static and quantized and tensor.dtype.is_fixed:
                scale_and_offset(encoding_of(tensor), tensor.shape, where=f"tensor {tensor.name!r}")
        return cls(op, kernels.operation(op), quantized, profiler)

    def run(self, values: dict[str, Array], watch: Watch) -> None:
        """Call the kernel; a time-out of an enclosing loop can end it."""
        watch.check()
        arrays = [
            None if tensor is None or tensor.is_static else self._to_kernel(values[tensor.name], tensor)
            for tensor in self.op.inputs
        ]
        start = time.perf_counter()
        try:
            results = self.operation.run(arrays, timeout=watch.remaining())
        except BackendError:
            watch.check()
            raise
        if self.profiler is not None:
            self.profiler.called(self.op, self.operation, time.perf_counter() - start)
        for tensor, array in zip(self.op.outputs, results, strict=True):
            values[tensor.name] = self._from_kernel(array, tensor)

    def _to_kernel(self, array: Array, tensor: Tensor) -> Array:
        if tensor.producer is None:  # arrays of the caller are not rounded elsewhere
            array = self._rounded(array, tensor)
        if tensor.dtype.is_float and tensor.dtype is not FLOAT64:
            array = array.astype(numpy.float32, copy=False)
        return contiguous(array)

    def _from_kernel(self, array: Array, tensor: Tensor) -> Array:
        if tensor.dtype.name == "bfloat16":
            return array.astype(tensor.dtype.numpy).astype(numpy.float32)
        if not as_float(tensor.dtype):
            return array.astype(tensor.dtype.numpy, copy=False)
        return self._rounded(array, tensor)

    def _rounded(self, array: Array, tensor: Tensor) -> Array:
        """Return float values rounded to their quantized steps, in float32 as onnxruntime."""
        if not self.quantized or not tensor.dtype.is_fixed or tensor.dtype.bits > 16:
            return array
        scale, offset = scale_and_offset(
            encoding_of(tensor), tuple(array.shape), where=f"tensor {tensor.name!r}"
        )
        low, high = quantized_limits(tensor)
        stored = numpy.clip(numpy.rint(array / scale) - offset, low, high)
        return ((stored + offset) * scale).astype(numpy.float32)
