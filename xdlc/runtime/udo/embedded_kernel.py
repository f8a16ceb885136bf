"""Compiled kernels that a DLC carries, inside the child process."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.runtime.udo import structs
from xdlc.runtime.udo.descriptor import OpForm, ParamForm
from xdlc.runtime.udo.library import exported, open_library
from xdlc.runtime.udo.memory import Memory
from xdlc.runtime.udo.native import Native, check


class Compiled:
    """A compiled kernel.

    Args:
        file: Descriptor of an open file with the library, which stays open.
        entry: Name of the exported function.
        where: What errors call it.

    Raises:
        BackendError: If the library cannot be loaded, or does not export the function.
    """

    def __init__(self, file: int, entry: str, where: str) -> None:
        self.where = where
        self._file = file  # its number must not be used again: libraries are told apart by their paths
        found = exported(open_library(f"/proc/self/fd/{file}", where), entry, where)
        self.function = ctypes.cast(found, structs.COMPILED)


class CompiledOp:
    """An operation that a compiled kernel executes.

    Args:
        kernel: The kernel.
        arguments: Its arguments.
        memory: Holds their tensors.
    """

    def __init__(self, kernel: Compiled, arguments: Sequence[ParamForm], memory: Memory) -> None:
        self._kernel, self._memory = kernel, memory
        self._native = Native()
        self._count = len(arguments)
        self._arguments = (structs.Argument * max(self._count, 1))()
        params = self._native.params(arguments, memory)
        for argument, param, form in zip(self._arguments, params, arguments, strict=False):
            argument.kind = form.name.encode()
            argument.integer, argument.real, argument.string = param.integer, param.real, param.string
            if form.tensor is not None:
                argument.tensor = ctypes.pointer(param.tensor)
        self._io: tuple[Any, ...] = ()
        self._elapsed = 0

    def bind(self, form: OpForm, inputs: Mapping[int, int], outputs: Mapping[int, int]) -> None:
        """Tell it where inputs and outputs are, by position."""
        self._bound = Native()
        self._io = (
            len(form.inputs),
            self._bound.tensors(form.inputs, inputs),
            len(form.outputs),
            self._bound.tensors(form.outputs, outputs),
        )

    def run(self) -> None:
        """Execute it.

        Raises:
            BackendError: If it fails.
        """
        start = time.perf_counter_ns()
        status = self._kernel.function(*self._io, self._count, self._arguments)
        self._elapsed = time.perf_counter_ns() - start
        check(status, "the kernel", "", self._kernel.where)

    def profile(self) -> int:
        """Return the nanoseconds of the last execution."""
        return self._elapsed

    def release(self) -> None:
        """There is nothing to release."""
