"""Backend-merged definitions: types and layouts that a definition leaves to its backends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from xdlc.errors import ModelError
from xdlc.opdefs.backend_view import resolve
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, SupplementTensor, TensorDef
from xdlc.opdefs.source_match import Udo, UdoSet

BACKEND_SPECIFIC = "BACKEND_SPECIFIC"
D = TypeVar("D", bound=TensorDef)


def merged(custom: Udo, collection: Collection | None) -> Udo:
    """Return an op with the types and layouts that its package states for its backends.

    A model is converted for all backends at once: of types that differ between them all are allowed, a
    layout counts if those that state one agree.

    Args:
        custom: The op.
        collection: Its package.
    """
    definition = custom.definition
    tables = collection.supplements if collection is not None else ()
    rows = [row for table in tables for row in table.ops.get(definition.name, ())]
    if not rows:
        return custom
    made = replace(
        definition,
        inputs=tuple(_tensor(entry, _of(rows, "inputs", entry.name)) for entry in definition.inputs),
        outputs=tuple(_tensor(entry, _of(rows, "outputs", entry.name)) for entry in definition.outputs),
        params={name: _tensor(entry, _of(rows, "params", name)) for name, entry in definition.params.items()},
    )
    return replace(custom, definition=made)


def backend_forms(custom: UdoSet) -> dict[tuple[str, str], list[OpDef]]:
    """Return the definitions by package and type, each in the forms of its backends."""
    return {
        (op.definition.package, op.definition.name): _forms(
            op.definition, custom.collections.get(op.definition.package)
        )
        for op in custom.ops
    }


def _forms(definition: OpDef, collection: Collection | None) -> list[OpDef]:
    found: list[OpDef] = []
    tables = collection.supplements if collection is not None else ()
    for name in dict.fromkeys(table.backend for table in tables if definition.name in table.ops):
        assert collection is not None  # it has tables
        with contextlib.suppress(ModelError):  # narrower backends resolve what it leaves open
            found.append(resolve(definition, collection, name))
    return found or [definition]


def _of(rows: Iterable[SupplementOp], side: str, name: str) -> list[SupplementTensor]:
    sides: Iterable[Mapping[str, SupplementTensor]] = (getattr(row, side) for row in rows)
    return [tensors[name] for tensors in sides if name in tensors]


def _tensor(entry: D, supplements: list[SupplementTensor]) -> D:
    dtypes = entry.dtypes or tuple(dict.fromkeys(dtype for each in supplements for dtype in each.dtypes))
    layouts = {each.layout for each in supplements if each.layout}
    layout = entry.layout
    if layout == BACKEND_SPECIFIC:
        layout = layouts.pop() if len(layouts) == 1 else ""
    return replace(entry, dtypes=dtypes, layout=layout)
