"""Reads a configuration of either form, with the places of its operations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdlc import opdefs
from xdlc.errors import ModelError, raise_all
from xdlc.opdefs.lint import rule_report
from xdlc.opdefs.model import Collection
from xdlc.opdefs.semantics import check_collection
from xdlc.opdefs.xml_elements import Key
from xdlc.udo.config.packages import Package, read_packages
from xdlc.udo.config.places import lines_of
from xdlc.udo.config.text import is_xml, read_bytes


@dataclass(frozen=True, slots=True)
class Config:
    """What a configuration file says.

    Attributes:
        collections: Its packages; those of one name stand as they stand in the file.
        places: File and line of each operation, by position of its package, and its own there.
        notices: What the user should know.
        form: ``json`` or ``xml``.
        rules: A line for each constraint: whether it is enforced.
        lines: File and line of all parts of each package, by the keys of ``elements.keys``.
    """

    collections: tuple[Collection, ...]
    places: Mapping[tuple[int, int], str]
    notices: tuple[str, ...] = ()
    form: str = "json"
    rules: tuple[str, ...] = ()
    lines: tuple[Mapping[Key, str], ...] = ()

    def op_lines(self, package: int) -> list[dict[Key, str]]:
        """Return file and line of the parts of each operation of a package, as ``Udo.lines`` has them.

        Args:
            package: Position of the package.
        """
        collection = self.collections[package]
        found: list[dict[Key, str]] = [{} for _ in collection.opdefs]
        of_name = {op.name: lines for op, lines in zip(collection.opdefs, found, strict=True)}
        for key, line in self.lines[package].items():
            if key[:1] == ("op",):
                found[int(key[1])][key[2:]] = line
            elif key[:1] == ("table",):
                table = collection.supplements[int(key[1])]
                names = table.ops if len(key) == 2 else key[3:4] if key[2] == "op" else ()
                for name in names:
                    if name in of_name:
                        of_name[str(name)]["table", table.backend, *key[4:]] = line
        return found


def read(path: str | os.PathLike[str]) -> list[Collection]:
    """Return the packages of a JSON UDO configuration or an OpDef XML file; the content tells which it is.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it breaks a rule; a ProblemList of all problems if there are several.
    """
    return list(read_config(path).collections)


def read_config(path: str | os.PathLike[str]) -> Config:
    """Return the packages of a configuration, with places and notices.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it breaks a rule; a ProblemList of all problems if there are several.
    """
    where = os.fspath(path)
    content = read_bytes(path)
    if is_xml(content):
        collection = opdefs.parse_collection(content, where)
        lines = opdefs.collection_lines(content, where)
        places = {(0, i): lines["op", i] for i in range(len(collection.opdefs))}
        notices = opdefs.notices(collection, lines)
        if ("Version",) not in lines:
            notices.insert(0, f"{lines[()]}: <OpDefCollection> has no Version: {collection.version} is taken")
        return Config(
            (collection,), places, tuple(notices), "xml", tuple(rule_report(collection, lines)), (lines,)
        )
    packages, notices = read_packages(content, where)
    raise_all(_check(packages, where), where=where)
    rules: list[str] = []
    every = [lines_of(package, where) for package in packages]
    for package, lines in zip(packages, every, strict=True):
        notices += opdefs.notices(package.collection, lines)
        rules += rule_report(package.collection, lines)
    places = {
        (p, i): f"{where}:{operator.line}"
        for p, package in enumerate(packages)
        for i, operator in enumerate(package.operators)
    }
    collections = tuple(package.collection for package in packages)
    return Config(collections, places, tuple(notices), "json", tuple(rules), tuple(every))


def clashes(configs: Sequence[Config]) -> list[ModelError]:
    """Return the operations that packages of one name have twice."""
    first: dict[tuple[str, str], str] = {}
    found = []
    for config in configs:
        for (p, i), place in config.places.items():
            package, name = config.collections[p].package, config.collections[p].opdefs[i].name
            if (package, name) in first:
                problem = f"package {package} has operator {name} twice; first at {first[package, name]}"
                found.append(ModelError(problem, where=place, fix="remove one, or rename its package"))
            first.setdefault((package, name), place)
    return found


def _check(packages: Sequence[Package], where: str) -> list[ModelError]:
    return [
        problem
        for package in packages
        for problem in check_collection(package.collection, lines_of(package, where))
    ]
