"""Journal of a batch: the finished DLCs, from which an interrupted batch goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self, TypeAlias

from xdlc.api.batches.unit import OK, Row, Unit
from xdlc.errors import StorageError
from xdlc.version import VERSION

_State: TypeAlias = list[int] | None
NAME = "batch.jsonl"
_LIBRARIES = ("onnx", "onnxruntime", "onnxruntime-qnn")
"""Packages whose version changes results."""


class Journal:
    """The file ``batch.jsonl`` in the folder of the results.

    A line has the key of a unit, its rows, and the state of its DLC.  The key covers what decides the result:
    the state of the files, the options, and the versions.  A state is size and time.  The last line of an
    interrupted batch may be damaged.

    Args:
        folder: Folder of the results.

    Raises:
        StorageError: If the file cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._done: dict[str, tuple[list[Row], _State]] = {}
        self._versions = _versions()
        try:
            self._file = open(self._path, "a+", encoding="utf-8")  # noqa: SIM115 - it is closed by __exit__
            self._file.seek(0)
            line = "\n"
            for line in self._file:
                with suppress(ValueError, TypeError, KeyError):
                    entry = json.loads(line)
                    self._done[entry["key"]] = [Row(**row) for row in entry["rows"]], entry["dlc"]
            if not line.endswith("\n"):
                self._file.write("\n")
        except (OSError, ValueError) as error:
            raise _refused(self._path, error) from error

    def rows(self, unit: Unit, key: str) -> list[Row] | None:
        """Return the rows of a unit that is done; None if it has to run.

        A unit that failed, or whose DLC was written again since, has to run again.
        """
        rows, dlc = self._done.get(key, ([], None))
        is_kept = dlc is not None and dlc == _state(unit.target)
        return rows if is_kept and all(row.status == OK for row in rows) else None

    def add(self, unit: Unit, key: str, rows: Sequence[Row]) -> None:
        """Store the rows of a unit that is done.

        Args:
            key: The key from before the unit ran: its files may have changed since.
        """
        entry = {
            "key": key,
            "unit": unit.title,
            "rows": [asdict(row) for row in rows],
            "dlc": _state(unit.target),
        }
        try:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
        except OSError as error:
            raise _refused(self._path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def key(self, unit: Unit) -> str:
        """Return a hash of what decides the result of a unit."""
        files = [(str(file), _state(file)) for file in (*unit.files(), *unit.named())]
        variant = unit.variant
        steps = [variant.convert, variant.quantize, variant.prepare, variant.cost]
        content = json.dumps([unit.model, steps, self._versions, files], sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()


def _state(path: Path) -> _State:
    """Return the size and the time of a file; None if there is none."""
    with suppress(OSError):
        status = path.stat()
        return [status.st_size, status.st_mtime_ns]
    return None


def _versions() -> list[str]:
    versions = [VERSION]
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions.append(f"{library} {version(library)}")
    return versions


def _refused(path: Path, error: OSError | ValueError) -> StorageError:
    reason = getattr(error, "strerror", None) or str(error)
    return StorageError(
        f"the journal cannot be read or written: {reason}",
        where=str(path),
        fix="check the permissions and the free space, or remove the file",
    )
