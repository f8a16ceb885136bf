"""Budget of constraint evaluation, against untrusted definitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_STEPS = 1 << 24
"""Most numbers that the constraints of one op may read: half a minute at worst."""


class TooManyStepsError(Exception):
    """Constraints read more numbers than they may."""


class EvalBudget:
    """Steps that evaluation may still take.

    Args:
        steps: Most numbers to read.

    Example:
        >>> budget = EvalBudget(2)
        >>> with budget.charged():
        ...     spend(3)
        Traceback (most recent call last):
            ...
        xdlc.opdefs.eval_budget.TooManyStepsError
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Charge the evaluation inside the context to the budget.

        Raises:
            TooManyStepsError: If the budget is exceeded.
        """
        token = _BUDGET.set(self)
        try:
            yield
        finally:
            _BUDGET.reset(token)


_BUDGET: ContextVar[EvalBudget | None] = ContextVar("budget", default=None)


def spend(steps: int = 1) -> None:
    """Take steps from the budget; outside of ``EvalBudget.charged`` they are free.

    Raises:
        TooManyStepsError: If the budget is exceeded.
    """
    budget = _BUDGET.get()
    if budget is not None:
        budget.left -= steps
        if budget.left < 0:
            raise TooManyStepsError
