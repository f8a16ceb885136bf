"""Writes as JSON what only fields of ours can say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xdlc.opdefs.model import (
    Constraint,
    DescriptionPart,
    Reference,
    SupplementOp,
    SupplementTable,
    SupplementTensor,
)
from xdlc.udo.config.names import type_name


def described(parts: Iterable[DescriptionPart]) -> list[Any]:
    """Return a description, words as strings.

    Example:
        >>> described([DescriptionPart("Blurs."), DescriptionPart("y = x", is_code=True)])
        ['Blurs.', {'code': 'y = x'}]
    """
    return [{"code": part.text} if part.is_code else part.text for part in parts]


def constrained(rules: Iterable[Constraint]) -> list[dict[str, str]]:
    """Return constraints."""
    return [_filled({"id": rule.id, "type": rule.type, "text": rule.text}) for rule in rules]


def referenced(references: Iterable[Reference]) -> list[dict[str, str]]:
    """Return references."""
    return [_filled({"source": one.source, "url": one.url, "text": one.text}) for one in references]


def supplements(tables: Iterable[SupplementTable]) -> list[dict[str, Any]]:
    """Return what backends add."""
    return [
        {
            "backend": table.backend,
            "supported": sorted(table.supported),
            "Operators": [_op(op) for alternatives in table.ops.values() for op in alternatives],
        }
        for table in tables
    ]


def _op(op: SupplementOp) -> dict[str, Any]:
    sides = {"inputs": op.inputs, "outputs": op.outputs, "params": op.params}
    return {"type": op.name} | {side: _tensors(held) for side, held in sides.items() if held}


def _tensors(tensors: Mapping[str, SupplementTensor]) -> list[dict[str, Any]]:
    return [
        _filled(
            {
                "name": tensor.name,
                "data_types": [type_name(dtype) for dtype in tensor.dtypes],
                "tensor_layout": tensor.layout,
                "shape": tensor.text,
                "constraints": constrained(tensor.constraints),
                "only_default": tensor.only_default,
            }
        )
        for tensor in tensors.values()
    ]


def _filled(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value}
