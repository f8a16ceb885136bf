"""Storage of UDO definitions and kernels in a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from xdlc import ir
from xdlc.container import udo
from xdlc.opdefs.model import Collection
from xdlc.opdefs.op_view import view_of
from xdlc.opdefs.source_match import Kernel, Udo, UdoSet


def store_definitions(model: ir.Model, custom: UdoSet) -> None:
    """Store the definitions of the UDOs of a model."""
    udo.add_definitions(model, _completed(custom.ops, custom.collections))


def _completed(ops: Sequence[Udo], collections: Mapping[str, Collection]) -> dict[str, Collection]:
    """Return the collections, with ops that are in none."""
    found = dict(collections)
    for op in ops:
        package = op.definition.package
        collection = found.get(package, Collection(package, package, "1.0", (), ()))
        if all(opdef.name != op.definition.name for opdef in collection.opdefs):
            found[package] = replace(collection, opdefs=(*collection.opdefs, op.definition))
    return found


def store_kernels(model: ir.Model, custom: UdoSet) -> None:
    """Store a kernel for each op whose plugin builds one; ops with the same kernel share it.

    Kernels are found by the names of their ops, so ops of one package and type get names of their own in all
    graphs of the model.

    Raises:
        XdlcError: If a kernel cannot be built.
    """
    makers = {(op.definition.package, op.definition.name): op for op in custom.ops if op.hooks is not None}
    if not makers:
        return
    found: dict[tuple[object, ...], tuple[Kernel, list[str]]] = {}
    names: set[str] = set()
    for graph, op, maker in _ops_of(model, makers):
        kernel = maker.hooks.build_kernel(view_of(op, maker.definition)) if maker.hooks else None
        if kernel is None:
            continue
        if op.name in names:
            graph.rename_op(op, _free_name(model, op.name))
        names.add(op.name)
        key = (op.package, op.type, udo.same_kernel(kernel))
        found.setdefault(key, (kernel, []))[1].append(op.name)
    for (package, type, _), (kernel, ops) in found.items():
        udo.add_kernel(model, str(package), str(type), ops, kernel)


def _ops_of(model: ir.Model, makers: Mapping[tuple[str, str], Udo]) -> Iterator[tuple[ir.Graph, ir.Op, Udo]]:
    """Yield the ops of a model that one of the makers defines, with their graphs and makers."""
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
