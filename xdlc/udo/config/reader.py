"""Configurations as JSON or OpDef XML, read and checked singly and together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdlc.errors import ModelError, XdlcError, each_problem, raise_all
from xdlc.opdefs import lint
from xdlc.opdefs.collections import merge
from xdlc.opdefs.lint import rule_report
from xdlc.opdefs.model import Collection
from xdlc.opdefs.semantics import check_collection
from xdlc.opdefs.xml_elements import Key
from xdlc.opdefs.xml_reader import collection_lines, parse_collection
from xdlc.udo.config.json_text import is_xml, read_bytes
from xdlc.udo.config.packages import read_packages


@dataclass(frozen=True, slots=True)
class Config:
    """The content of a configuration file.

    Attributes:
        collections: Its packages, in the order of the file, unmerged.
        notices: What the user should know.
        form: ``json`` or ``xml``.
        rules: A line for each constraint: whether it is enforced.
        lines: Places of all parts of each package, by the keys of ``elements.keys``: file and line of XML,
            file and JSON path of JSON.
    """

    collections: tuple[Collection, ...]
    notices: tuple[str, ...] = ()
    form: str = "json"
    rules: tuple[str, ...] = ()
    lines: tuple[Mapping[Key, str], ...] = ()

    @property
    def places(self) -> dict[tuple[int, int], str]:
        """Place of each operation, by position of its package and its own there."""
        return {
            (p, i): lines["op", i]
            for p, (collection, lines) in enumerate(zip(self.collections, self.lines, strict=True))
            for i in range(len(collection.opdefs))
        }

    def op_lines(self, package: int) -> list[dict[Key, str]]:
        """Return the places in each operation of a package, as in ``Udo.lines``.

        Args:
            package: Position of the package.
        """
        collection = self.collections[package]
        op_lines: list[dict[Key, str]] = [{} for _ in collection.opdefs]
        of_name = {op.name: lines for op, lines in zip(collection.opdefs, op_lines, strict=True)}
        for key, line in self.lines[package].items():
            if key[:1] == ("op",):
                op_lines[int(key[1])][key[2:]] = line
            elif key[:1] == ("table",):
                table = collection.supplements[int(key[1])]
                names = table.ops if len(key) == 2 else key[3:4] if key[2] == "op" else ()
                for name in names:
                    if name in of_name:
                        of_name[str(name)]["table", table.backend, *key[4:]] = line
        return op_lines


def read(path: str | os.PathLike[str]) -> list[Collection]:
    """Return the packages of a JSON configuration or an OpDef XML file.

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
        collection = parse_collection(content, where)
        lines = collection_lines(content, where)
        notices = lint.notices(collection, lines)
        if ("Version",) not in lines:
            notices.insert(
                0, f"{lines[()]}: <OpDefCollection> has no Version: xdlc uses {collection.version}"
            )
        return Config((collection,), tuple(notices), "xml", tuple(rule_report(collection, lines)), (lines,))
    packages, notices = read_packages(content, where)
    every = [package.places for package in packages]
    problems = (check_collection(package.collection, package.places) for package in packages)
    raise_all([problem for found in problems for problem in found], where=where)
    rules: list[str] = []
    for package in packages:
        notices += lint.notices(package.collection, package.places)
        rules += rule_report(package.collection, package.places)
    collections = tuple(package.collection for package in packages)
    return Config(collections, tuple(notices), "json", tuple(rules), tuple(every))


def clashes(configs: Sequence[Config]) -> list[ModelError]:
    """Return an error for each operation that packages of one name define twice."""
    first: dict[tuple[str, str], str] = {}
    problems = []
    for config in configs:
        for (p, i), place in config.places.items():
            package, name = config.collections[p].package, config.collections[p].opdefs[i].name
            if (package, name) in first:
                problem = f"package {package} has operator {name} twice; first at {first[package, name]}"
                problems.append(ModelError(problem, where=place, fix="remove one, or rename its package"))
            first.setdefault((package, name), place)
    return problems


@dataclass(frozen=True, slots=True)
class Inspected:
    """The report on configurations that are used together.

    Attributes:
        problems: All errors.
        notices: What the user should know.
        summary: A line for each package without errors, and for each of its constraints.
    """

    problems: tuple[XdlcError, ...]
    notices: tuple[str, ...]
    summary: tuple[str, ...]


def inspect(paths: Sequence[str | os.PathLike[str]]) -> Inspected:
    """Check configurations, singly and together."""
    problems: list[XdlcError] = []
    summary: list[str] = []
    configs: list[Config] = []
    for path in paths:
        try:
            config = read_config(path)
        except XdlcError as error:
            problems += each_problem(error)
            continue
        configs.append(config)
        for collection in config.collections:
            names = ", ".join(op.name for op in collection.opdefs)
            summary.append(f"{os.fspath(path)}: package {collection.package}: {names}")
        summary += config.rules
    problems += clashes(configs) or _conflicts(configs)
    return Inspected(
        tuple(problems), tuple(text for config in configs for text in config.notices), tuple(summary)
    )


def _conflicts(configs: Sequence[Config]) -> tuple[XdlcError, ...]:
    """Return why packages of one name cannot be merged."""
    try:
        merge([collection for config in configs for collection in config.collections])
    except XdlcError as error:
        return each_problem(error)
    return ()
