"""An operation inside the child process, and the shared memory of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from xdlc.opdefs.custom import TensorSpec
from xdlc.runtime.udo.forms import Dims, OpForm, element
from xdlc.runtime.udo.memory import Memory
from xdlc.runtime.udo.native import static_addresses
from xdlc.runtime.udo.python_file import PythonOp

Array = Any  # numpy.ndarray


class NativeOp(Protocol):
    """An operation that compiled code executes."""

    def bind(self, form: OpForm, inputs: dict[int, int], outputs: dict[int, int]) -> None:
        """Tell it where inputs and outputs are, by position."""

    def run(self) -> None:
        """Execute it."""

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""

    def release(self) -> None:
        """Give back what it holds."""


class Infers(Protocol):
    """What gives the outputs of an operation."""

    def __call__(self, form: OpForm, addresses: dict[int, int]) -> list[TensorSpec] | None:
        """Return the outputs, or None where they are not known."""


class Served:
    """An operation that is ready to run once its inputs and outputs are bound.

    Args:
        form: The operation.
        memory: Its static data.
        code: What executes it.
        infer: What gives its outputs.
    """

    def __init__(self, form: OpForm, memory: Memory, code: NativeOp | PythonOp, infer: Infers) -> None:
        self._form, self._memory, self._code, self._infer = form, memory, code, infer
        self._inputs: tuple[Memory, Sequence[int | None]] = (memory, ())
        self._target, self._places = memory, list[int | None]()
        self._results: list[Array] = []

    def bind_inputs(self, dims: Sequence[Dims], places: Sequence[int | None], memory: Memory | None) -> None:
        """Say where the inputs are.

        Args:
            dims: Their extents.
            places: Their places in the memory; None for those left out and static ones.
            memory: The memory; None for the one of before.
        """
        inputs = zip(self._form.inputs, dims, strict=True)
        self._form = replace(self._form, inputs=tuple(tensor.at(extents) for tensor, extents in inputs))
        self._inputs = (self._inputs[0] if memory is None else memory, places)

    def infer(self) -> list[TensorSpec] | None:
        """Return the outputs for the inputs that are bound."""
        return self._infer(self._form, self._addresses())

    def bind_outputs(self, dims: Sequence[Dims], places: Sequence[int | None], memory: Memory | None) -> None:
        """Say where the outputs go; see ``bind_inputs``.  Without places they are only described."""
        outputs = zip(self._form.outputs, dims, strict=True)
        form = self._form = replace(
            self._form, outputs=tuple(tensor.at(extents) for tensor, extents in outputs)
        )
        self._target = target = self._target if memory is None else memory
        self._places = list(places)
        if isinstance(self._code, PythonOp):
            self._code.bind(form, self._arrays())
        else:
            addresses = {at: target.address + place for at, place in enumerate(places) if place is not None}
            self._code.bind(form, {**static_addresses(form, self._memory), **self._addresses()}, addresses)

    def run(self) -> list[Dims] | None:
        """Execute it; return the shapes of results that have no place yet."""
        if not isinstance(self._code, PythonOp):
            self._code.run()
            return None
        self._results = self._code.run(self._form.outputs)
        if None in self._places:
            return [tuple(array.shape) for array in self._results]
        self.collect()
        return None

    def collect(self) -> None:
        """Put the results where the outputs go."""
        for array, place in zip(self._results, self._places, strict=True):
            self._target.array(place or 0, array.shape, array.dtype)[...] = array
        self._results = []

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""
        return self._code.profile()

    def release(self) -> None:
        """Give back what the kernel holds."""
        if not isinstance(self._code, PythonOp):
            self._code.release()

    def _addresses(self) -> dict[int, int]:
        memory, places = self._inputs
        return {at: memory.address + place for at, place in enumerate(places) if place is not None}

    def _arrays(self) -> list[Array | None]:
        memory, places = self._inputs
        return [
            None if place is None else memory.array(place, tensor.shape, element(tensor.dtype))
            for tensor, place in zip(self._form.inputs, places, strict=True)
        ]
