"""Content of messages to and from a child: errors as JSON, arrays in files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from xdlc import errors
from xdlc.errors import BackendError, ProblemList, XdlcError
from xdlc.options import spell
from xdlc.worker.temporary import temporary_files

Array = Any  # numpy.ndarray
Form = list[Any] | int
"""Name of the dtype and shape of an array; number of bytes."""
_OPTION = re.compile(r'\x1a(\["\w[\w.]*", .*?\])\x1a')


@contextmanager
def shared_file() -> Iterator[int]:
    """Yield a new file in memory, without a name.

    Raises:
        StorageError: If the system opens no more files.
    """
    with temporary_files():
        file = os.memfd_create("xdlc-arrays", os.MFD_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def write_arrays(file: int, parts: Iterable[Array | bytes]) -> list[Form]:
    """Write arrays and bytes to a file; return the forms for ``read_arrays``.

    Raises:
        OSError: If no memory is left for them.
    """
    forms: list[Form] = []
    with open(file, "r+b", closefd=False) as target:
        target.truncate(0)
        target.seek(0)
        for part in parts:
            if isinstance(part, bytes):
                forms.append(len(part))
                target.write(part)
                continue
            import numpy

            dtype = part.dtype
            name = dtype.str if numpy.dtype(dtype.str) == dtype else dtype.name  # numpy lacks some types
            forms.append([name, list(part.shape)])
            target.write(numpy.ascontiguousarray(part).reshape(-1).view(numpy.uint8).data)
    return forms


def read_arrays(file: int, forms: Sequence[Form]) -> list[Array | bytes]:
    """Return the arrays and bytes that ``write_arrays`` stored.

    Raises:
        ValueError: If the file has fewer bytes.
    """
    parts: list[Array | bytes] = []
    with open(file, "rb", closefd=False) as source:
        source.seek(0)
        for form in forms:
            if isinstance(form, int):
                parts.append(source.read(form))
                continue
            import numpy

            name, shape = form
            array = numpy.empty(shape, _dtype(name))
            content = array.reshape(-1).view(numpy.uint8)
            if source.readinto(content.data) != content.size:
                raise ValueError("a file of arrays is truncated")
            parts.append(array)
    return parts


def _dtype(name: str) -> Any:
    import numpy

    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401 - adds the names of its types to numpy

        return numpy.dtype(name)


def words_of(error: XdlcError) -> dict[str, Any]:
    """Return an error as JSON values."""
    members = ("problem", "where", "fix", "node", "op", "line")
    return {"kind": type(error).__name__} | {name: getattr(error, name) for name in members}


def error_of(words: Mapping[str, Any]) -> XdlcError:
    """Return the error that a child has put into words.

    Raises:
        TypeError: If these are no words of an error.
        KeyError: Likewise.
    """
    members = dict(words)
    kind = getattr(errors, members.pop("kind"), BackendError)
    is_error = isinstance(kind, type) and issubclass(kind, XdlcError) and kind is not ProblemList
    return (kind if is_error else BackendError)(**members)


def marked(name: str, value: Any = None) -> str:
    """Return an option as a mark, for texts of a child; see ``with_spelling``."""
    return f"\x1a{json.dumps([name, value], default=str)}\x1a"


def with_spelling(content: Any) -> Any:
    """Return content of a child with its marks as the caller here writes options."""
    if isinstance(content, str):
        return _OPTION.sub(_spelled, content)
    if isinstance(content, dict):
        return {key: with_spelling(value) for key, value in content.items()}
    return [with_spelling(value) for value in content] if isinstance(content, list) else content


def _spelled(match: re.Match[str]) -> str:
    with suppress(ValueError, TypeError, LookupError):  # a file may have names like this
        return spell(*json.loads(match[1]))
    return match[0]
