"""Records of a DLC about UDOs: ``xdlc.udo.<package>`` is its OpDef XML.

A file may come from anyone: everything is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from xdlc.errors import ContainerError, XdlcError, each_problem, raise_all
from xdlc.ir import Model, Op, TensorData, raw_data
from xdlc.ir.graph import is_udo
from xdlc.opdefs.collections import reduced
from xdlc.opdefs.loader import MAX_XML_BYTES
from xdlc.opdefs.model import Collection, OpDef
from xdlc.opdefs.semantics import check_collection
from xdlc.opdefs.xml_reader import parse_collection
from xdlc.opdefs.xml_writer import write_collection

DEFINITIONS = "xdlc.udo."
_FIX = "convert the source model again"


def definitions(model: Model) -> dict[str, Collection]:
    """Return the UDO packages of a model, by name.

    Raises:
        ContainerError: If a record is damaged, or of another package than its name.
    """
    collections: dict[str, Collection] = {}
    for record, data in model.records.items():
        if record.startswith(DEFINITIONS):
            package = record.removeprefix(DEFINITIONS)
            collections[package] = _definitions(_read(data, record, MAX_XML_BYTES), record, package)
    return collections


def _read(data: TensorData, record: str, most: int) -> bytes:
    """Return the bytes of a record of a limited size."""
    if data.nbytes > most:
        problem = f"has {data.nbytes} bytes; xdlc supports at most {most}"
        raise ContainerError(problem, where=f"record {record!r}", fix=_FIX)
    return bytes(data.content())


@lru_cache(maxsize=64)
def _definitions(content: bytes, record: str, package: str) -> Collection:
    where = f"record {record!r}"
    try:
        collection = parse_collection(content, where)
    except XdlcError as error:
        problems = [f"{each.where}: {each.problem}".removeprefix(where) for each in each_problem(error)]
        raise ContainerError(
            f"holds no valid definitions: {'; '.join(problems).lstrip(': ')}",
            where=where,
            fix=_FIX,
        ) from error
    if collection.package != package:
        raise ContainerError(
            f"the record defines the ops of package {collection.package!r}, not of its own package",
            where=where,
            fix=_FIX,
        )
    return collection


def definition(model: Model, op: Op) -> OpDef | None:
    """Return the definition of a UDO in its model, or None.

    Raises:
        ContainerError: If the record of its package is damaged.
    """
    record = f"{DEFINITIONS}{op.package}"
    data = model.records.get(record)
    if data is None or not is_udo(op):
        return None
    collection = _definitions(_read(data, record, MAX_XML_BYTES), record, op.package)
    return next((entry for entry in collection.opdefs if entry.name == op.type), None)


def add_definitions(model: Model, collections: Mapping[str, Collection]) -> None:
    """Store the definitions of the UDOs of a model.

    Packages and ops that the model does not use are omitted; a package that is stored already is replaced.

    Raises:
        ModelError: If definitions break a rule, so that they could not be read again; a ProblemList of all.
    """
    used: dict[str, set[str]] = {}
    for graph in model.graphs.values():
        for op in graph.ops:
            if is_udo(op):
                used.setdefault(op.package, set()).add(op.type)
    for package, types in sorted(used.items()):
        collection = collections.get(package)
        if collection is not None:
            stored = reduced(collection, types)
            raise_all(check_collection(stored), where=f"package {package!r}")
            content = write_collection(stored).encode("utf-8")
            model.records[f"{DEFINITIONS}{package}"] = raw_data(content)


def is_about_udo(name: str) -> bool:
    """Return whether a record contains UDO definitions."""
    return name.startswith(DEFINITIONS)
