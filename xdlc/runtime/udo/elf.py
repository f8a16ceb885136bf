"""Checks that a file is a shared library of this machine before it is loaded."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from xdlc.errors import BackendError, StorageError, UsageError

LARGEST = 1 << 30
_MACHINES = {3: "i386", 0x28: "arm", 0x3E: "x86_64", 0xA4: "hexagon", 0xB7: "aarch64", 0xF3: "riscv64"}
_FOREIGN = {
    b"MZ": "a library or program of Windows",
    b"\xcf\xfa\xed\xfe": "a library or program of macOS",
    b"!<arch>": "an archive of object files",
}
_OURS = {"amd64": "x86_64", "arm64": "aarch64"}
_SHARED_OBJECT = 3


def machine() -> str:
    """Return what this process runs on, as ELF files call it."""
    name = os.uname().machine.lower()
    return _OURS.get(name, name)


def check_content(head: bytes, size: int, where: str) -> None:
    """Check the beginning of a shared library.

    Args:
        head: Its first 64 bytes.
        size: Size of the whole.
        where: Its path, for errors.

    Raises:
        BackendError: If it is no ELF file, of another machine or class, no shared object, or too large.
    """
    if size > LARGEST:
        _refuse(f"has {size} bytes, more than {LARGEST}", where)
    if len(head) < 64 or head[:4] != b"\x7fELF":
        known = next((words for start, words in _FOREIGN.items() if head.startswith(start)), "")
        if known:
            _refuse(f"is {known}, and this machine takes shared libraries of Linux", where)
        raise BackendError(
            "is no shared library: it does not begin as an ELF file does",
            where=where,
            fix="give a registration library, libUdo<Package>Reg.so, or a Python file, with .py at its end",
        )
    bits = {1: 32, 2: 64}.get(head[4])
    own = 64 if sys.maxsize > 1 << 32 else 32
    if bits != own:
        _refuse(f"is a library of {bits or 'an unknown number of'} bits, this process has {own}", where)
    order = {1: "little", 2: "big"}.get(head[5])
    if order != sys.byteorder:
        _refuse(
            f"is a library of {order or 'unknown'}-endian numbers, this machine's are {sys.byteorder}", where
        )
    code = int.from_bytes(head[18:20], sys.byteorder)
    if _MACHINES.get(code) != machine():
        _refuse(
            f"is a library for {_MACHINES.get(code, f'machine {code}')}, this machine is {machine()}", where
        )
    kind = int.from_bytes(head[16:18], sys.byteorder)
    if kind != _SHARED_OBJECT:
        _refuse(f"is no shared object: its ELF type is {kind}, not {_SHARED_OBJECT}", where)


def _refuse(problem: str, where: str) -> None:
    raise BackendError(problem, where=where, fix=f"build the library for this machine ({machine()}, Linux)")


def check_file(path: Path) -> None:
    """Check a shared library.

    Raises:
        BackendError: If it is not one that this process can load.
        StorageError: If it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BackendError("is no plain file", where=str(path), fix="give the path of a library")
            check_content(file.read(64), found.st_size, str(path))
    except OSError as error:
        raise StorageError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="check the path"
        ) from error


def beside(library: Path, name: str, where: str) -> Path:
    """Return the path of a library that another one names, which lies beside it.

    Raises:
        UsageError: If the name is not that of a plain file there.
    """
    plain = name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"}
    path = library.parent / name if plain else library
    if not plain:
        problem = f"names the implementation library {name!r}, which is not the name of a file"
    elif path.is_symlink():
        problem = f"names the implementation library {name!r}, which is a symbolic link"
    elif not path.is_file():
        problem = f"names the implementation library {name!r}, and there is no such file beside it"
    else:
        return path
    raise UsageError(
        problem, where=where, fix="put the implementation library beside the registration library"
    )
