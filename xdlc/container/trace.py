"""Record ``xdlc.trace``: source nodes of the ops, and source names of the tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.container.metadata import AGAIN, compact, formed, read_json
from xdlc.errors import ContainerError
from xdlc.ir import Model, Origin
from xdlc.ir.model import NOTE
from xdlc.json_fields import fits

TRACE = "xdlc.trace"
TRACED = ("nodes", "tensors", "weight_factors", "layers")
"""Keys of ``Model.metadata`` that the record holds beside the origins of ops."""


def trace_text(model: Model) -> bytes | None:
    """Return the record of op origins, source nodes and tensor names, or None.

    Per graph and op, the source nodes: a step is ``[reason or null, node, node, ...]``; ops without an
    origin are omitted.  Per node: name, operator, and the reason why it has no op, or null.  Per
    graph and tensor, where they are not just its own name: the names that the source has for it; of a weight
    with other values than the source's the factor of each output channel.  Per op of a model translated from
    format 3: the id of its layer.  Returns None if none of these is known.
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
    """Add origins of ops, nodes and names from an ``xdlc.trace`` record to ``model``.

    Raises:
        ContainerError: If the record does not have the form that ``trace_text`` writes.
    """
    content = read_json(data, {"graphs": {"*": dict}}, where)
    if content.get("version") != 1:
        raise ContainerError(
            f"has version {content.get('version')!r}, only 1 is known", where=where, fix="upgrade xdlc"
        )
    _read_origins(content.get("graphs", {}), model, where)
    held = formed({key: content[key] for key in TRACED if key in content}, where)
    model.metadata |= {key: value for key, value in held.items() if value}


def _read_origins(graphs: Mapping[str, Any], model: Model, where: str) -> None:
    for name, steps in graphs.items():
        graph = model.graphs.get(name)
        for op in graph.ops if graph else ():
            step = steps.get(op.name)
            if step is None:
                continue
            if not (fits(step, [NOTE]) and step and None not in step[1:]):
                raise ContainerError(f"has a malformed origin of op {op.name!r}", where=where, fix=AGAIN)
            op.origin = Origin(tuple(step[1:]), step[0])
