"""Which kernel runs which kind of instruction; every module of ``kernels`` registers its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from xdlc.errors import ContainerError
from xdlc.registry import Registry

Array = Any  # numpy.ndarray
Run = Callable[[], None]

CALL = 1 << 14
"""What it costs to start on an array, in numbers passed over."""
PRODUCTS = 16
"""How many products of a matrix product cost as much as passing over a number."""
_MOST_WORK = 1 << 39  # some ten minutes
_MOST_KEPT = 1 << 33
_MOST_SCRATCH = 1 << 32


@dataclass(slots=True)
class Budget:
    """What the instructions of one plan may still take together: a plan of few bytes could ask for days.

    Attributes:
        work: Numbers passed over.
        kept: Bytes kept beside the arena.
    """

    work: int = _MOST_WORK
    kept: int = _MOST_KEPT


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction on its arrays.

    Attributes:
        inputs: Views of the arena.
        outputs: Views of the arena; an output may not share bytes with an input unless the kernel allows it.
        constants: Arrays by name.
        settings: Integers, or tuples of integers, by name.
        where: Place for errors.
        budget: What the plan may still take.
    """

    inputs: Sequence[Array]
    outputs: Sequence[Array]
    constants: Mapping[str, Array]
    settings: Mapping[str, int | tuple[int, ...]]
    where: str
    budget: Budget = field(default_factory=Budget)

    def fail(self, problem: str) -> NoReturn:
        """Refuse the instruction: plans come from files, and files from strangers.

        Raises:
            ContainerError: Always.
        """
        raise ContainerError(problem, where=self.where, fix="prepare the sections again with --enable_hta")

    def takes(self, *, work: int = 0, kept: int = 0, scratch: int = 0) -> None:
        """Count what the instruction takes; every kernel says it that does more than pass over its values.

        Args:
            work: Numbers that it passes over each time, over and above some passes over its values.
            kept: Bytes that it keeps beside the arena.
            scratch: Bytes that it needs while it runs.

        Raises:
            ContainerError: If that is more than the plan, or an instruction, may take.
        """
        self.budget.work -= work
        self.budget.kept -= kept
        if self.budget.work < 0:
            self.fail(f"passes over {work} numbers, and all up to here over more than {_MOST_WORK}")
        if self.budget.kept < 0 or scratch > _MOST_SCRATCH:
            self.fail(f"needs {max(kept, scratch)} bytes beside the arena, too many for a section")

    def ports(self, inputs: int, *dtypes: str, outputs: int = 1) -> None:
        """Check how many values go in and out, and that all are of one of some types.

        Raises:
            ContainerError: If not.
        """
        found = len(self.inputs), len(self.outputs)
        if found != (inputs, outputs):
            self.fail(f"has {found[0]} inputs and {found[1]} outputs, takes {inputs} and gives {outputs}")
        for array in (*self.inputs, *self.outputs):
            if dtypes and array.dtype.name not in dtypes:
                self.fail(f"computes on {', '.join(dtypes)}, a value is {array.dtype.name}")

    def constant(
        self, name: str, dtypes: str | tuple[str, ...], shape: tuple[int, ...] | None = None
    ) -> Array:
        """Return a constant that the instruction must have.

        Args:
            name: Its name.
            dtypes: The types that it may have.
            shape: The shape that it must have; default: any.

        Raises:
            ContainerError: If it is missing, or of another type or shape.
        """
        found = self.constants.get(name)
        wanted = (dtypes,) if isinstance(dtypes, str) else dtypes
        if found is None:
            self.fail(f"has no constant {name!r}")
        if found.dtype.name not in wanted or (shape is not None and found.shape != shape):
            extents = "" if shape is None else f" of shape {list(shape)}"
            self.fail(
                f"has the constant {name!r} as {found.dtype.name} of shape {list(found.shape)}, "
                f"should be {' or '.join(wanted)}{extents}"
            )
        return found

    def number(self, name: str, low: int, high: int, *, default: int | None = None) -> int:
        """Return a setting that is one integer from ``low`` to ``high``.

        Raises:
            ContainerError: If it is missing without default, a list, or out of range.
        """
        found = self.settings.get(name, default)
        if type(found) is not int or not low <= found <= high:
            self.fail(f"has the setting {name!r} as {found}, should be a number from {low} to {high}")
        return found

    def numbers(self, name: str, count: int | None, low: int, high: int) -> tuple[int, ...]:
        """Return a setting that is a list of integers from ``low`` to ``high``.

        Args:
            name: Its name.
            count: How many there must be; None: any number.
            low: The least that they may be.
            high: The most.

        Raises:
            ContainerError: If it is missing, no list, of another length, or out of range.
        """
        found = self.settings.get(name)
        if not isinstance(found, tuple) or (count is not None and len(found) != count):
            self.fail(f"has the setting {name!r} as {found}, should be a list of {count or 'some'} numbers")
        if not all(low <= item <= high for item in found):
            self.fail(f"has the setting {name!r} as {list(found)}, should be from {low} to {high} each")
        return found


Kernel = Callable[[Step], Run]
_KERNELS: Registry[str, Kernel] = Registry("xdlc.runtime.hta.kernels", "kernel")


def kernel(kind: str) -> Callable[[Kernel], Kernel]:
    """Register the function for a kind of instruction.

    It is called once, when a plan is opened: it checks types, shapes, constants and settings, refuses what
    does not fit with ``Step.fail``, and returns what runs the instruction, which may be called many times.

    Raises:
        ValueError: If a kind is registered twice.
    """
    return _KERNELS.register(kind)


def find(kind: str) -> Kernel | None:
    """Return the kernel of a kind of instruction, or None."""
    return _KERNELS.find(kind)
