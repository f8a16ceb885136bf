"""Sources of kernels, and the registry of their kernels and shape functions."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdlc.errors import BackendError, UsageError, XdlcError, raise_all

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
MACHINE = _MACHINES.get(os.uname().machine.lower(), os.uname().machine.lower())
"""The processor of this machine, as ELF files name it."""
PathLike = str | os.PathLike[str]
DEFAULT_TIMEOUT = 60.0
LONGEST_TIMEOUT = 86400.0
OWN_MACHINE = f"linux-{MACHINE}"
_KINDS = {".py": "python", ".json": "kernels"}
_PROVIDED = re.compile(r"(.+?):(\w+)(?::CPU)?")
_BUILT = "libs/x86-64_linux_clang"  # where make puts the libraries of a generated package


@dataclass(frozen=True, slots=True)
class Source:
    """A file that a user names.

    Attributes:
        kind: ``library``, ``python``, or ``kernels`` for the description of compiled kernels.
        provider: Function that provides the interface of a QNN op package; empty for others.
    """

    path: Path
    kind: str
    provider: str = ""


def paths_of(paths: PathLike | Iterable[PathLike] | None) -> list[PathLike]:
    """Return paths; a text that names no file may list several with commas.

    Raises:
        UsageError: If one is empty.

    Example:
        >>> paths_of("a.so, b.py")
        ['a.so', 'b.py']
    """
    if paths is None:
        return []
    parts: list[PathLike]
    if isinstance(paths, str):
        parts = [paths] if os.path.isfile(paths) else [part.strip() for part in paths.split(",")]
    else:
        parts = [paths] if isinstance(paths, os.PathLike) else list(paths)
    if "" in parts:
        raise UsageError(
            f"the list of UDO libraries and Python files has an empty name: {paths!r}",
            fix="remove the empty name; check that no variable of your shell script is empty",
        )
    return parts


def sources_of(paths: Iterable[PathLike]) -> list[Source]:
    """Return the files at some paths; of a folder of kernels its descriptions.

    Raises:
        UsageError: If there is no file, or it is given twice; a ProblemList of several.
    """
    problems: list[XdlcError] = []
    sources: dict[Path, Source] = {}
    for path, provider in (part for entry in paths for part in _parts(Path(entry).absolute())):
        if not os.path.isfile(path):
            problems.append(_no_file(path))
        elif path in sources:
            problems.append(UsageError("the file appears twice", where=str(path), fix="pass the file once"))
        else:
            sources[path] = Source(path, _KINDS.get(path.suffix, "library"), provider)
    raise_all(problems)
    return list(sources.values())


def _parts(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files at a path, which may be FILE:PROVIDER of a QNN op package."""
    match = _PROVIDED.fullmatch(str(path))
    if match is not None and not match[1].endswith(".py") and os.path.isfile(match[1]):
        yield Path(match[1]), match[2]
    else:
        yield from ((file, "") for file in _files(path))


def _files(path: Path) -> list[Path]:
    """Return a path, or the descriptions of kernels in a folder that has some."""
    return (sorted(path.glob("[!.]*.json")) if os.path.isdir(path) else []) or [path]


def _no_file(path: Path) -> UsageError:
    fix = "pass the path of a registration library, a Python file or a folder kernel_meta"
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, ValueError):
        file, colon, _ = str(path).rpartition(".py:")
        if colon and Path(f"{file}.py").is_file():  # how converters name a plugin
            fix = f"pass only the file, {Path(file).name}.py: xdlc finds all its kernels"
        return UsageError("the file does not exist", where=str(path), fix=fix)
    except OSError as error:
        return UsageError(f"cannot be read: {error.strerror}", where=str(path), fix=fix)
    if not is_folder:
        return UsageError("is not a regular file", where=str(path), fix=fix)
    built = sorted(one for part in ("", _BUILT) for one in (path / part).glob("libUdo*Reg.so"))
    return UsageError("is a folder", where=str(path), fix=f"give {built[0]}" if built else fix)


def checked_timeout(seconds: float) -> float:
    """Return a time-out.

    Raises:
        UsageError: If it is not a positive number, or longer than a day.
    """
    valid = isinstance(seconds, int | float) and not math.isnan(seconds)
    if not valid or not 0 < seconds <= LONGEST_TIMEOUT:
        raise UsageError(
            f"the time-out of UDOs is {seconds!r}",
            fix=f"give seconds, more than 0 and at most {LONGEST_TIMEOUT:g}",
        )
    return float(seconds)


