"""Packages written into a folder, all or none, and never over users' files.

Each package has a list of digests of what was generated, so that a later run can find what users have
changed since.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from xdlc.errors import StorageError, UsageError, XdlcError, raise_all
from xdlc.ir.files import checked_path
from xdlc.options import spell
from xdlc.udo.generator.rendering import Rendered
from xdlc.worker.temporary import TemporaryFolder

MANIFEST = ".xdlc-udo.json"
_MAX_MANIFEST = 16 << 20


@dataclass(slots=True)
class Outcome:
    """Files of a package that users have changed, by their treatment.

    Attributes:
        folder: Its folder.
        kept: Files to fill, unchanged.
        beside: Those of them whose skeleton is another one now; it is beside them as ``.new``.
        replaced: Other files that were changed by hand; what they were is beside them as ``.old``, or
            ``.old2`` and so on.
        left: Files that no longer belong to the package but were changed by hand; they are now ``.old``.
    """

    folder: Path
    kept: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def write_packages(
    folder: Path, packages: Sequence[tuple[str, Sequence[Rendered]]], *, force: bool
) -> list[Outcome]:
    """Write packages into a folder, which is created if it does not exist.

    Args:
        folder: Where each package gets a folder of its name.
        packages: Names, each with its files.
        force: Whether a package may be there already.

    Raises:
        UsageError: If a package is there and ``force`` is not set, or its place is a link or a file.
        StorageError: If something cannot be read or written; nothing has changed then.
    """
    checked_path(folder)
    targets = [folder / name for name, _ in packages]
    with _storage_errors(folder):
        raise_all([*_blocked(folder), *(one for target in targets for one in _refusals(target, force))])
        with _folder(folder), TemporaryFolder(".xdlc-udo-", dir=folder) as work:
            outcomes = [
                _build(target, Path(work) / "new" / name, files)
                for target, (name, files) in zip(targets, packages, strict=True)
            ]
            _swap(Path(work), targets)
    return outcomes


@contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot be written: {error.strerror or error}",
            where=str(error.filename or folder),
            fix="check the path, its permissions and the free space",
        ) from error


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Create a folder; remove the created folders if the work fails."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for path in missing:
            path.rmdir()
        raise


def _blocked(folder: Path) -> Iterator[XdlcError]:
    """Yield an error if the folder, or a parent of it, is not a folder."""
    there = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), None)
    if there is not None and not there.is_dir():
        what = "is a file, not a folder" if there.exists() else "is a broken link"
        yield UsageError(what, where=str(there), fix="name another folder for the packages")


def _refusals(target: Path, force: bool) -> Iterator[XdlcError]:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        yield UsageError("is a link or a file, not a folder", where=str(target), fix="name another folder")
    elif target.exists() and not force:
        yield UsageError(
            "exists",
            where=str(target),
            fix=f"name another folder, or generate again with {spell('force', True)}, which keeps kernels "
            "that you have filled",
        )


def _swap(work: Path, targets: Sequence[Path]) -> None:
    """Replace the old folders by the new ones; if one fails, restore all of them."""
    done: list[tuple[Path, Path, bool]] = []
    try:
        for target in targets:
            fresh, is_there = work / "new" / target.name, target.exists()
            (_exchange if is_there else os.rename)(fresh, target)
            done.append((target, fresh, is_there))
    except BaseException:
        for target, fresh, is_there in reversed(done):
            (_exchange if is_there else os.rename)(target, fresh)
        raise


def _exchange(first: Path, second: Path) -> None:
    """Exchange two folders, in one step on Linux; elsewhere ``second`` moves away."""
    here = -100  # AT_FDCWD
    call = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if call is not None and call(here, os.fsencode(first), here, os.fsencode(second), 2) == 0:
        return
    spare = first.with_name(f"{first.name}.old")
    os.rename(second, spare)
    try:
        os.rename(first, second)
    except BaseException:
        os.rename(spare, second)
        raise
    os.rename(spare, first)


def _build(target: Path, fresh: Path, files: Sequence[Rendered]) -> Outcome:
    """Build a package's new folder: its present files, with the new files added."""
    merge = Outcome(target)
    fresh.parent.mkdir(exist_ok=True)
    if target.exists():
        shutil.copytree(target, fresh, symlinks=True)
    fresh.mkdir(exist_ok=True)
    before = _manifest(fresh / MANIFEST)
    for file in files:
        _write(fresh, target, file, before.get(file.path), merge)
    _remove_stale(fresh, {file.path for file in files}, before, merge)
    digests = {file.path: _digest(file.content) for file in files}
    (fresh / MANIFEST).unlink(missing_ok=True)
    (fresh / MANIFEST).write_text(json.dumps({"files": digests}, indent=1, sort_keys=True) + "\n")
    return merge


def _write(root: Path, target: Path, file: Rendered, before: str | None, merge: Outcome) -> None:
    path = root / file.path
    if not _is_own(root, file.path) or (os.path.lexists(path) and not _is_file(path)):
        raise UsageError(
            "the package needs a file here, but this is a folder, a link, or inside a link",
            where=str(target / file.path),
            fix="move the file to another folder",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        current = path.read_bytes()
        if current == file.content:
            return
        if _digest(current) != before:
            if file.user:
                merge.kept.append(file.path)
                if _digest(file.content) == before:
                    return
                merge.beside.append(file.path)
                beside = path.with_name(f"{path.name}.new")
                beside.unlink(missing_ok=True)
                beside.write_bytes(file.content)
                return
            merge.replaced.append(file.path)
            _old(path).write_bytes(current)
    path.write_bytes(file.content)


def _remove_stale(root: Path, paths: set[str], before: dict[str, str], merge: Outcome) -> None:
    """Remove unchanged files of an earlier run that this run did not write."""
    for path in sorted(before.keys() - paths):
        file = root / path
        if not _is_own(root, path) or not _is_file(file):
            continue
        if _digest(file.read_bytes()) != before[path]:
            merge.left.append(path)
            file.rename(_old(file))
            continue
        file.unlink()
        for folder in file.relative_to(root).parents:
            if folder == Path() or any((root / folder).iterdir()):
                break
            (root / folder).rmdir()


def _old(path: Path) -> Path:
    """Return a free name for a backup of a file."""
    number, found = 1, path.with_name(f"{path.name}.old")
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}.old{number}")
    return found


def _is_own(root: Path, path: str) -> bool:
    """Return whether a path is below a folder without a link on the way."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        return False
    return not any((root / folder).is_symlink() for folder in parts.parents)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _manifest(path: Path) -> dict[str, str]:
    """Return the digests of an earlier run; without them all files count as changed."""
    if not _is_file(path) or path.stat().st_size > _MAX_MANIFEST:
        return {}
    try:
        files = json.loads(path.read_bytes())["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(files, dict):
        return {}
    return {key: value for key, value in files.items() if isinstance(value, str) and "\0" not in key}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
