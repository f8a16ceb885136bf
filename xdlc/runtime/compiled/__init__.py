"""Networks of bytes in compiled code, with the results of the exact run.

onnxruntime has no kernels with the roundings of HTP: a product is an integer kernel and ten other nodes.
Here, numba compiles each to one pass.  Ops that are no products, sums or ranges of bytes stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.partitions import entering, leaving, levels
from xdlc.opdefs.traits import macs
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_fusion import bonds
from xdlc.runtime.plan import Accelerator
from xdlc.runtime.steps import Step, Values
from xdlc.runtime.timeout import Watch
from xdlc.worker.limits import processors

if TYPE_CHECKING:
    from xdlc.runtime.compiled.ops import Kernel

_LEAST = 1 << 24
"""Multiplications that are worth a thread: about 0.1 ms."""
_MOST_LEVELS = 8
"""Levels of a graph that is worth it: where they meet, bytes become floats and bytes again."""


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """Ops of compiled code."""

    calls: Sequence[tuple[Op, Kernel]]
    sources: Sequence[Tensor]
    results: Sequence[Tensor]

    def run(self, values: Values, watch: Watch) -> None:
        """Run the ops one after the other."""
        from xdlc.runtime.compiled.ops import float_values, stored_values

        stored = {tensor: stored_values(values[tensor.name], tensor) for tensor in self.sources}
        for op, kernel in self.calls:
            watch.check()
            activations = (tensor for tensor in op.inputs if tensor is not None and not tensor.is_static)
            stored[op.outputs[0]] = kernel(*(stored[tensor] for tensor in activations))
        values.update({tensor.name: float_values(stored[tensor], tensor) for tensor in self.results})


class _Threads:
    """Threads for the parts of large ops.

    Args:
        count: Their number.
    """

    def __init__(self, count: int) -> None:
        self._count, self._pool = count, ThreadPoolExecutor(max(count - 1, 1), "xdlc-compiled")

    def spread(self, work: Callable[[int, int], None], count: int, multiplications: int) -> None:
        """Do work for parts of a range; see ``ops.Spread``."""
        parts = max(min(self._count, multiplications // _LEAST), 1)
        size = max(-(-count // parts), 1)
        begins = range(size, count, size)
        others = [self._pool.submit(work, begin, min(begin + size, count)) for begin in begins]
        work(0, min(size, count))
        for other in others:
            other.result()


def accelerator(graph: Graph, threads: int | None = None) -> Accelerator | None:
    """Return the division of a quantized graph; None if it is not quicker.

    It is None without numba, too.

    Args:
        threads: Threads of one op; default: one per core.
    """
    try:
        from xdlc.runtime.compiled.ops import kernel_of
    except ImportError:
        return None
    spread = _Threads(threads or processors()).spread
    b = Builder(graph, quantized=True)
    bound = {op for bond in bonds(graph) for op in (bond.producer, bond.reader)}
    kernels = {
        op: kernel for op in graph.ops if op not in bound and (kernel := kernel_of(op, b, spread)) is not None
    }
    numbers = levels(graph.ops, lambda source, op: (source in kernels) != (op in kernels))
    count = max(numbers.values(), default=0) + 1
    if count > _MOST_LEVELS or 2 * sum(map(macs, kernels)) <= sum(map(macs, graph.ops)):
        return None
    names = [tensor.name for tensor in graph.outputs]
    groups: list[tuple[Step | None, Sequence[Op]]] = []
    for level in range(count):
        ops = [op for op, number in numbers.items() if number == level]
        inner = [op for op in ops if op in kernels]
        groups.append((None, [op for op in ops if op not in kernels]))
        results = [graph.tensors[name] for name in leaving(graph, inner, names)]
        groups.append((CompiledStep([(op, kernels[op]) for op in inner], entering(inner), results), inner))
    return lambda _graph: [(step, ops) for step, ops in groups if ops]
