"""Which kernel runs which kind of instruction; every module of ``kernels`` registers its own."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from xdlc.errors import ContainerError

Array = Any  # numpy.ndarray
Run = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction on its arrays.

    Attributes:
        inputs: Views of the arena.
        outputs: Views of the arena; an output may not share bytes with an input unless the kernel allows it.
        constants: Arrays by name.
        settings: Integers, or tuples of integers, by name.
        where: Place for errors.
    """

    inputs: Sequence[Array]
    outputs: Sequence[Array]
    constants: Mapping[str, Array]
    settings: Mapping[str, int | tuple[int, ...]]
    where: str

    def fail(self, problem: str) -> NoReturn:
        """Refuse the instruction: plans come from files, and files from strangers.

        Raises:
            ContainerError: Always.
        """
        raise ContainerError(problem, where=self.where, fix="prepare the sections again with --enable_hta")


Kernel = Callable[[Step], Run]
_kernels: dict[str, Kernel] = {}
_loaded: list[str] = []


def kernel(kind: str) -> Callable[[Kernel], Kernel]:
    """Register the function for a kind of instruction.

    It is called once, when a plan is opened: it checks types, shapes, constants and settings, refuses what
    does not fit with ``Step.fail``, and returns what runs the instruction, which may be called many times.

    Raises:
        ValueError: If a kind is registered twice.
    """

    def register(function: Kernel) -> Kernel:
        if _kernels.setdefault(kind, function) is not function:
            raise ValueError(f"instruction {kind} has two kernels")
        return function

    return register


def find(kind: str) -> Kernel | None:
    """Return the kernel of a kind of instruction, or None."""
    if not _loaded:
        from xdlc.runtime.hta import kernels

        for module in pkgutil.iter_modules(kernels.__path__):
            importlib.import_module(f"{kernels.__name__}.{module.name}")
            _loaded.append(module.name)
    return _kernels.get(kind)
