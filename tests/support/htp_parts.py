"""What tests of models in parts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.running import run_htp
from xdlc.container import cache_provenance
from xdlc.ir import Model
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.partition_schedule import partition_graph, schedule


def parts_of(model: Model, record: str) -> dict[str, tuple[str, ...]]:
    """Return the ops of each part of a cache."""
    facts = cache_provenance.read(model)[record].graphs
    return {name: graph.ops for name, graph in facts.items() if graph.ops is not None}


def in_segments(
    model: Model, parts: Mapping[str, tuple[str, ...]], feeds: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a model with its parts as composed HTP graphs; return all values that cross."""
    values = dict(feeds)
    for name, ops in schedule(model.main, parts):
        graph = partition_graph(model.main, [op.name for op in ops], name or model.main.name)
        graph_inputs = {tensor.name: values[tensor.name] for tensor in graph.inputs}
        if name is None:
            whole = Model({graph.name: graph, **without(model, graph.name)}, model.metadata)
            results = CpuSession(whole).run(graph_inputs, native=True)
        else:
            results = run_htp(graph, graph_inputs, native=True)
        for tensor in graph.outputs:
            values[tensor.name] = results[tensor.name].astype(tensor.dtype.numpy)
    return values


def without(model: Model, name: str) -> dict[str, Any]:
    """Return the other graphs of a model."""
    return {key: graph for key, graph in model.graphs.items() if key != name}
