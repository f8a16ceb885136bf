"""Batches: many models, options and SoCs, in one table."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from xdlc.api.verbs import verb
from xdlc.errors import XdlcError
from xdlc.ir.files import csv_text, make_folder, replace_file, replace_text
from xdlc.json_fields import json_bytes
from xdlc.options import PathLike, Step
from xdlc.options.running import WorkerOptions

if TYPE_CHECKING:
    from xdlc.api.batches.recipe import Recipe
    from xdlc.api.batches.unit import Row, Unit
    from xdlc.worker.executors import Workers

TABLE = "table"
"""Name of the files with the table, before the suffix."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Result of a batch.

    Attributes:
        rows: A row for each model, variant and SoC, in this order.
        kept: Number of DLCs that an earlier call made.
        files: The files with the table.
    """

    rows: tuple[Row, ...]
    kept: int
    files: tuple[Path, ...]

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows of DLCs and caches that xdlc could not make."""
        return tuple(row for row in self.rows if row.problem)


@verb
def batch(
    folder: PathLike,
    recipe: PathLike,
    output: PathLike,
    *,
    step: Step | None = None,
    **options: Unpack[WorkerOptions],
) -> Batch:
    """Make the DLCs of many models, options and SoCs, and a table of all results.

    The folder ``output`` gets ``VARIANT/MODEL.dlc``, ``table.csv`` and ``table.json``.  A second call with
    the same arguments makes only the DLCs that are missing, that failed, or whose files or options changed.
    The bytes of the DLCs do not depend on the workers.

    Args:
        folder: Folder with the models and their samples.
        recipe: YAML file with the models, the variants, and the options of each step.
        output: Folder for the results.
        step: Called as ``step(title, done, total)`` with the number of finished DLCs and of all DLCs.
        **options: Options of the workers; each DLC is a task.

    Raises:
        UsageError: If the folder has no models, or the recipe has unknown keys or values of a wrong form.
        ModelError: If the recipe is not YAML.
        StorageError: If a file cannot be read or written.
        BackendError: If a worker cannot start.
    """
    from xdlc.api.batches.journal import Journal
    from xdlc.api.batches.recipe import read_recipe
    from xdlc.worker.executors import open_workers

    target = Path(output)
    # Workers may have another current folder.
    units = _units(read_recipe(Path(recipe)), Path(folder).resolve(), target.resolve())
    for parent in {unit.target.parent for unit in units}:
        make_folder(parent)
    done: dict[int, Sequence[Row]] = {}
    with open_workers(**options) as workers, Journal(target) as journal:
        keys = [journal.key(unit) for unit in units]
        for number, unit in enumerate(units):
            if (earlier := journal.rows(unit, keys[number])) is not None:
                done[number] = earlier
        kept = len(done)
        for number, rows in _made(units, target.resolve(), done, workers, step):
            done[number] = rows
            journal.add(units[number], keys[number], rows)
    table = tuple(row for number in range(len(units)) for row in done[number])
    return Batch(table, kept, _write(table, target))


def _made(
    units: Sequence[Unit], output: Path, done: Mapping[int, object], workers: Workers, step: Step | None
) -> Iterator[tuple[int, Sequence[Row]]]:
    """Yield the rows of units that are not done, by number, as workers make them."""
    from xdlc.api.batches.unit import make

    def show(number: int) -> None:
        if step is not None:
            step(f"making {units[number].title}", len(done), len(units))

    mark = output / f".{uuid4().hex}"  # by which a worker tells whether it sees the folder
    replace_text(mark, mark.name)
    try:
        parcel = workers.parcel(mark)
        tasks = {}
        for number, unit in enumerate(units):
            if number not in done:
                files = unit.files()
                names = [str(file.relative_to(unit.folder)) for file in files]
                parcels: list[Any] = [parcel, mark, *map(workers.parcel, files)]
                tasks[number] = partial(make, unit, names, *parcels)
        for number, outcome in workers.each(tasks, "batch", show):
            if isinstance(outcome, XdlcError):
                yield number, units[number].failed(outcome)
            elif isinstance(outcome, Exception):
                raise outcome
            else:
                rows, content = outcome
                if content is not None:
                    replace_file(units[number].target, content)
                yield number, rows
    finally:
        mark.unlink(missing_ok=True)


def _units(recipe: Recipe, folder: Path, output: Path) -> list[Unit]:
    """Return the DLCs to make, each with a path of its own."""
    from xdlc.api.batches.recipe import SUFFIX
    from xdlc.api.batches.unit import Unit

    sources = recipe.sources(folder, output)
    stems = Counter(name for source in sources for name in {source, source.with_suffix("")})
    named = _by_stem({source.parent for source in sources})
    units = []
    for source in sources:
        name = source.relative_to(folder)
        stem = name.with_suffix("") if stems[source.with_suffix("")] == 1 else name
        for variant in recipe.variants:
            path = output / variant.name / stem.with_name(stem.name + SUFFIX)
            units.append(Unit(folder, name.as_posix(), variant, path, tuple(named[source.with_suffix("")])))
    return units


def _by_stem(folders: Iterable[Path]) -> Mapping[Path, list[Path]]:
    """Return the files of folders by each stem: ``a.b`` and ``a`` for ``a.b.c``."""
    files: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in (path for folder in folders for path in folder.iterdir()):
        for match in re.finditer(r"\.", path.name):
            files[path.parent / path.name[: match.start()]].append(path)
    return files


def _write(table: Sequence[Row], output: Path) -> tuple[Path, ...]:
    """Write the table as CSV and JSON; return the paths."""
    from xdlc.api.batches.unit import COLUMNS

    lines = [["" if cell is None else cell for cell in astuple(row)] for row in table]
    texts = {
        "csv": csv_text([COLUMNS, *lines]),
        "json": json_bytes({"schema": 1, "rows": [asdict(row) for row in table]}).decode(),
    }
    paths = {output / f"{TABLE}.{suffix}": text for suffix, text in texts.items()}
    for path, text in paths.items():
        replace_text(path, text)
    return tuple(paths)
