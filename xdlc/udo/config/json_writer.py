"""Writes packages as a JSON UDO configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdlc.opdefs.collections import UNTOLD
from xdlc.opdefs.model import Collection, OpDef, TensorDef
from xdlc.udo.config.diff import differences
from xdlc.udo.config.json_layout import laid_out
from xdlc.udo.config.names import backends_of, cores_of
from xdlc.udo.config.packages import read_packages
from xdlc.udo.config.writing_extension import described, referenced, supplements
from xdlc.udo.config.writing_tensors import Types, entry_of, types_of

_WRITTEN = "the JSON written"


def write_json(
    collections: Sequence[Collection],
    *,
    extended: bool = False,
    notify: Callable[[str], None] | None = None,
) -> str:
    """Return packages as a JSON UDO configuration.

    Args:
        collections: The packages.
        extended: Whether to keep what the vendor's form has no field for in fields of ours, ``xdlc_...``.
        notify: Is given a line for each part of which something is left out.

    Raises:
        ModelError: If an operation cannot be written: the vendor's form needs a data type for each core.
    """
    packages = {f"UdoPackage_{i}": _package(held, extended) for i, held in enumerate(collections)}
    text = laid_out(packages) + "\n"
    if notify is not None:
        read, _ = read_packages(text.encode(), _WRITTEN)
        for before, after in zip(collections, read, strict=True):
            for part, fields in differences(before, after.collection):
                notify(f"{part}: {', '.join(fields)} cannot be said in JSON")
    return text


def _package(collection: Collection, extended: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Operators": [_operator(op, collection, extended) for op in collection.opdefs],
        "UDO_PACKAGE_NAME": collection.package,
    }
    if not extended:
        return entry
    if collection.domain != UNTOLD[0]:
        entry["xdlc_domain"] = collection.domain
    if collection.version != UNTOLD[1]:
        entry["xdlc_version"] = collection.version
    read, _ = read_packages(laid_out({"": entry}).encode(), _WRITTEN)
    if read[0].collection.supplements != collection.supplements:
        entry["xdlc_supplements"] = supplements(collection.supplements)
    return entry


def _operator(op: OpDef, collection: Collection, extended: bool) -> dict[str, Any]:
    tables = [table for table in collection.supplements if op.name in table.supported or op.name in table.ops]
    listed = (table.backend for table in tables if op.name in table.supported)
    cores, archs = cores_of((*op.backends, *listed))
    types = Types(op.name, cores or ["CPU"], tables, extended)
    entry: dict[str, Any] = {
        "type": op.name,
        "inputs": _entries(op.inputs if extended else _without_gaps(op.inputs), "inputs", types),
        "outputs": _entries(op.outputs, "outputs", types),
        "scalar_params": _entries(
            [param for param in op.params.values() if param.is_scalar], "params", types
        ),
        "tensor_params": _entries(
            [param for param in op.params.values() if not param.is_scalar], "params", types
        ),
        "core_types": types.cores,
        "dsp_arch_types": archs,
    }
    if extended:
        entry["xdlc_description"] = described(op.description)
        entry["xdlc_references"] = referenced(op.references)
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
    """Return inputs without the defaults that stand before one that plain JSON makes mandatory.

    Without fields of ours an input is optional only by its default.
    """
    last = max((i for i, entry in enumerate(inputs) if entry.default is None), default=-1)
    return [replace(entry, default=None) if i < last else entry for i, entry in enumerate(inputs)]


def _entries(parts: Sequence[TensorDef], side: str, types: Types) -> list[dict[str, Any]]:
    return [entry_of(part, types_of(part, side, types), types.extended) for part in parts]