Key = tuple[str, str]
"""Op package and operation type."""
_SUFFIX = re.compile(r"(?<=.)(Cpu|Gpu|Dsp|HtpMcp|Htp|Hta|Lpai|Aic)$")


def plain_package(name: str) -> str:
    """Return a package's name without the backend suffix of QNN's tools.

    Example:
        >>> plain_package("MyPackageHtp"), plain_package("MyPackage"), plain_package("Htp")
        ('MyPackage', 'MyPackage', 'Htp')
    """
    return _SUFFIX.sub("", name)


def alike(key: Key, keys: Iterable[Key]) -> Key | None:
    """Return an equal key, or a key that differs only in the backend suffix.

    Without an equal key, one that has no suffix goes first, then that of the CPU.

    Example:
        >>> alike(("MyPackage", "Blur"), [("MyPackageAic", "Blur"), ("MyPackageCpu", "Blur")])
        ('MyPackageCpu', 'Blur')
    """
    plain = plain_package(key[0])

    def rank(one: Key) -> tuple[bool, bool, bool, Key]:
        return one != key, one[0] != plain, one[0] != f"{plain}Cpu", one

    found = (one for one in keys if one[1] == key[1] and plain_package(one[0]) == plain)
    return min(found, key=rank, default=None)


@dataclass(frozen=True, slots=True)
class Offer:
    """Kernel or shape function of a source for an operation.

    Attributes:
        origin: The source, for messages.
        kernel: Whether it has a kernel for the CPU.
        shapes: Whether it infers shapes of outputs.
        is_explicit: Whether its shapes go before those of a library.
        package: Name of its package; empty for compiled kernels of plugins.
    """

    source: int
    origin: str
    kernel: bool
    shapes: bool
    cores: tuple[str, ...]
    is_explicit: bool
    package: str = ""


class Offers:
    """Kernels and shape functions of all sources."""

    def __init__(self) -> None:
        self._kernels: dict[Key, Offer] = {}
        self._shapes: dict[Key, Offer] = {}
        self._others: dict[Key, Offer] = {}

    def add(self, source: int, origin: str, words: Sequence[Mapping[str, Any]], *, is_file: bool) -> None:
        """Register the kernels and shape functions of a source.

        Raises:
            BackendError: If another offers the same; several make a ProblemList.
        """
        problems: list[XdlcError] = []
        for one in words:
            key = (str(one["package"]), str(one["type"]))
            cores = tuple(map(str, one["cores"]))
            offer = Offer(source, origin, bool(one["kernel"]), bool(one["shapes"]), cores, is_file, key[0])
            if offer.kernel:
                problems += _clash(key, self._kernels.setdefault(key, offer), offer, "kernel")
            elif not offer.shapes or not is_file:
                self._others[key] = offer
            if offer.shapes:
                held = self._shapes.get(key)
                if held is None or offer.is_explicit > held.is_explicit:
                    self._shapes[key] = offer
                elif offer.is_explicit == held.is_explicit:
                    problems += _clash(key, held, offer, "shape function")
        raise_all(problems)

    def kernel(self, key: Key) -> Offer | None:
        """Return the source of the kernel of an operation."""
        return self._of(key, self._kernels)

    def shapes(self, key: Key) -> Offer | None:
        """Return the source of the shapes of an operation."""
        return self._of(key, self._shapes)

    def elsewhere(self, key: Key) -> Offer | None:
        """Return a source that has an operation, but not for the CPU."""
        return self._of(key, self._others)

    @staticmethod
    def _of(key: Key, offers: Mapping[Key, Offer]) -> Offer | None:
        found = alike(key, offers)
        return None if found is None else offers[found]

    def types(self) -> list[str]:
        """Return the operations that have a kernel."""
        return [f"{package}::{type}" for package, type in sorted(self._kernels)]


def _clash(key: Key, present: Offer, offer: Offer, what: str) -> list[XdlcError]:
    if present is offer:
        return []
    return [
        BackendError(
            f"{present.origin} and {offer.origin} both have a {what} for {key[0]}::{key[1]}",
            fix="pass only one source",
        )
    ]
