"""Collects the instructions of a plan and finds places for its values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Graph, Op, ScaleOffset, Tensor
from xdlc.runtime.builder import Builder
from xdlc.runtime.hta.form import ALIGNMENT, LARGEST_ARENA, LARGEST_CONSTANTS
from xdlc.runtime.hta.plan import Buffer, Constant, Instruction, Plan

Array = Any  # numpy.ndarray
_TYPES = {
    "ufixed8": "uint8",
    "ufixed16": "uint16",
    "float32": "float32",
    "int32": "int32",
    "uint32": "uint32",
}


class PlanBuilder:
    """A plan in the making.

    Args:
        graph: The section, a graph of its own.
        stated: Whether every value is rounded to its encoding, also where HTP rounds less or otherwise;
            the section must give what :func:`xdlc.runtime.lower.lower` of the same setting gives.

    Attributes:
        host: What the host asks when it lowers the graph.
        done: Ops that are compiled already, with the op before.
        live: Ops whose results are outputs, or are computed with to that end; a section may have others,
            which only tell how a result is rounded.
    """

    def __init__(self, graph: Graph, *, stated: bool = False) -> None:
        self.graph = graph
        self.stated = stated
        self.host = Builder(graph, quantized=True, stated=stated)
        self.done: set[Op] = set()
        self.live = _live(graph)
        self._buffers: list[Buffer] = []
        self._places: dict[Tensor, int] = {}
        self._steps: list[Instruction] = []
        self._constants = bytearray()
        self._known: dict[bytes, int] = {}

    def buffer(self, tensor: Tensor) -> int:
        """Return the position of a tensor's buffer, which is made when it is first asked for.

        Raises:
            ConstraintError: If its type or encoding has no form in a plan.
        """
        if tensor not in self._places:
            encoding = tensor.encoding
            dtype = _TYPES.get(tensor.dtype.name)
            fits = isinstance(encoding, ScaleOffset) == tensor.dtype.is_fixed
            if dtype is None or tensor.is_static or tensor.dynamic_axes or not (fits and tensor.size):
                raise ConstraintError(
                    f"is {tensor.dtype}{list(tensor.shape)} with "
                    f"{type(encoding).__name__ if encoding else 'no encoding'}, HTA computes on ufixed8 and "
                    f"ufixed16 with one scale per tensor and known extents that are not 0",
                    where=f"tensor {tensor.name!r}",
                    fix="quantize the model with 8-bit activations",
                )
            scale, zero = (encoding.scale, encoding.offset) if isinstance(encoding, ScaleOffset) else (0.0, 0)
            self._places[tensor] = self._add(Buffer(tensor.name, tensor.shape, dtype, 0, scale, zero))
        return self._places[tensor]

    def temporary(self, shape: Sequence[int], dtype: str) -> int:
        """Return the position of a new buffer for a value inside an op."""
        return self._add(Buffer("", tuple(shape), dtype, 0))

    def _add(self, buffer: Buffer) -> int:
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def emit(
        self,
        kind: str,
        op: Op,
        inputs: Sequence[Tensor | int],
        outputs: Sequence[Tensor | int],
        constants: Mapping[str, Array] | None = None,
        **settings: int | Sequence[int],
    ) -> None:
        """Add an instruction; tensors stand for their buffers."""
        placed = [
            tuple([held if isinstance(held, int) else self.buffer(held) for held in side])
            for side in (inputs, outputs)
        ]
        stored = {name: self._constant(array) for name, array in (constants or {}).items()}
        plain = {name: held if isinstance(held, int) else tuple(held) for name, held in settings.items()}
        self._steps.append(Instruction(kind, op.name, placed[0], placed[1], stored, plain))

    def _constant(self, array: Array) -> Constant:
        import numpy

        data = numpy.ascontiguousarray(array).tobytes()
        key = hashlib.blake2b(data).digest()
        if key not in self._known:
            self._constants += bytes(-len(self._constants) % ALIGNMENT)
            self._known[key] = len(self._constants)
            self._constants += data
        return Constant(tuple(array.shape), array.dtype.name, self._known[key])

    def finish(self) -> Plan:
        """Return the plan, every buffer in its place.

        Raises:
            ConstraintError: If it becomes too large.
        """
        inputs = tuple([self.buffer(tensor) for tensor in self.graph.inputs])
        outputs = tuple([self.buffer(tensor) for tensor in self.graph.outputs])
        offsets, arena = _placed(self._buffers, self._steps, inputs, outputs)
        if arena > LARGEST_ARENA or len(self._constants) > LARGEST_CONSTANTS:
            raise ConstraintError(
                f"needs {arena} bytes for values and {len(self._constants)} for constants, at most "
                f"{LARGEST_ARENA} and {LARGEST_CONSTANTS} are possible",
                where=f"graph {self.graph.name!r}",
                fix="divide the section",
            )
        buffers = tuple([replace(held, offset=at) for held, at in zip(self._buffers, offsets, strict=True)])
        return Plan(buffers, inputs, outputs, tuple(self._steps), arena, bytes(self._constants))


def _live(graph: Graph) -> set[Op]:
    found: set[Op] = set()
    wanted = list(graph.outputs)
    while wanted:
        producer = wanted.pop().producer
        if producer is not None and producer not in found:
            found.add(producer)
            wanted += [tensor for tensor in producer.inputs if tensor is not None]
    return found


def _placed(
    buffers: Sequence[Buffer], steps: Sequence[Instruction], inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[list[int], int]:
    """Return an offset for each buffer, and the bytes of all: largest first, each as low as it fits.

    A buffer lives from the step that writes it to the last that reads it.
    """
    first = dict.fromkeys(inputs, -1)
    last = dict.fromkeys(outputs, len(steps))
    for number, step in enumerate(steps):
        for index in step.outputs:
            first.setdefault(index, number)
        for index in (*step.inputs, *step.outputs):
            last[index] = max(last.get(index, number), number)
    offsets = [0] * len(buffers)
    placed: list[int] = []
    arena = 0
    for index in sorted(range(len(buffers)), key=lambda index: (-buffers[index].nbytes, index)):
        lives = first.get(index, -1), last.get(index, len(steps))
        taken = sorted(
            (offsets[other], offsets[other] + buffers[other].nbytes)
            for other in placed
            if first.get(other, -1) <= lives[1] and lives[0] <= last.get(other, len(steps))
        )
        at = 0
        for start, stop in taken:
            if at + buffers[index].nbytes <= start:
                break
            at = max(at, stop + -stop % ALIGNMENT)
        offsets[index] = at
        placed.append(index)
        arena = max(arena, at + buffers[index].nbytes)
    return offsets, arena
