"""Calls of user code, whose exceptions become errors with plugin, hook and line."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from xdlc.errors import UsageError, XdlcError

_OURS = str(Path(__file__).parents[2]) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_PACKAGES = ("site-packages", "dist-packages")


@contextmanager
def user_code(plugin: str, hook: str, place: str, subject: str = "") -> Iterator[None]:
    """Raise an XdlcError that names plugin and hook in place of a hook's exception.

    Args:
        plugin: Name of the plugin.
        place: File and line of the plugin, for errors without a line.
        subject: What it was called for, like ``node 'n1'``.

    Raises:
        UsageError: For any exception, ``SystemExit`` included.
        XdlcError: One that a hook raised stays what it is, its place is added.
    """
    title = f"plugin {plugin}, {hook}" + (f", {subject}" if subject else "")
    try:
        yield
    except XdlcError as error:
        within = f": {error.where}" if error.where else ""
        error.where = f"{_placed(error, place)}{title}{within}"
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"raised {described(error)}",
            where=f"{_placed(error, place)}{title}",
            fix="pip install 'xdlc[numba]'"
            if getattr(error, "name", "") == "numba"
            else "correct the plugin",
        ) from error


def described(error: BaseException) -> str:
    """Return type and text of an exception in one line.

    Example:
        >>> described(KeyError("axis"))
        "KeyError: 'axis'"
    """
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = (text.strip() or "no text").splitlines()[0]
    return f"{type(error).__name__}: {first[:300]}"


def _placed(error: BaseException, place: str) -> str:
    """Return the line of an error and a colon; "" if it is unknown."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 1}: "
    line = _user_line(error.__traceback__, place) or place
    return f"{line}: " if line else ""


def _user_line(trace: TracebackType | None, place: str = "") -> str:
    """Return ``file:line`` of the user's innermost code, or an empty text.

    Args:
        place: File and line of the plugin, which may itself be installed as a library.
    """
    own = place.rpartition(":")[0]
    frames = [
        entry
        for entry in traceback.extract_tb(trace)
        if not _foreign(entry.filename) or _beside(entry.filename, own)
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _foreign(path: str) -> bool:
    return path.startswith((_OURS, _LIBRARY, "<frozen")) or any(
        f"{os.sep}{name}{os.sep}" in path for name in _PACKAGES
    )


def _beside(path: str, own: str) -> bool:
    folder = os.path.dirname(own)
    shared = os.path.basename(folder) in _PACKAGES or folder.startswith(_OURS.rstrip(os.sep))
    return path == own if shared or not folder else path.startswith(folder + os.sep)
