"""Packages as the text of a JSON UDO configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.opdefs.collections import UNSTATED
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, SupplementTable, TensorDef
from xdlc.udo.config.defaults import Raw, differences
from xdlc.udo.config.members import DESCRIPTION, REFERENCES, SUPPLEMENT, backends_of, cores_of, written
from xdlc.udo.config.packages import read_packages
from xdlc.udo.config.tensors import Types, written_part

_WRITTEN = "the JSON written"
_WIDTH = 110


def write_json(
    collections: Sequence[Collection],
    *,
    extended: bool = False,
    notify: Callable[[str], None] | None = None,
) -> str:
    """Return packages as the text of a JSON UDO configuration.

    Args:
        extended: Whether fields of xdlc's own, ``xdlc_...``, keep what the vendor's form has no field for.
        notify: Called with a line for each part that is not written in full.

    Raises:
        ModelError: If an operation cannot be written: the vendor's form needs a data type for each core.
    """
    packages = {f"UdoPackage_{i}": _package(held, extended) for i, held in enumerate(collections)}
    text = laid_out(packages) + "\n"
    if notify is not None:
        read, _ = read_packages(text.encode(), _WRITTEN)
        for before, after in zip(collections, read, strict=True):
            for part, fields in differences(before, after.collection):
                notify(f"{part}: JSON cannot express {', '.join(fields)}")
    return text


def _package(collection: Collection, extended: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Operators": [_operator(op, collection, extended) for op in collection.opdefs],
        "UDO_PACKAGE_NAME": collection.package,
    }
    if not extended:
        return entry
    if collection.domain != UNSTATED[0]:
        entry["xdlc_domain"] = collection.domain
    if collection.version != UNSTATED[1]:
        entry["xdlc_version"] = collection.version
    read, _ = read_packages(laid_out({"": entry}).encode(), _WRITTEN)
    if read[0].collection.supplements != collection.supplements:
        entry["xdlc_supplements"] = _supplements(collection.supplements)
    return entry


def _operator(op: OpDef, collection: Collection, extended: bool) -> dict[str, Any]:
    tables = [table for table in collection.supplements if op.name in table.supported or op.name in table.ops]
    listed = (table.backend for table in tables if op.name in table.supported)
    cores, archs = cores_of((*op.backends, *listed))
    types = Types(op.name, cores or ["CPU"], tables, extended)

    def entries(parts: Iterable[TensorDef], side: str) -> list[dict[str, Any]]:
        return [written_part(part, side, types) for part in parts]

    entry: dict[str, Any] = {
        "type": op.name,
        "inputs": entries(op.inputs if extended else _without_gaps(op.inputs), "inputs"),
        "outputs": entries(op.outputs, "outputs"),
        "scalar_params": entries((param for param in op.params.values() if param.is_scalar), "params"),
        "tensor_params": entries((param for param in op.params.values() if not param.is_scalar), "params"),
        "core_types": types.cores,
        "dsp_arch_types": archs,
    }
    if extended:
        entry["xdlc_description"] = DESCRIPTION.write(op.description)
        entry["xdlc_references"] = REFERENCES.write(op.references)
    always = ("type", "inputs", "outputs", "core_types")
    entry = {name: value for name, value in entry.items() if value or name in always}
    if extended and op.use_default_translation:
        entry["xdlc_use_default_translation"] = True
    if extended and list(op.params) != sorted(op.params, key=lambda name: not op.params[name].is_scalar):
        entry["xdlc_order"] = list(op.params)
    if extended and op.backends != backends_of(types.cores, archs):
        entry["xdlc_backends"] = list(op.backends)
    return entry


def _without_gaps(inputs: Sequence[TensorDef]) -> list[TensorDef]:
    """Return inputs without defaults before a mandatory input, as the vendor requires.

    For the vendor, an input is optional only if it has a default.
    """
    last = max((i for i, entry in enumerate(inputs) if entry.default is None), default=-1)
    return [replace(entry, default=None) if i < last else entry for i, entry in enumerate(inputs)]


def _supplements(tables: Iterable[SupplementTable]) -> list[dict[str, Any]]:
    return [
        {
            "backend": table.backend,
            "supported": sorted(table.supported),
            "Operators": [_supplement(op) for alternatives in table.ops.values() for op in alternatives],
        }
        for table in tables
    ]


def _supplement(op: SupplementOp) -> dict[str, Any]:
    sides = {"inputs": op.inputs, "outputs": op.outputs, "params": op.params}
    return {"type": op.name} | {
        side: [written(row, SUPPLEMENT) for row in rows.values()] for side, rows in sides.items() if rows
    }


def laid_out(value: Any, indent: int = 0) -> str:
    """Return a value as JSON, with one line for each input, output and parameter.

    Args:
        value: Mappings, sequences, strings, numbers, truth values, None and ``Raw``.
        indent: Number of blanks at the start of the line.

    Example:
        >>> print(laid_out({"inputs": [{"name": "a", "static": True}], "core_types": ["CPU", "DSP"]}))
        {
            "inputs": [
                {"name": "a", "static": true}
            ],
            "core_types": ["CPU", "DSP"]
        }
    """
    line = None if _holds_objects(value) or indent == 0 else _inline(value)
    if line is not None and (len(line) + indent <= _WIDTH or not isinstance(value, Mapping | list | tuple)):
        return line
    pad = " " * (indent + 4)
    if isinstance(value, Mapping):
        members = [f"{pad}{_string(key)}: {laid_out(item, indent + 4)}" for key, item in value.items()]
        return _block("{", members, "}", indent)
    if isinstance(value, list | tuple):
        return _block("[", [pad + laid_out(item, indent + 4) for item in value], "]", indent)
    return _inline(value)


def _block(opening: str, members: Sequence[str], closing: str, indent: int) -> str:
    if not members:
        return opening + closing
    return "\n".join([opening, ",\n".join(members), " " * indent + closing])


def _holds_objects(value: Any) -> bool:
    """Return whether an array in the value contains objects."""
    if isinstance(value, Mapping):
        return any(_holds_objects(item) for item in value.values())
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)


def _inline(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_string(key)}: {_inline(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    return _string(value)


def _string(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
