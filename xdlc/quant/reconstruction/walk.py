"""A network run level by level on several samples, so that layers change as their turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.partitions import leaving, levels, partition_of
from xdlc.ir.quantization import to_float, to_quantized
from xdlc.quant.samples import Sample
from xdlc.runtime.cpu import CpuSession

if TYPE_CHECKING:
    from xdlc.runtime.udo import Kernels


class Walk:
    """Values of a graph at its present level, of each sample; what later levels do not read is let go.

    A level ends before ops that part the graph: their inputs are there, their results are not yet.

    Args:
        quantized: Whether fixed-point tensors are rounded; they are kept as quantized values then.
    """

    def __init__(
        self, graph: Graph, parts: Callable[[Op], bool], *, quantized: bool, kernels: Kernels | None = None
    ) -> None:
        self.graph = graph
        self.level = -1
        self._quantized = quantized
        self._kernels = kernels
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
        """Return the ops that part the graph at the present level."""
        return [op for op, level in self._levels.items() if level == self.level and self._parts(op)]

    def advance(self) -> None:
        """Run the ops that waited, as they are now, and go on to the next level."""
        self.level += 1
        # The result of an op that parts the graph belongs to the level after it.
        turn = {op: level + self._parts(op) for op, level in self._levels.items()}
        done = {op for op, level in turn.items() if level <= self.level}
        session = self._session([op for op, level in turn.items() if level == self.level])
        for values in self._values:
            if session is not None:
                feeds = {tensor.name: values[tensor.name] for tensor in session.graph.inputs}
                values.update(session.run(feeds, native=True))
            for name in [name for name in values if not self._is_read(name, done)]:
                del values[name]

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self._values)

    def peak(self) -> int:
        """Return how many bytes the values of a sample take at most between two levels, as float32."""
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
        """Return whether an activation is there at the present level."""
        return bool(self._values) and tensor.name in self._values[0]

    def value(self, sample: int, tensor: Tensor) -> Array:
        """Return the float values of an activation that is read at the present level or later."""
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
        return CpuSession(part, quantized=self._quantized, kernels=self._kernels)

    def _is_read(self, name: str, done: set[Op]) -> bool:
        return any(op not in done for op in self.graph.consumers(self.graph.tensors[name]))

    def _entered(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs as later levels find them: rounded where the graph stores them so."""
        import numpy as np

        values: dict[str, Array] = {}
        for tensor in self.graph.inputs:
            array = np.asarray(sample[tensor.name])
            rounded = self._quantized and tensor.dtype.is_fixed and array.dtype.kind == "f"
            values[tensor.name] = to_quantized(array, tensor) if rounded else array
        return values
