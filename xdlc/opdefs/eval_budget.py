"""How much work rules may make: a definition of a stranger must not keep a converter busy for hours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST_STEPS = 1 << 24
"""Most numbers that the rules of one op may look at: half a minute at worst."""


class TooMuchError(Exception):
    """Rules look at more numbers than they may."""


class Effort:
    """What is left of the work that may be done.

    Args:
        steps: Most numbers to look at.

    Example:
        >>> effort = Effort(2)
        >>> with effort.spent():
        ...     spend(3)
        Traceback (most recent call last):
            ...
        xdlc.opdefs.eval_budget.TooMuchError
    """

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.left = steps

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Have what is evaluated meanwhile use it up.

        Raises:
            TooMuchError: If it is used up.
        """
        token = _EFFORT.set(self)
        try:
            yield
        finally:
            _EFFORT.reset(token)


_EFFORT: ContextVar[Effort | None] = ContextVar("effort", default=None)


def spend(steps: int = 1) -> None:
    """Use up some of the effort that there is; outside of ``Effort.spent``, nothing.

    Raises:
        TooMuchError: If more is used up than there was.
    """
    effort = _EFFORT.get()
    if effort is not None:
        effort.left -= steps
        if effort.left < 0:
            raise TooMuchError
