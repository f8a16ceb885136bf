"""What a user names to be loaded: libraries and Python files by path, and kernels that a DLC carries."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.runtime.udo.elf import check_content, check_file, machine

if TYPE_CHECKING:
    from xdlc.ir import Model
    from xdlc.opdefs.custom import Kernel

PathLike = str | os.PathLike[str]
DEFAULT_TIMEOUT = 60.0
LONGEST_TIMEOUT = 86400.0
OWN_MACHINE = f"linux-{machine()}"


@dataclass(frozen=True, slots=True)
class Source:
    """A file that a user names.

    Attributes:
        path: Its absolute path.
        kind: ``library`` or ``python``.
    """

    path: Path
    kind: str


def paths_of(given: PathLike | Iterable[PathLike] | None) -> list[PathLike]:
    """Return paths; a text may hold several, with commas between them.

    Example:
        >>> paths_of("a.so,b.py")
        ['a.so', 'b.py']
    """
    if given is None:
        return []
    if isinstance(given, str):
        return [part for part in given.split(",") if part]
    return [given] if isinstance(given, os.PathLike) else list(given)


def sources_of(paths: Iterable[PathLike]) -> list[Source]:
    """Return the files at some paths.

    Raises:
        UsageError: If there is no file, or it is given twice; a ProblemList of several.
    """
    problems: list[XdlcError] = []
    found: dict[Path, Source] = {}
    for given in paths:
        path = Path(given).absolute()
        if not path.is_file():
            fix = (
                "give the path of a registration library or of a Python file; libraries are not searched for"
            )
            problems.append(
                UsageError(
                    "is a folder" if path.is_dir() else "there is no such file", where=str(path), fix=fix
                )
            )
        elif path in found:
            problems.append(UsageError("is given twice", where=str(path), fix="give it once"))
        else:
            found[path] = Source(path, "python" if path.suffix == ".py" else "library")
    raise_all(problems)
    return list(found.values())


def checked_timeout(seconds: float) -> float:
    """Return a time-out.

    Raises:
        UsageError: If it is no positive number, or longer than a day.
    """
    valid = isinstance(seconds, int | float) and not math.isnan(seconds)
    if not valid or not 0 < seconds <= LONGEST_TIMEOUT:
        raise UsageError(
            f"the time-out of user-defined operations is {seconds!r}",
            fix=f"give seconds, more than 0 and at most {LONGEST_TIMEOUT:g}",
        )
    return float(seconds)


@dataclass(frozen=True, slots=True)
class Embedded:
    """A kernel that a DLC carries.

    Attributes:
        package: Op package.
        type: Operation type.
        ops: Names of the ops that it is for.
        kernel: The kernel.
    """

    package: str
    type: str
    ops: frozenset[str]
    kernel: Kernel

    @property
    def fits(self) -> bool:
        """Whether it is one for this machine."""
        return self.kernel.machine == OWN_MACHINE

    @property
    def origin(self) -> str:
        """What messages call it."""
        held = self.kernel
        return f"kernel {held.name!r} in the DLC, built by {held.tool!r} for {held.machine!r}"


def embedded_in(model: Model | None) -> list[Embedded]:
    """Return the kernels that a DLC carries.

    Raises:
        ContainerError: If one is damaged.
    """
    if model is None or not any(name.startswith("xdlc.kernel.") for name in model.records):
        return []
    from xdlc.container import udo

    return [
        Embedded(held.package, held.type, frozenset(held.ops), held.kernel) for held in udo.kernels(model)
    ]


def check_sources(sources: Iterable[Source], embedded: Iterable[Embedded]) -> None:
    """Check what is to be loaded before a process is started for it.

    Raises:
        BackendError: If a library or a kernel is not one of this machine; several make a ProblemList.
        StorageError: If a library cannot be read.
    """
    problems: list[XdlcError] = []
    for check in (
        *(partial(check_file, source.path) for source in sources if source.kind == "library"),
        *(partial(_check_embedded, held) for held in embedded),
    ):
        try:
            check()
        except XdlcError as error:
            problems.append(error)
    raise_all(problems)


def _check_embedded(held: Embedded) -> None:
    binary = held.kernel.binary
    check_content(binary[:64], len(binary), held.origin)
