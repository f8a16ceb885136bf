"""SDK releases that built libraries record, read without loading them.

An op package of the HTP works with the release of the QNN SDK that it was compiled with, and no other.
Packages of the generator export a text with it; other libraries, the backends too, hold the release as they
report it, like ``v2.51.0.260929181845``.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Sequence

from xdlc.errors import BackendError, StorageError
from xdlc.ir.files import open_file

MAX_BYTES = 400 << 20
"""Largest library."""
_OWN = re.compile(rb"xdlc_udo_sdk_release=([\x21-\x7e]{1,80})")
_BUILD = re.compile(rb"\0(v\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{6,14}[\w-]{0,40})\0")


def release_of(path: str | os.PathLike[str]) -> str:
    """Return the SDK release recorded in a library; "" if it has no record.

    Raises:
        StorageError: If it cannot be read, is not a regular file, or larger than ``MAX_BYTES``.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            problem = f"the file has more than {MAX_BYTES >> 20} MiB"
            raise StorageError(problem, where=os.fspath(path), fix="name a library")
        if not size:  # which mmap refuses
            return ""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found = _OWN.search(content) or _BUILD.search(content)
            return found[1].decode() if found else ""


def same_release(one: str, other: str) -> bool:
    """Return whether two releases agree, as far as both are stated.

    Example:
        >>> same_release("2.51", "v2.51.0.260929181845"), same_release("v2.5.0", "v2.51.0")
        (True, False)
    """
    pairs = zip(one.removeprefix("v").split("."), other.removeprefix("v").split("."), strict=False)
    return all(a == b for a, b in pairs)


def check_releases(paths: Sequence[str | os.PathLike[str]], expected: str = "") -> list[str]:
    """Return the SDK release of each library; "" if it records none.

    Args:
        paths: Libraries of packages, and of the SDK.
        expected: Release that they have to be of; default: that of the first that records one.

    Raises:
        BackendError: If they are of different releases, or none records one.
        StorageError: If a file cannot be read.
    """
    releases = {os.fspath(path): release_of(path) for path in paths}
    stated = {path: release for path, release in releases.items() if release}
    if not stated:
        fix = "name op packages of the HTP or backends: libraries for the CPU and GPU need no SDK"
        raise BackendError("the library states no SDK release", where=", ".join(releases), fix=fix)
    first = next(iter(stated))
    for path, release in stated.items():
        if not same_release(release, expected or stated[first]):
            other = f"release {expected}" if expected else f"{first} of {stated[first]}"
            raise BackendError(
                f"the library has SDK release {release}, which is incompatible with {other}",
                where=path,
                fix="build the package with the SDK of the runtime, QNN_SDK_ROOT",
            )
    return [releases[os.fspath(path)] for path in paths]
