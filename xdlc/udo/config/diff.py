"""Differences of a package between two forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdlc.ir.dtype import DType
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import Collection, OpDef, SupplementTensor, TensorDef
from xdlc.udo.config.names import cores_of

Key = tuple[str, str, str, str]

_TENSOR = {
    "mandatory": "Mandatory",
    "dtypes": "Datatype",
    "rank": "Rank",
    "text": "Shape Text",
    "layout": "Layout",
    "constraints": "Constraint",
    "default": "Default",
    "repeated": "Repeated",
    "is_static": "IsStaticTensor",
    "enumeration": "Enumeration",
    "description": "Description",
}
_OP = {
    "description": "Description",
    "references": "Reference",
    "use_default_translation": "UseDefaultTranslation",
    "backends": "SupportedBackend",
}
_SUPPLEMENT = {
    "dtypes": "Datatype",
    "layout": "Layout",
    "text": "Shape Text",
    "constraints": "Constraint",
    "only_default": "OnlyDefaultSupported",
}


def differences(before: Collection, after: Collection) -> Iterator[tuple[str, list[str]]]:
    """Yield each changed part, with the names that OpDef XML has for the change.

    Args:
        after: The same in another form: with the same operations, inputs, outputs and parameters.
    """
    title = f"package {before.package!r}"
    if fields := _changed(before, after, {"domain": "Domain", "version": "Version"}):
        yield title, fields
    for old, new in zip(before.opdefs, after.opdefs, strict=True):
        yield from _op(old, new, before, after)
    rows = list(_supplements(after))
    kept = {key: row for _, key, row in rows}
    same = {(backend, key): row for backend, key, row in rows}
    for backend, key, row in _supplements(before):
        other = same.get((backend, key)) or kept.get(key) or _implied(key, row, after)
        if fields := _changed(row, other, _SUPPLEMENT):
            _, op, side, name = key
            yield f"{side} {name!r} of operator {op!r}, supplement for {backend}", fields


def _supplements(collection: Collection) -> Iterator[tuple[str, Key, SupplementTensor]]:
    """Yield rows of supplements with backend, core, operator, side and name."""
    for table in collection.supplements:
        core = (cores_of((table.backend,))[0] or [table.backend])[0]
        for op in (op for alternatives in table.ops.values() for op in alternatives):
            for side, rows in (("input", op.inputs), ("output", op.outputs), ("parameter", op.params)):
                for name, row in rows.items():
                    yield table.backend, (core, op.name, side, name), row


def _implied(key: Key, row: SupplementTensor, collection: Collection) -> SupplementTensor:
    """Return the definition's defaults for the fields that the row states."""
    _, op, side, name = key
    definition = next((held for held in collection.opdefs if held.name == op), None)
    dtypes: tuple[DType, ...] = ()
    if definition is not None and row.dtypes:
        sides = {
            "input": definition.inputs,
            "output": definition.outputs,
            "parameter": definition.params.values(),
        }
        dtypes = next((tensor.dtypes for tensor in sides[side] if tensor.name == name), ())
    return SupplementTensor(name, dtypes)


def _op(old: OpDef, new: OpDef, before: Collection, after: Collection) -> Iterator[tuple[str, list[str]]]:
    title = f"operator {old.name!r}"
    fields = [
        name
        for field, name in _OP.items()
        if field != "backends" and getattr(old, field) != getattr(new, field)
    ]
    if _offered(old, before) != _offered(new, after):
        fields.append("SupportedBackend")
    if list(old.params) != list(new.params):
        fields.append("order of Parameters")
    if fields:
        yield title, fields
    pairs = [("input", *pair) for pair in zip(old.inputs, new.inputs, strict=True)]
    pairs += [("output", *pair) for pair in zip(old.outputs, new.outputs, strict=True)]
    pairs += [("parameter", param, new.params[name]) for name, param in old.params.items()]
    for side, tensor, other in pairs:
        if changed := [
            name for name in _changed(tensor, other, _TENSOR) if name != "Default" or _unlike(tensor, other)
        ]:
            yield f"{side} {tensor.name!r} of {title}", changed


def _unlike(tensor: TensorDef, other: TensorDef) -> bool:
    """Return whether defaults differ in more than how they are written."""
    try:
        return bool(default_value(tensor) != default_value(other))
    except ValueError:
        return True


def _changed(old: Any, new: Any, names: dict[str, str]) -> list[str]:
    return [name for field, name in names.items() if getattr(old, field, None) != getattr(new, field, None)]


def _offered(op: OpDef, collection: Collection) -> set[str]:
    return {*op.backends, *(table.backend for table in collection.supplements if op.name in table.supported)}
