"""Graphs that the child process has loaded: compiled from a model, or out of a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdlc.ir import Graph, Tensor
from xdlc.runtime.htp.backend import CompiledGraph, Htp
from xdlc.runtime.htp.binary_info import BinaryDescription
from xdlc.runtime.htp.graph_io import Port, read_feeds, results_of


@dataclass(frozen=True, slots=True)
class Runner:
    """A graph with what callers know of its inputs and outputs."""

    graph: CompiledGraph
    inputs: Sequence[Port]
    outputs: Sequence[Port]

    def run(self, folder: Path, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run on the arrays in ``folder``, store the results there, and return the answer that names them."""
        feeds = read_feeds(folder, self.inputs, request)
        results = [port.empty() for port in self.outputs]
        self.graph.execute(feeds, results)
        return results_of(folder, self.outputs, results, request)


class LoadedModel:
    """The graph of a model.

    Args:
        known: Inputs and outputs as they were before the graph was adapted to HTP.
        graph: The adapted graph.
        compiled: What became of it.
    """

    def __init__(self, known: Sequence[Tensor], graph: Graph, compiled: CompiledGraph) -> None:
        ports = list(map(Port, known, (*graph.inputs, *graph.outputs)))
        count = len(graph.inputs)
        self._runner = Runner(compiled, ports[:count], ports[count:])

    def runner(self, name: str | None) -> Runner:
        """Return the graph, which is the only one."""
        return self._runner


class LoadedCache:
    """The graphs of a context binary.

    Args:
        binary: The context binary.
        soc_id: The SoC to emulate; None for the one that the binary was made for.
        step: Called with what is about to happen.
    """

    def __init__(self, binary: bytes, soc_id: int | None, step: Any) -> None:
        step("describing the cache")
        self._description = BinaryDescription(binary)
        self._htp = Htp(soc_id or self._description.info.soc_model, step, binary)
        self._runners: dict[str | None, Runner] = {}

    def contents(self) -> dict[str, Any]:
        """Return the id of the SoC that the binary was made for, and the names of its graphs and ports."""
        info = self._description.info
        graphs = [info.graphs[index] for index in range(info.graph_count)]
        return {
            "soc_id": info.soc_model,
            "graphs": {
                _name(graph): [
                    [_name(graph.inputs[index]) for index in range(graph.input_count)],
                    [_name(graph.outputs[index]) for index in range(graph.output_count)],
                ]
                for graph in graphs
            },
        }

    def runner(self, name: str | None) -> Runner:
        """Return a graph; None stands for the only or first one.

        Raises:
            BackendError: If the binary holds no such graph.
        """
        if name not in self._runners:
            graph = self._description.graph(name)
            inputs = [graph.inputs[index] for index in range(graph.input_count)]
            outputs = [graph.outputs[index] for index in range(graph.output_count)]
            self._runners[name] = Runner(
                self._htp.retrieve(_name(graph), inputs, outputs),
                [Port.of_struct(tensor) for tensor in inputs],
                [Port.of_struct(tensor) for tensor in outputs],
            )
        return self._runners[name]


def _name(struct: Any) -> str:
    return (struct.name or b"").decode(errors="replace")
