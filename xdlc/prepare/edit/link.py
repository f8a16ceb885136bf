"""Graphs of several models in one model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.container import udo
from xdlc.container.metadata import add_step
from xdlc.errors import ConstraintError, UsageError, XdlcError, raise_all
from xdlc.ir import Graph, Model, string
from xdlc.opdefs.control_flow import GRAPH_PARAMS, is_control_flow, outer_graphs
from xdlc.opdefs.model import Collection
from xdlc.options import Notify, spell
from xdlc.runtime.plan import came_quantized

PORT_NOTES = ("layouts", "preprocessing", "symbols", "states")
"""Keys of ``Model.metadata`` that hold notes by the name of an input or output."""
GRAPH_NOTES = ("tensors", "weight_factors")
"""Keys of ``Model.metadata`` that hold notes by the name of the graph."""


def link(
    models: Mapping[str, Model],
    names: Mapping[str, str],
    *,
    stems: Mapping[str, str],
    notify: Notify,
) -> Model:
    """Return a model with the graphs of several models, in their order.

    Weights are not copied, and the writer of DLCs stores equal ones once.  Graphs of one name are
    named after their shapes if inputs differ in these only, else after their file.  Caches and other records
    of a whole model are dropped; definitions of UDOs are merged.

    Args:
        models: The models, by what messages call them.
        names: Names of the main graph of some of them, likewise.
        stems: Names for main graphs that have the same name as others, likewise.
        notify: Called with each notice: names that were chosen, and what was dropped.

    Raises:
        UsageError: If a model has no graph, or two graphs have one name and no other is known.
        ConstraintError: If notes on inputs and outputs, or definitions of UDOs, differ under one name.
    """
    mains = {place: _main(model, place, place in names) for place, model in models.items()}
    chosen = _chosen(mains, names, stems, notify)
    renamed = {place: _names_in(model, mains[place], chosen[place]) for place, model in models.items()}
    homes: dict[str, list[str]] = {}
    for place, own in renamed.items():
        for name in own.values():
            homes.setdefault(name, []).append(place)
    raise_all([_clash(name, places) for name, places in homes.items() if len(places) > 1])
    raise_all(list(_differing_notes(models)))
    linked = Model(metadata=_metadata(models, renamed, notify))
    for place, model in models.items():
        for name, graph in model.graphs.items():
            linked.add_graph(_renamed(graph, renamed[place][name], renamed[place]))
        if dropped := [name for name in model.records if not udo.is_about_udo(name)]:
            notify(f"{place}: xdlc dropped {', '.join(dropped)}, which belong to the whole model")
    if len({came_quantized(model) for model in models.values() if _is_quantized(model)}) > 1:
        notify(
            "some models have encodings from their sources, others from xdlc: the CPU rounds all models as "
            "HTP does"
        )
    udo.add_definitions(linked, _definitions(models))
    add_step(linked, "xdlc-link", {"graphs": ",".join(linked.graphs)})
    return linked


def _is_quantized(model: Model) -> bool:
    return any(tensor.encoding for graph in model.graphs.values() for tensor in graph.tensors.values())


def _main(model: Model, place: str, is_named: bool) -> Graph:
    graphs = outer_graphs(model)
    if not graphs:
        raise UsageError(
            "the model holds no graph, only records",
            where=place,
            fix="link the DLC that the caches came from",
        )
    if is_named and len(graphs) > 1:
        listed = ", ".join(graph.name for graph in graphs)
        raise UsageError(
            f"holds {len(graphs)} graphs, which have names: {listed}", where=place, fix="omit the new name"
        )
    return graphs[0]


def _chosen(
    mains: Mapping[str, Graph],
    names: Mapping[str, str],
    stems: Mapping[str, str],
    notify: Notify,
) -> dict[str, str]:
    """Return the name of each main graph."""
    chosen = {place: names.get(place, graph.name) for place, graph in mains.items()}
    for name, count in Counter(chosen.values()).items():
        places = [place for place in chosen if chosen[place] == name and place not in names]
        if count == 1 or not places:
            continue
        others = _by_shape(name, [mains[place] for place in places]) or [
            stems.get(place, name) for place in places
        ]
        for place, other in zip(places, others, strict=True):
            if other != name:
                chosen[place] = other
                notify(f"{place}: graph {name!r} is now {other!r}, because another graph has its name")
    return chosen


def _by_shape(name: str, graphs: Sequence[Graph]) -> list[str]:
    """Return names with the shapes of inputs; none if inputs differ otherwise."""
    sides = [{tensor.name: tensor.shape for tensor in graph.inputs} for graph in graphs]
    if len(graphs) < 2 or any(side.keys() != sides[0].keys() for side in sides):
        return []
    differing = [port for port in sides[0] if any(side[port] != sides[0][port] for side in sides)]
    labels = ["_".join([name, *("x".join(map(str, side[port])) for port in differing)]) for side in sides]
    return labels if len(set(labels)) == len(labels) else []


def _names_in(model: Model, main: Graph, name: str) -> dict[str, str]:
    """Return the new name of each graph; branches and bodies follow their caller."""
    outer = {graph.name for graph in outer_graphs(model)}
    names = {}
    for graph in model.graphs:
        is_inner = graph not in outer and name != main.name
        names[graph] = name if graph == main.name else f"{name}_{graph}" if is_inner else graph
    return names


def _clash(name: str, places: Sequence[str]) -> XdlcError:
    fix = f"give the graphs different names: {spell('link.names')}"
    return UsageError(f"two graphs are named {name!r}", where=", ".join(places), fix=fix)


def _renamed(graph: Graph, name: str, names: Mapping[str, str]) -> Graph:
    """Return a copy of a graph under a name, which runs graphs under their new names."""
    copy = graph.clone()
    copy.name = name
    for op in copy.ops:
        if is_control_flow(op):
            for key in GRAPH_PARAMS[op.type]:
                callee = op.param(key)
                if isinstance(callee, str):
                    op.params[key] = string(names.get(callee, callee))
    return copy


def _ports(model: Model) -> Iterator[str]:
    for graph in model.graphs.values():
        for tensor in (*graph.inputs, *graph.outputs):
            yield tensor.name


def _differing_notes(models: Mapping[str, Model]) -> Iterator[XdlcError]:
    """Yield an error for each port whose notes differ: a model has one note by name."""
    for key in PORT_NOTES:
        first: dict[str, tuple[str, Any]] = {}
        for place, model in models.items():
            notes = model.metadata.get(key, {})
            for port in dict.fromkeys(_ports(model)):
                origin, note = first.setdefault(port, (place, notes.get(port)))
                if note != notes.get(port):
                    yield ConstraintError(
                        f"{key} of {port!r} are {notes.get(port)!r}, but {note!r} in {origin}",
                        where=place,
                        fix=f"convert both models with the same options, or give {port!r} another name",
                    )


def _definitions(models: Mapping[str, Model]) -> dict[str, Collection]:
    """Return the UDO packages of all models."""
    packages: dict[str, Collection] = {}
    for place, model in models.items():
        for name, package in udo.definitions(model).items():
            merged = packages.get(name, package)
            opdefs = {opdef.name: opdef for opdef in merged.opdefs}
            for opdef in package.opdefs:
                if opdefs.setdefault(opdef.name, opdef) != opdef:
                    raise ConstraintError(
                        f"UDO {opdef.name!r} of package {name!r} has two different definitions",
                        where=place,
                        fix="convert the models with the same definition of the UDO",
                    )
            packages[name] = replace(merged, opdefs=tuple(opdefs.values()))
    return packages


def _metadata(
    models: Mapping[str, Model], renamed: Mapping[str, Mapping[str, str]], notify: Notify
) -> dict[str, Any]:
    """Return notes on graphs, inputs, outputs and ops of all models."""
    merged: dict[str, Any] = {key: {} for key in (*PORT_NOTES, "modules", *GRAPH_NOTES)}
    nodes: dict[tuple[Any, ...], None] = {}
    layers: dict[str, set[int]] = {}
    history: list[Any] = []
    for place, model in models.items():
        notes = model.metadata
        history += [step for step in notes.get("history", ()) if step not in history]
        nodes |= dict.fromkeys(map(tuple, notes.get("nodes", ())))
        for key in (*PORT_NOTES, "modules"):
            merged[key] |= notes.get(key, {})
        for key in GRAPH_NOTES:
            merged[key] |= {renamed[place].get(name, name): note for name, note in notes.get(key, {}).items()}
        for op, number in notes.get("layers", {}).items():
            layers.setdefault(op, set()).add(number)
    if any(len(numbers) > 1 for numbers in layers.values()):
        notify("xdlc drops layer ids, because the models have different layer ids")
        layers.clear()
    merged |= {"nodes": list(map(list, nodes)), "history": history}
    merged["layers"] = {op: number for op, numbers in layers.items() for number in numbers}
    return {key: value for key, value in merged.items() if value}
