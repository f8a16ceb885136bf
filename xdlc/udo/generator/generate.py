"""Generation of UDO packages from definitions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdlc.errors import raise_all
from xdlc.opdefs.collections import merge, reduced
from xdlc.opdefs.model import Collection
from xdlc.opdefs.supplements import offers_of
from xdlc.opdefs.xml_writer import write_collection
from xdlc.udo.config.json_text import read_bytes
from xdlc.udo.config.reader import inspect, read_config
from xdlc.udo.generator import htp
from xdlc.udo.generator.build_context import ignored_backends, notices, package_view
from xdlc.udo.generator.rendering import Rendered, render
from xdlc.udo.generator.store import Outcome, write_packages
from xdlc.udo.generator.template_context import CPU, DSP, DSP_LEGACY, GPU, PackageView, cores_of

_SUFFIXES = {CPU: "Cpu", GPU: "Gpu", DSP_LEGACY: "Dsp", DSP: "Htp"}
"""Suffix that QNN appends to the name of a package, by group of cores."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A package that was generated.

    Attributes:
        package: What it holds.
        outcome: What became of its files.
        ignored: Backends that the configuration names and no library is made for.
        notices: What the user should know, as of what accelerators do not take or take in another way.
    """

    package: PackageView
    outcome: Outcome
    ignored: tuple[str, ...]
    notices: tuple[str, ...]


def generate(
    collections: Iterable[Collection], folder: str | os.PathLike[str], *, force: bool = False
) -> list[Path]:
    """Generate the packages of definitions; merge packages of one name.

    Args:
        collections: Definitions.
        folder: Where each package gets a folder of its name.
        force: Whether to generate into packages that are there already; files that users have filled are
            kept, with the new skeleton beside them as ``.new``.

    Returns:
        The packages' folders.

    Raises:
        ModelError: If a definition is wrong; nothing is written then.
        UsageError: If a package is there already, and ``force`` is not set.
        StorageError: If something cannot be written; nothing has changed then.
    """
    return [made.outcome.folder for made in _generate(collections, {}, {}, Path(folder), force)]


def generate_files(
    paths: Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    force: bool = False,
    per_backend: bool = False,
) -> list[Generated]:
    """Generate the packages of configurations, with a copy of these in them.

    Args:
        paths: OpDef XML or JSON files.
        folder: Where each package gets a folder of its name.
        force: As for :func:`generate`.
        per_backend: Whether each backend gets a package of its own, ``MyPackageCpu``, ``MyPackageHtp``.

    Returns:
        The packages; what the user should know of the configurations is with the first.

    Raises:
        ModelError: If a configuration is wrong.
        UsageError: If a package is there already, and ``force`` is not set.
        StorageError: If something cannot be read or written.
    """
    unique = list(dict.fromkeys(Path(path) for path in paths))
    raise_all(inspect(unique).problems)
    collections: list[Collection] = []
    sources: dict[str, dict[str, bytes]] = {}
    places: dict[str, dict[str, str]] = {}
    texts: list[str] = []
    for path in unique:
        config = read_config(path)
        collections += config.collections
        texts += config.notices
        for (package, op), place in config.places.items():
            held = config.collections[package]
            places.setdefault(held.package, {})[held.opdefs[op].name] = place
        for name in {collection.package: None for collection in config.collections}:
            files = sources.setdefault(name, {})
            files[_free_name(path.name, name, files)] = read_bytes(path)
    first, *others = _generate(collections, sources, places, Path(folder), force, per_backend)
    return [replace(first, notices=(*texts, *first.notices)), *others]


def _generate(
    collections: Iterable[Collection],
    sources: Mapping[str, Mapping[str, bytes]],
    places: Mapping[str, Mapping[str, str]],
    folder: Path,
    force: bool,
    per_backend: bool = False,
) -> list[Generated]:
    whole = merge(list(collections))
    views: list[tuple[str, Collection, PackageView]] = []
    for name, collection in whole.items():
        view = package_view(collection, places.get(name))
        if not per_backend:
            views.append((name, collection, view))
            continue
        views += [
            (name, own, package_view(own, places.get(name))) for own in _collections_of(collection, view)
        ]
    packages = []
    for name, collection, view in views:
        configs = {**sources.get(name, {}), view.config: write_collection(collection).encode()}
        files = [Rendered(f"config/{file}", content) for file, content in configs.items()]
        packages.append((view.name, sorted([*render(view), *files], key=lambda file: file.path)))
    results = []
    for (name, _, view), outcome in zip(views, write_packages(folder, packages, force=force), strict=True):
        origin = whole.pop(name, None)  # the first package alone has the notices on it
        ignored, texts = (ignored_backends(origin), notices(origin)) if origin else ((), ())
        results.append(Generated(view, outcome, ignored, (*texts, *htp.notices(view))))
    return results


def _free_name(name: str, package: str, taken: Mapping[str, bytes]) -> str:
    """Return a free name for the copy of a configuration."""
    number, result = 1, name
    while result in taken or result == f"{package}OpDef.xml":
        number += 1
        result = f"{number}_{name}"
    return result


def _collections_of(collection: Collection, view: PackageView) -> Iterator[Collection]:
    """Yield a collection for each backend of a package, named after both."""
    for group in dict.fromkeys(core.group for core in view.cores):
        types = {op.type for core in view.cores if core.group == group for op in core.ops}
        part, name = reduced(collection, types), f"{collection.package}{_SUFFIXES[group]}"
        ops = [
            replace(op, package=name, backends=_own(offers_of(op, collection), group)) for op in part.opdefs
        ]
        tables = [table for table in part.supplements if table.ops and _own([table.backend], group)]
        tables = [replace(table, supported=frozenset()) for table in tables]
        yield replace(part, package=name, opdefs=tuple(ops), supplements=tuple(tables))


def _own(backends: Iterable[str], group: str) -> tuple[str, ...]:
    """Return the backends of a group, sorted; ``DSP`` becomes its processors."""
    found = ((name, core, len(cores_of(name))) for name in backends for core in cores_of(name))
    return tuple(sorted({core.name if n > 1 else name for name, core, n in found if core.group == group}))
