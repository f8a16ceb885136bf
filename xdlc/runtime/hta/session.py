"""Executes a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.errors import ContainerError, UsageError
from xdlc.runtime.hta.plan import Buffer, Plan
from xdlc.runtime.hta.registry import Budget, Run, Step, find

Array = Any  # numpy.ndarray
_PASSES = 32


class PlanSession:
    """A plan, ready to run; its arena is allocated once, so one call may run at a time.

    Args:
        plan: The plan.
        where: Its place, for errors.

    Raises:
        ContainerError: If an instruction has no kernel, or does not fit it.
    """

    def __init__(self, plan: Plan, *, where: str = "plan") -> None:
        import numpy

        arena = numpy.zeros(plan.arena, numpy.uint8)
        self._budget = Budget()
        self._views = [_view(arena, buffer) for buffer in plan.buffers]
        self._inputs = {plan.buffers[index].name: self._views[index] for index in plan.inputs}
        self._outputs = {plan.buffers[index].name: self._views[index] for index in plan.outputs}
        self._steps = [
            self._step(plan, number, f"{where}: instruction {number}")
            for number in range(len(plan.instructions))
        ]

    def _step(self, plan: Plan, number: int, where: str) -> Run:
        held = plan.instructions[number]
        place = f"{where} ({held.kind}) of op {held.op!r}"
        kernel = find(held.kind)
        if kernel is None:
            raise ContainerError("is of a kind that is not known", where=place, fix="upgrade xdlc")
        constants = {name: plan.array(constant) for name, constant in held.constants.items()}
        inputs, outputs = ([self._views[index] for index in side] for side in (held.inputs, held.outputs))
        step = Step(inputs, outputs, constants, held.settings, place, self._budget)
        step.takes(work=_PASSES * sum(array.size for array in (*inputs, *outputs)))
        return kernel(step)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the stored integers of the outputs by name.

        Args:
            feeds: Stored integers by input name, of the buffers' types and shapes.

        Raises:
            UsageError: If an input is missing, not known, or does not fit.
        """
        unknown = sorted(set(feeds) - set(self._inputs))
        if unknown:
            raise UsageError(
                f"there is no input {unknown[0]!r}", fix=f"give {', '.join(map(repr, self._inputs))}"
            )
        for name, view in self._inputs.items():
            given = feeds.get(name)
            if given is None or given.shape != view.shape or given.dtype != view.dtype:
                found = "nothing" if given is None else f"{given.dtype}{list(given.shape)}"
                raise UsageError(
                    f"input {name!r} needs {view.dtype}{list(view.shape)}, got {found}",
                    fix="give stored integers of the type and shape that the section states",
                )
            view[...] = given
        for step in self._steps:
            step()
        return {name: view.copy() for name, view in self._outputs.items()}


def _view(arena: Array, buffer: Buffer) -> Array:
    held: Array = arena[buffer.offset : buffer.offset + buffer.nbytes].view(buffer.dtype)
    return held.reshape(buffer.shape)
