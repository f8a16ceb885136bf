"""What is found out while a configuration is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdlc.errors import ModelError, XdlcError, nearest_names

MAX_PROBLEMS = 100


class Stop(Exception):
    """Nothing more is to be read of a file."""


@dataclass(slots=True)
class Scope:
    """Problems and notices of one file.

    Attributes:
        where: Name of the file.
        problems: What is wrong.
        notices: What is good to know: fields that change nothing, and what was assumed.
    """

    where: str
    problems: list[XdlcError] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def place(self, line: int) -> str:
        """Return ``file:line``."""
        return f"{self.where}:{line}"

    def report(self, line: int, problem: str, fix: str) -> None:
        """Remember a problem.

        Raises:
            Stop: If there are too many.
        """
        self.problems.append(ModelError(problem, where=self.place(line), fix=fix))
        if len(self.problems) >= MAX_PROBLEMS:
            raise Stop

    def notice(self, line: int, text: str) -> None:
        """Remember what the user should know."""
        self.notices.append(f"{self.place(line)}: {text}")


def choice(name: str, known: Iterable[str]) -> str:
    """Return a fix for a name that is not among those known.

    Example:
        >>> choice("NWHC", ("NHWC", "NCHW")), choice("x", ("NHWC", "NCHW"))
        ('nearest: NHWC, NCHW', 'use one of NHWC, NCHW')
    """
    names = tuple(known)
    return nearest_names(name, names) or f"use one of {', '.join(names)}"


def shown(text: str, most: int = 40) -> str:
    """Return a name from a file as it stands in messages.

    Example:
        >>> shown("a" * 50, 8), shown("b")
        ("'aaaaa...'", "'b'")
    """
    return repr(text if len(text) <= most else f"{text[: most - 3]}...")
