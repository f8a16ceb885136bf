"""Check that a network's first call is like all later ones, by running both on random numbers.

A network may make its state in its first call, where an empty tensor or a number marks that there is none.
The program of later calls then has zeros as its first state, which must have the same effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xdlc.converter.importer import convert_graph
from xdlc.converter.pytorch.exported import Program
from xdlc.converter.pytorch.frontend import FRONTEND
from xdlc.converter.pytorch.graph import source_graph
from xdlc.converter.pytorch.registry import aten
from xdlc.converter.pytorch.script.evaluation import Evaluation
from xdlc.converter.pytorch.script.values import Tensor
from xdlc.converter.pytorch.symbols import Bindings
from xdlc.converter.session.context import Source
from xdlc.errors import XdlcError

_RUNS = 2
_RELATIVE, _ABSOLUTE = 1e-3, 1e-5


def agree(first: Evaluation, later: Evaluation) -> bool:
    """Return whether a first call has the results of a later one, and leaves the same state."""
    try:
        pairs = zip(_results(first, later.ends), _results(later, later.ends), strict=True)
        return all(_close(*pair) for pair in pairs)
    except XdlcError:
        return False


def _close(first: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    return first.keys() == later.keys() and all(
        first[name].shape == later[name].shape and np.allclose(first[name], later[name], _RELATIVE, _ABSOLUTE)
        for name in first
    )


def _results(call: Evaluation, ends: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return outputs and ends of attributes of a call with its first state, for random inputs."""
    from xdlc.runtime.cpu import CpuSession  # loads onnxruntime

    program = call.program
    paths = [path for path in ends if isinstance(call.ends.get(path), Tensor)]
    graph = replace(
        program.graph, outputs=[*program.graph.outputs, *(call.ends[path].name for path in paths)]
    )
    names = [*program.outputs, *(f"{path}_next" for path in paths)]
    frozen: Program = replace(program, graph=graph, outputs=names, written={}, notices=[])
    made, _ = source_graph(frozen, Bindings(), frozen=True)
    source = Source("pytorch", program.path, unit="call")
    model = convert_graph(made, source, aten, FRONTEND.tool, {}, notify=lambda _: None)
    session = CpuSession(model, threads=1)
    random = np.random.default_rng(0)
    found = []
    for _ in range(_RUNS):
        feeds = {each.name: random.normal(size=each.shape) for each in model.main.inputs}
        feeds = {each.name: feeds[each.name].astype(each.dtype.numpy) for each in model.main.inputs}
        found.append(session.run(feeds))
    return found
