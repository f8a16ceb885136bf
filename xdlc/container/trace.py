"""Record ``xdlc.trace``: source nodes of the ops, and source names of the tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.container.metadata import AGAIN, compact, object_of, read_json
from xdlc.errors import ContainerError
from xdlc.ir import Model, Origin

TRACE = "xdlc.trace"
TRACED = ("nodes", "tensors", "layers")
"""Keys of ``Model.metadata`` that the record holds beside the origins of ops."""
MAX_LAYER = 0x7FFFFFFF


def trace_text(model: Model) -> bytes | None:
    """Return the record of the ops' origins and of the source's nodes and tensor names, or None.

    Per graph and op, the source nodes: a step is ``[reason or null, node, node, ...]``; ops without an
    origin are omitted.  Per node: name, operator, and the reason why it has no op, or null.  Per
    graph and tensor, where they are not just its own name: the names that the source has for it.  Per op of a
    model translated from format 3: the id of its layer.  Returns None if none of these is known.
    """
    graphs: dict[str, dict[str, list[str | None]]] = {}
    for graph in model.graphs.values():
        steps = {
            op.name: [op.origin.reason, *op.origin.nodes]
            for op in graph.ops
            if op.origin.nodes or op.origin.reason is not None
        }
        if steps:
            graphs[graph.name] = steps
    known = {key: model.metadata[key] for key in TRACED if model.metadata.get(key)}
    if not graphs and not known:
        return None
    return compact({"version": 1, "graphs": graphs} | known)


def read_trace(data: memoryview, model: Model, where: str) -> None:
    """Add the content of an ``xdlc.trace`` record to ``model``: origins of ops, nodes and names.

    Raises:
        ContainerError: If the record does not have the form that ``trace_text`` writes.
    """
    found = object_of(read_json(data, where), where)
    if found.get("version") != 1:
        raise ContainerError(
            f"has version {found.get('version')!r}, only 1 is known", where=where, fix="upgrade xdlc"
        )
    _read_origins(object_of(found.get("graphs"), where), model, where)
    for key, value in _checked(found, where).items():
        if value:
            model.metadata[key] = value


def _read_origins(graphs: Mapping[str, Any], model: Model, where: str) -> None:
    for name, steps in graphs.items():
        steps = object_of(steps, where)
        graph = model.graphs.get(name)
        for op in graph.ops if graph else ():
            step = steps.get(op.name)
            if step is None:
                continue
            if not _is_step(step):
                raise ContainerError(f"has a malformed origin of op {op.name!r}", where=where, fix=AGAIN)
            op.origin = Origin(tuple(step[1:]), step[0])


def _checked(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values of ``TRACED``, of the types that they should have."""
    nodes = found.get("nodes", [])
    if not isinstance(nodes, list) or not all(map(_is_node, nodes)):
        raise ContainerError("has a malformed list of source nodes", where=where, fix=AGAIN)
    tensors = object_of(found.get("tensors", {}), where)
    for names in tensors.values():
        if not all(map(_is_names, object_of(names, where).values())):
            raise ContainerError("has a malformed list of tensor names", where=where, fix=AGAIN)
    layers = object_of(found.get("layers", {}), where)
    if not all(type(id) is int and 0 <= id <= MAX_LAYER for id in layers.values()):
        raise ContainerError(
            f"has a layer id that is no number from 0 to {MAX_LAYER}", where=where, fix=AGAIN
        )
    return dict(zip(TRACED, (nodes, tensors, layers), strict=True))


def _is_step(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and _is_reason(value[0]) and _is_names(value[1:])


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_node(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and _is_names(value[:2]) and _is_reason(value[2])


def _is_reason(value: Any) -> bool:
    return value is None or isinstance(value, str)
