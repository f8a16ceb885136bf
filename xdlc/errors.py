"""Errors for users: a problem, its place, and a fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

MOST_SHOWN = 200
"""Problems of a list that its text shows."""
LONGEST_PROBLEM = 1 << 14
"""Characters of a problem, which may show parts of untrusted input."""
_MOST_COMPARED = 1 << 22
"""Pairs of characters that are compared with a name's."""


class XdlcError(Exception):
    """Base of all errors that xdlc raises.

    Args:
        problem: What happened, with values; one sentence without a full stop.
        where: The place, from the file down to the node: ``model.onnx: node 'conv1' (Conv, opset 13)``.
        fix: What to do, in the imperative.
        node: Name of the source node or op, for tables.
        op: Type of the node or op.
        line: Line of the node in a text file, from 1; 0 if the source has no lines.
        code: Code of the problem, like ``XD104``.  Default: the general code of the class.

    Example:
        >>> print(ModelError("Relu needs opset 6", where="m.onnx", fix="upgrade the model"))
        m.onnx: Relu needs opset 6
          fix: upgrade the model
    """

    exit_code = 1
    code = ""

    def __init__(
        self,
        problem: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        node: str | None = None,
        op: str | None = None,
        line: int = 0,
        code: str = "",
    ) -> None:
        if len(problem) > LONGEST_PROBLEM:
            problem = f"{problem[:LONGEST_PROBLEM]} ..."
        super().__init__(problem)
        self.problem = problem
        self.where = where
        self.fix = fix
        self.node = node
        self.op = op
        self.line = line
        self.code = code or self.code

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to rebuild the error in another process, whatever its arguments."""
        return _made_again, (type(self), self.args, vars(self))

    def __str__(self) -> str:
        text = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{text}\n  fix: {self.fix}" if self.fix else text


def _made_again(kind: type[XdlcError], args: tuple[Any, ...], held: dict[str, Any]) -> XdlcError:
    error = kind.__new__(kind, *args)
    vars(error).update(held)
    return error


class UsageError(XdlcError):
    """The call is wrong: a flag, a name, a path or an option value."""

    exit_code = 2
    code = "XD200"


class ModelError(XdlcError):
    """The source model is not valid in its format, or a graph breaks a rule of xdlc."""

    exit_code = 3
    code = "XD300"


def damaged(problem: str, where: str) -> ModelError:
    """Return the error of a file that contradicts itself or its format."""
    return ModelError(problem, where=where, fix="get the file again: it is damaged")


class UnsupportedOp(XdlcError):
    """xdlc cannot map an operation, attribute, rank or data type."""

    exit_code = 4
    code = "XD400"


class ConstraintError(XdlcError):
    """A graph breaks the definition of an operation, or a rule of the SoC."""

    exit_code = 5
    code = "XD100"


class ContainerError(XdlcError):
    """A DLC is damaged or hostile, or has an unknown layout."""

    exit_code = 6
    code = "XD600"


class BackendError(XdlcError):
    """An engine refused the model or failed: onnxruntime, or the vendor's library."""

    exit_code = 7
    code = "XD700"


class StorageError(XdlcError):
    """A file cannot be read or written: missing, no permission, disk full."""

    exit_code = 8
    code = "XD800"


class ProblemList(XdlcError):
    """Several problems of one input; ``problems`` has them all.

    The first problem sets the exit code and the code.
    """

    def __init__(self, problems: Sequence[XdlcError], *, where: str | None = None) -> None:
        self.problems = tuple(single for problem in problems for single in each_problem(problem))
        super().__init__(f"{len(self.problems)} problem(s)", where=where)
        first = self.problems[0] if self.problems else XdlcError("")
        self.exit_code, self.code = first.exit_code, first.code

    def __str__(self) -> str:
        head = f"{self.where}: {self.problem}" if self.where else self.problem
        more = len(self.problems) - MOST_SHOWN
        lines = [f"- {problem}" for problem in self.problems[:MOST_SHOWN]]
        return "\n".join([head, *lines, *([f"- and {more} more"] if more > 0 else ())])


@cache
def problem_table() -> Mapping[str, Any]:
    """Return the kinds of problems by code, and the exit codes of the tools."""
    import tomllib

    table: dict[str, Any] = tomllib.loads(Path(__file__).with_name("problems.toml").read_text("utf-8"))
    return table


def each_problem(error: XdlcError) -> tuple[XdlcError, ...]:
    """Return the problems of an error: the error, or those of a list.

    Example:
        >>> [problem.problem for problem in each_problem(ModelError("a"))]
        ['a']
    """
    return error.problems if isinstance(error, ProblemList) else (error,)


def nearest_names(name: str, names: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> str:
    """Return ``"nearest: a, b"`` for names close to ``name``, or an empty string.

    Short names must begin alike: ``gpu`` is not near ``cpu``. Untrusted input may have very many names, or
    very long names: the function then compares names of about the same length only.

    Example:
        >>> nearest_names("sm8560", ["sm8550", "sm8650", "qcs6490"])
        'nearest: sm8650, sm8550'
    """
    import difflib
    from heapq import nsmallest

    name = str(name)  # callers of Python may pass anything
    count = _MOST_COMPARED // max(len(name), 1) ** 2
    close = nsmallest(count, names, key=lambda candidate: abs(len(candidate) - len(name)))
    lowered = {candidate.lower(): candidate for candidate in close}
    near = difflib.get_close_matches(name.lower(), lowered, n=most, cutoff=cutoff)
    sure = difflib.get_close_matches(name.lower(), near, n=most, cutoff=0.7)
    matches = [match for match in near if match in sure or match[:1] == name[:1].lower()]
    return f"nearest: {', '.join(lowered[match] for match in matches)}" if matches else ""


def size(nbytes: int) -> str:
    """Return a size in bytes with a binary prefix.

    Example:
        >>> size(40960), size(100)
        ('40.0 KiB', '100 bytes')
    """
    for unit, one in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= one:
            return f"{nbytes / one:.1f} {unit}"
    return f"{nbytes} bytes"


def raise_all(problems: Sequence[XdlcError], *, where: str | None = None) -> None:
    """Raise the problems, if any: one directly, several as a ProblemList.

    Problems that read alike and are of one node count once.
    """
    problems = list({(problem.node, str(problem)): problem for problem in problems}.values())
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ProblemList(problems, where=where)
