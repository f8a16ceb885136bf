"""Versions of the vendor's SDK: of the package installed here, and as users and records word them."""

from __future__ import annotations

import re

from xdlc.errors import BackendError, UsageError
from xdlc.runtime.htp.library import library_folder

_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.\d+)*(?:[-_+].*)?", re.ASCII)
_TOLD = re.compile(r"""^qnn_version\s*=\s*['"]([^'"]+)['"]""", re.MULTILINE)
_INFO = "build_and_package_info.py"


def find_version(text: str | None) -> tuple[int, ...] | None:
    """Return a version's numbers, two or three; None if the text is none.

    What comes behind them is the time of the build.

    Example:
        >>> find_version("2.40"), find_version("v2.51.0.260929181845"), find_version("new")
        ((2, 40), (2, 51, 0), None)
    """
    match = _VERSION.fullmatch(text.strip()) if text is not None else None
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def read_version(text: str) -> tuple[int, ...]:
    """Return a version's numbers, two or three.

    Raises:
        UsageError: If the text is no version.
    """
    found = find_version(text)
    if found is None:
        raise UsageError(f"{text!r} is no version of an SDK", fix="give one like 2.40 or 2.51.0")
    return found


def installed_sdk() -> tuple[int, ...] | None:
    """Return the version of the SDK that the vendor's package was built from; None if none is installed."""
    try:
        path = library_folder() / _INFO
        found = _TOLD.search(path.read_text(encoding="utf-8", errors="replace"))
    except (BackendError, OSError):
        return None
    return find_version(found[1]) if found else None
