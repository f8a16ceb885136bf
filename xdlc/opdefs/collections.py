"""Collections of definitions: packages merged from files, and parts of packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from xdlc.errors import ModelError, raise_all
from xdlc.opdefs.model import Collection, SupplementTable
from xdlc.opdefs.xml_elements import VERSION

UNSTATED = ("", VERSION)
"""Domain and version of packages whose definitions omit them: JSON, plugins."""


def merge(collections: Sequence[Collection], sources: Sequence[str] = ()) -> dict[str, Collection]:
    """Return a collection per package; op names must stay unique.

    A file without Domain or Version inherits them from the other files of its package.

    Args:
        sources: Origin of each, for messages; may be empty.

    Raises:
        ModelError: If an op of a package is defined or supplemented twice, or the collections of a package
            differ in domain or version; a ProblemList if there are several such faults.
    """
    packages: dict[str, Collection] = {}
    problems: list[ModelError] = []
    for index, collection in enumerate(_with_versions(collections)):
        earlier = packages.get(collection.package)
        if earlier is not None:
            where = sources[index] if index < len(sources) else None
            conflicts = _conflicts(earlier, collection)
            problems += (ModelError(text, where=where, fix=fix) for text, fix in conflicts)
            collection = _joined(earlier, collection)
        packages[collection.package] = collection
    raise_all(problems)
    return packages


def _with_versions(collections: Sequence[Collection]) -> Iterable[Collection]:
    stated: dict[str, Collection] = {}
    for collection in collections:
        if (collection.domain, collection.version) != UNSTATED:
            stated.setdefault(collection.package, collection)
    for collection in collections:
        other = stated.get(collection.package)
        if other is not None and (collection.domain, collection.version) == UNSTATED:
            collection = replace(collection, domain=other.domain, version=other.version)
        yield collection


def _conflicts(a: Collection, b: Collection) -> Iterator[tuple[str, str]]:
    package = f"package {a.package!r}"
    for title, one, other in (("Domain", a.domain, b.domain), ("Version", a.version, b.version)):
        if one != other:
            fix = f"use one {title} in both files, or give the packages different names"
            yield f"{package} has {title} {other!r}, but {one!r} in an earlier file", fix
    names = {op.name for op in a.opdefs}
    for op in b.opdefs:
        if op.name in names:
            yield f"{package} defines op {op.name!r} in two files", "remove or rename one op"
    held = {(table.backend, name) for table in a.supplements for name in table.ops}
    for table in b.supplements:
        for name in table.ops:
            if (table.backend, name) in held:
                yield (
                    f"{package} supplements op {name!r} for {table.backend} a second time",
                    "keep one supplement",
                )


def _joined(a: Collection, b: Collection) -> Collection:
    tables = {table.backend: table for table in a.supplements}
    for table in b.supplements:
        held = tables.get(table.backend)
        if held is not None:
            table = SupplementTable(table.backend, held.supported | table.supported, held.ops | table.ops)
        tables[table.backend] = table
    return replace(a, opdefs=a.opdefs + b.opdefs, supplements=tuple(tables.values()))


def reduced(collection: Collection, types: Set[str]) -> Collection:
    """Return a collection with some of its ops and their supplements only."""
    tables = [
        replace(
            table,
            supported=table.supported & types,
            ops={name: rows for name, rows in table.ops.items() if name in types},
        )
        for table in collection.supplements
    ]
    return replace(
        collection,
        opdefs=tuple(opdef for opdef in collection.opdefs if opdef.name in types),
        supplements=tuple(table for table in tables if table.supported or table.ops),
    )
