"""UDO definitions of a conversion: merged over backends, stored in the model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from xdlc import ir
from xdlc.container import udo
from xdlc.errors import ModelError
from xdlc.opdefs.backend_view import resolve
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, SupplementTensor, TensorDef
from xdlc.opdefs.op_view import view_of
from xdlc.opdefs.source_match import Udo, UdoSet
from xdlc.runtime.udo.kernel_files import Call, call_key, kernel_files, params_of, shapes_of

BACKEND_SPECIFIC = "BACKEND_SPECIFIC"
D = TypeVar("D", bound=TensorDef)


def merged(custom: Udo, collection: Collection | None) -> Udo:
    """Return an op with the types and layouts that its package states.

    A model is converted for all backends at once: of types that differ between them all are allowed, a
    layout counts if those that state one agree.
    """
    definition = custom.definition
    tables = collection.supplements if collection is not None else ()
    rows = [row for table in tables for row in table.ops.get(definition.name, ())]
    if not rows:
        return custom
    form = replace(
        definition,
        inputs=tuple(_tensor(entry, _of(rows, "inputs", entry.name)) for entry in definition.inputs),
        outputs=tuple(_tensor(entry, _of(rows, "outputs", entry.name)) for entry in definition.outputs),
        params={name: _tensor(entry, _of(rows, "params", name)) for name, entry in definition.params.items()},
    )
    return replace(custom, definition=form)


def backend_forms(custom: UdoSet) -> dict[tuple[str, str], list[OpDef]]:
    """Return the definitions by package and type, each in the forms of its backends."""
    return {
        (op.definition.package, op.definition.name): _forms(
            op.definition, custom.collections.get(op.definition.package)
        )
        for op in custom.ops
    }


def _forms(definition: OpDef, collection: Collection | None) -> list[OpDef]:
    forms: list[OpDef] = []
    tables = collection.supplements if collection is not None else ()
    for name in dict.fromkeys(table.backend for table in tables if definition.name in table.ops):
        assert collection is not None  # it has tables
        with contextlib.suppress(ModelError):  # narrower backends resolve what it leaves open
            forms.append(resolve(definition, collection, name))
    return forms or [definition]


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


def store_definitions(model: ir.Model, custom: UdoSet) -> None:
    """Store the definitions of the UDOs of a model."""
    udo.add_definitions(model, _completed(custom.ops, custom.collections))


def _completed(ops: Sequence[Udo], collections: Mapping[str, Collection]) -> dict[str, Collection]:
    """Return the collections, with ops that are in none."""
    completed = dict(collections)
    for op in ops:
        package = op.definition.package
        collection = completed.get(package, Collection(package, package, "1.0", (), ()))
        if all(opdef.name != op.definition.name for opdef in collection.opdefs):
            completed[package] = replace(collection, opdefs=(*collection.opdefs, op.definition))
    return completed


def add_kernel_files(model: ir.Model, custom: UdoSet) -> None:
    """Add the files of the kernels that plugins build; equal calls share one.

    Kernels are found by the names of their ops, so ops of one package and type get names of their own in all
    graphs of the model.

    Raises:
        XdlcError: If a kernel cannot be built.
    """
    makers = {(op.definition.package, op.definition.name): op for op in custom.ops if op.build_kernel}
    calls: dict[tuple[str, bytes], Call] = {}
    names: set[str] = set()
    for graph, op, maker in _ops_of(model, makers):
        kernel = maker.build_kernel(view_of(op, maker.definition)) if maker.build_kernel else None
        if kernel is None:
            continue
        if op.name in names:
            graph.rename_op(op, _free_name(model, op.name))
        names.add(op.name)
        call = Call(op.package, op.type, (op.name,), shapes_of(op), params_of(op), kernel)
        same = calls.setdefault(call_key(call), call)
        if same is not call:
            calls[call_key(call)] = replace(same, ops=(*same.ops, op.name))
    model.files |= kernel_files(calls.values())


def _ops_of(model: ir.Model, makers: Mapping[tuple[str, str], Udo]) -> Iterator[tuple[ir.Graph, ir.Op, Udo]]:
    """Yield the ops that one of the UDOs defines, with their graph and UDO."""
    for graph in model.graphs.values():
        for op in graph.ops:
            maker = makers.get((op.package, op.type))
            if maker is not None:
                yield graph, op, maker


def _free_name(model: ir.Model, name: str) -> str:
    number = 1
    while any(graph.unique_name(f"{name}_{number}") != f"{name}_{number}" for graph in model.graphs.values()):
        number += 1
    return f"{name}_{number}"
