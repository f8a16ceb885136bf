"""Reads the packages of a JSON configuration."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from xdlc.errors import raise_all
from xdlc.opdefs.collections import UNTOLD
from xdlc.opdefs.model import Collection, SupplementTable
from xdlc.udo.config import extension
from xdlc.udo.config.fields import Fields, kind_of
from xdlc.udo.config.json_text import Node, parse
from xdlc.udo.config.names import CORES
from xdlc.udo.config.operators import Operator, operator_of
from xdlc.udo.config.scope import Scope, Stop, shown
from xdlc.udo.config.supplements import tables_of

_OWN = ("Operators", "UDO_PACKAGE_NAME", "UDO_PACKAGE_PATH", "SNPE_UDO_ROOT", "quantization_mode")
FIELDS = (*_OWN, *extension.PACKAGE)
_OLD = {
    "UDO_PACKAGE_PATH": "packages are written where the generator is told to",
    "SNPE_UDO_ROOT": "packages need no header of the SDK",
    "quantization_mode": "the quantizer's options decide",
}


@dataclass(frozen=True, slots=True)
class Package:
    """A package of a configuration with its places.

    Attributes:
        collection: The package.
        operators: Its operators.
        line: Line of its name.
        table_lines: Lines of its supplements, if it has a field of them.
    """

    collection: Collection
    operators: tuple[Operator, ...]
    line: int
    table_lines: tuple[int, ...] = ()


def read_packages(content: bytes, where: str) -> tuple[list[Package], list[str]]:
    """Return the packages of a JSON configuration, and what the user should know about it.

    Args:
        content: The text.
        where: Name of the file, for messages.

    Raises:
        ModelError: If it is no JSON, or breaks a rule of the form; all problems that there are.
    """
    scope = Scope(where)
    root = parse(content, where)
    packages: list[Package] = []
    with suppress(Stop):
        packages = _packages(root, scope)
    raise_all(scope.problems, where=where)
    return packages, scope.notices


def _packages(root: Node, scope: Scope) -> list[Package]:
    if not isinstance(root.value, Mapping):
        scope.report(
            root.line,
            f"a configuration has to be an object, found {kind_of(root)}",
            'write {"UdoPackage_0": {...}}',
        )
        return []
    found: list[Package] = []
    for key, member in root.value.items():
        if key in ("UDO_PACKAGE_PATH", "SNPE_UDO_ROOT") and isinstance(member.node.value, str):
            scope.notice(member.line, f"{key} changes nothing: {_OLD[key]}")
        elif key in _OWN and not isinstance(member.node.value, Mapping):
            problem = f"{key} does not stand inside of a package"
            scope.report(member.line, problem, 'write {"UdoPackage_0": {"Operators": [...], ...}}')
        else:
            found.append(_package(member.node, key, scope))
    if not found and not scope.problems:
        scope.report(
            root.line, "a configuration has no package", 'write {"UdoPackage_0": {"Operators": [...]}}'
        )
    return found


def _package(node: Node, key: str, scope: Scope) -> Package:
    fields = Fields(node, f"package {shown(key)}", scope, FIELDS)
    fields.need("UDO_PACKAGE_NAME", '"MyPackage"')
    fields.need("Operators", "[...]")
    name = fields.text("UDO_PACKAGE_NAME")
    named = fields.node("UDO_PACKAGE_NAME")
    if named is not None and named.value == "":
        scope.report(named.line, f"UDO_PACKAGE_NAME of {fields.what} is empty", 'write it like "MyPackage"')
    nodes = fields.items("Operators")
    array = fields.node("Operators")
    if array is not None and array.value == ():
        scope.report(array.line, f"Operators of {fields.what} is empty", "describe one operator at least")
    for old, reason in _OLD.items():
        if old in fields:
            fields.text(old)
            scope.notice(fields.line_of(old), f"{old} of {fields.what} changes nothing: {reason}")
    operators = tuple(operator_of(item, i, name or key, scope) for i, item in enumerate(nodes))
    domain = fields.text("xdlc_domain")
    version = fields.text("xdlc_version") or UNTOLD[1]
    tables = tables_of(fields) if "xdlc_supplements" in fields else _tables(operators)
    opdefs = tuple(operator.definition for operator in operators)
    lines = tuple(item.line for item in fields.items("xdlc_supplements"))
    collection = Collection(name, domain, version, opdefs, tables)
    return Package(collection, operators, fields.line_of("UDO_PACKAGE_NAME"), lines)


def _tables(operators: tuple[Operator, ...]) -> tuple[SupplementTable, ...]:
    """Return a table for each core that types of its own are given for."""
    tables = []
    for core in CORES:
        adds = [operator.supplements[core] for operator in operators if core in operator.supplements]
        adds = [op for op in adds if op.inputs or op.outputs or op.params]
        if adds:
            tables.append(SupplementTable(core, frozenset(), {op.name: (op,) for op in adds}))
    return tuple(tables)
