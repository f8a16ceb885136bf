"""Ops in the worker, and the shared memory of their inputs and outputs."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.opdefs.op_view import TensorSpec
from xdlc.runtime.interfaces import names
from xdlc.runtime.udo.descriptor import Dims, OpForm, ParamForm, element, words_of_specs
from xdlc.runtime.udo.library import Code, exported, open_library
from xdlc.runtime.udo.memory import Memory
from xdlc.runtime.udo.native import Native, Reporter, static_addresses
from xdlc.runtime.udo.python_file import PythonOp

Array = Any  # numpy.ndarray


Infer = Callable[[OpForm, dict[int, int]], list[TensorSpec] | None]
"""Shape inference of an op with known inputs at some addresses; None if the outputs are not known."""


class Served:
    """An operation that is ready to run once its inputs and outputs are bound.

    Args:
        memory: Its static data.
        infer: Its shape inference.
        shared: The memory of ``inputs`` and ``outputs``, which all operations use in turn.

    Attributes:
        outputs: The outputs inferred last, as JSON values.
    """

    def __init__(
        self,
        form: OpForm,
        memory: Memory,
        code: Code | PythonOp,
        infer: Infer,
        shared: Mapping[str, Memory],
    ) -> None:
        self._stated = self._form = form
        self._memory, self._code, self._infer, self._shared = memory, code, infer, shared
        self._sources: Sequence[int | None] = ()
        self._room: list[tuple[Dims, int]] | None = None
        self._bound: tuple[Memory, ...] = ()
        self._results: list[Array] = []
        self.outputs: list[dict[str, Any]] | None = None

    def bind_inputs(self, dims: Sequence[Dims], places: Sequence[int | None]) -> None:
        """Bind the inputs.

        Args:
            dims: Their dimensions.
            places: Their offsets in the memory of inputs; None for omitted and static ones.
        """
        inputs = zip(self._form.inputs, dims, strict=True)
        made = tuple(tensor.at(extents) for tensor, extents in inputs)
        self._stated, self._form = replace(self._stated, inputs=made), replace(self._form, inputs=made)
        self._sources, self._bound = places, ()

    def infer(self) -> bool:
        """Infer the outputs for the bound inputs; return whether they have changed."""
        before, self.outputs = self.outputs, words_of_specs(self._infer(self._stated, self._addresses()))
        return self.outputs != before

    def bind_outputs(self, dims: Sequence[Dims], places: Sequence[int] | None) -> None:
        """Bind the outputs; see ``bind_inputs``.  Without places they are only described."""
        outputs = zip(self._form.outputs, dims, strict=True)
        self._form = replace(self._form, outputs=tuple(tensor.at(extents) for tensor, extents in outputs))
        self._room = None if places is None else list(zip(dims, places, strict=True))
        self._bind()

    def run(self) -> list[Dims] | None:
        """Execute it; return the shapes of results that have no place yet."""
        if self._bound != self._now():
            self._bind()
        if not isinstance(self._code, PythonOp):
            self._code.run()
            return None
        self._results = self._code.run(self._form.outputs)
        shapes = [tuple(array.shape) for array in self._results]
        if self._room is None or shapes != [dims for dims, _ in self._room]:
            return list(shapes)
        self._put(self._room)
        return None

    def collect(self, dims: Sequence[Dims], places: Sequence[int]) -> None:
        """Store results at their places; later runs of the shapes store at once."""
        self._room = list(zip(dims, places, strict=True))
        self._put(self._room)

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""
        return self._code.profile()

    def release(self) -> None:
        """Release the resources of the kernel."""
        if not isinstance(self._code, PythonOp):
            self._code.release()

    def _now(self) -> tuple[Memory, ...]:
        return tuple(self._shared.values())

    def _bind(self) -> None:
        if isinstance(self._code, PythonOp):
            self._code.bind(self._form, self._arrays())
        else:
            address = self._shared["outputs"].address
            outputs = {at: address + place for at, (_, place) in enumerate(self._room or ())}
            inputs = {**static_addresses(self._form, self._memory), **self._addresses()}
            self._code.bind(self._form, inputs, outputs)
        self._bound = self._now()

    def _put(self, room: Sequence[tuple[Dims, int]]) -> None:
        target = self._shared["outputs"]
        for array, (_, place) in zip(self._results, room, strict=True):
            target.array(place, array.shape, array.dtype)[...] = array
        self._results = []

    def _addresses(self) -> dict[int, int]:
        address = self._shared["inputs"].address
        return {at: address + place for at, place in enumerate(self._sources) if place is not None}

    def _arrays(self) -> list[Array | None]:
        memory = self._shared["inputs"]
        return [
            None if place is None else memory.array(place, tensor.shape, element(tensor.dtype))
            for tensor, place in zip(self._form.inputs, self._sources, strict=True)
        ]


class Compiled:
    """A compiled kernel.

    Args:
        file: Descriptor of an open file with the library, which stays open.
        entry: Name of the exported function.
        where: Its title in errors.

    Raises:
        BackendError: If the library cannot be loaded, or does not export the function.
    """

    def __init__(self, file: int, entry: str, where: str) -> None:
        self.where = where
        self._file = file  # kept open, as the loader identifies libraries by their paths
        library = open_library(f"/proc/self/fd/{file}", where)
        self.function = exported(library, entry, where, "QnnCpuOpPackage_OpImplFn_t")


class CompiledOp:
    """An operation of a compiled kernel, called as QNN calls op packages on the CPU.

    Args:
        memory: Holds their tensors.
    """

    def __init__(
        self, kernel: Compiled, form: OpForm, arguments: Sequence[ParamForm], memory: Memory
    ) -> None:
        self._kernel = kernel
        self._report = Reporter(kernel.where, names("QnnOpPackage_Error_t"))
        self._memory, self._native, self._bound = memory, Native(), Native()
        self._node = self._native.node(form, arguments, memory)
        self._elapsed = 0

    def bind(self, form: OpForm, inputs: dict[int, int], outputs: dict[int, int]) -> None:
        """Bind the addresses of inputs and outputs, by position."""
        self._bound = Native()
        self._bound.bind(self._node, form, inputs, outputs)

    def run(self) -> None:
        """Execute it.

        Raises:
            BackendError: If it fails.
        """
        start = time.perf_counter_ns()
        self._report.call("the kernel", self._kernel.function, ctypes.addressof(self._node))
        self._elapsed = time.perf_counter_ns() - start

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""
        return self._elapsed

    def release(self) -> None:
        """Release nothing: a compiled kernel holds nothing."""
