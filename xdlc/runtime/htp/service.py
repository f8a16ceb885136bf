"""Service of ``xdlc.worker`` with the vendor's libraries: one SoC, one process."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xdlc import passes
from xdlc.container import load
from xdlc.errors import ConstraintError, XdlcError, each_problem, raise_all
from xdlc.ir import Graph, Model
from xdlc.opdefs.control_flow import reachable
from xdlc.runtime.dynamic_dims import open_problem
from xdlc.runtime.htp.backend import CompiledGraph, Htp, build_id, reads_inputs
from xdlc.runtime.htp.binary_info import BinaryDescription
from xdlc.runtime.htp.graph_io import GraphIO, as_known, stored_feeds
from xdlc.runtime.htp.library import check_folder
from xdlc.runtime.htp.options import SHARED_CACHE, TRACED, CompileOptions
from xdlc.runtime.htp.unsupported_op import host_problems, is_host_only
from xdlc.targets import find_soc
from xdlc.worker import content
from xdlc.worker.content import words_of
from xdlc.worker.limits import watch_memory
from xdlc.worker.temporary import temporary_files

Array = Any  # numpy.ndarray
Step = Callable[[str], None]
Command = Callable[[dict[str, Any], list[int], Step], dict[str, Any]]


def commands() -> dict[str, Any]:
    """Return the functions of the process by request."""
    service = _Service()
    by_name: dict[str, Command] = {
        "build": _build,
        "compile": _compile,
        "compile_and_keep": service.compile,
        "describe": _describe,
        "trace": _trace,
        "validate": _validate,
        "open": service.open,
        "execute": service.execute,
    }
    return {"load": _load} | {name: service.watched(command) for name, command in by_name.items()}


class _Service:
    """State shared by requests: last step, watch of memory, graphs of ``open``."""

    def __init__(self) -> None:
        self._note = -1
        self._is_watched = False
        self._runner: Callable[[str | None], Runner] | None = None

    def watched(self, command: Command) -> Callable[[dict[str, Any], list[int]], dict[str, Any]]:
        """Return a command that notes its steps in its first file."""

        def run(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
            if not self._is_watched:  # a copy of the process starts a thread of its own
                watch_memory()
                self._is_watched = True
            self._note, *others = files
            try:
                check_folder(request["library"])
                with temporary_files():
                    return command(request, others, self._step)
            finally:
                for file in files:
                    os.close(file)

        return run

    def _step(self, text: str) -> None:
        written = os.pwrite(self._note, text.encode(), 0)
        os.ftruncate(self._note, written)

    def open(self, request: dict[str, Any], files: list[int], step: Step) -> dict[str, Any]:
        """Load a cache, or compile a graph of a model."""
        if files:
            with open(files[0], "rb", closefd=False) as cache:
                cache.seek(0)
                loaded = LoadedCache(cache.read(), request["soc_id"], step)
            self._runner = loaded.runner
            return {"contents": loaded.contents()}
        if request.get("options"):
            htp, graphs, objections = _compiled(request, step)
            if objections is not None:
                return objections
            return {"contents": self._held(graphs, request["soc_id"])}
        model = _model(request, step)
        graph = model.graph_named(request["graph"])
        ports = [as_known(tensor) for tensor in (*graph.inputs, *graph.outputs)]
        needed = reachable(graph, model.graphs)
        _adapt(needed)
        _suit(needed, request["soc_id"])
        htp = Htp(request["soc_id"], step)
        objections = _objections(htp, needed, model, request)
        if objections is not None:
            return objections
        ios = list(map(GraphIO, ports, (*graph.inputs, *graph.outputs)))
        count = len(graph.inputs)
        runner = Runner(htp.compile(graph, CompileOptions()), ios[:count], ios[count:])
        self._runner = lambda _name: runner
        return {}

    def _held(self, graphs: dict[str, CompiledGraph], soc_id: int) -> dict[str, Any]:
        """Keep compiled graphs for runs; return the SoC, and names, as of a cache."""
        runners = {
            name: Runner(
                graph, [*map(GraphIO.of_struct, graph.inputs)], [*map(GraphIO.of_struct, graph.outputs)]
            )
            for name, graph in graphs.items()
        }
        self._runner = lambda name: runners[name or next(iter(runners))]
        names = {
            name: [[io.tensor.name for io in side] for side in (runner.inputs, runner.outputs)]
            for name, runner in runners.items()
        }
        return {"soc_id": soc_id, "graphs": names}

    def compile(self, request: dict[str, Any], files: list[int], step: Step) -> dict[str, Any]:
        """Compile the graphs of a model, write their cache, and keep them for runs."""
        answer, graphs = _written(request, step)
        return answer | {"contents": self._held(graphs, request["soc_id"])}

    def execute(self, request: dict[str, Any], files: list[int], step: Step) -> dict[str, Any]:
        """Run a graph on the arrays of a file; store the results in their place."""
        assert self._runner is not None
        (file,) = files
        feeds = dict(zip(request["inputs"], content.read_arrays(file, request["arrays"]), strict=True))
        outputs = self._runner(request["graph"]).run(feeds, native=request["native"])
        return {"outputs": list(outputs), "arrays": content.write_arrays(file, outputs.values())}


def _model(request: dict[str, Any], step: Step) -> Model:
    step("reading the model")
    return load(request["model"])


def _adapt(graphs: Iterable[Graph]) -> None:
    """Rewrite graphs to the form of HTP, of all SoCs but for ``_suit``."""
    problems: list[XdlcError] = []
    for graph in graphs:
        try:
            passes.run(graph, passes.stage("htp"))
        except XdlcError as error:
            problems += each_problem(error)
    raise_all(problems)


def _suit(graphs: Iterable[Graph], soc_id: int) -> None:
    """Expand integer weights of float products where the SoC lacks them."""
    if find_soc(soc_id).capabilities.float_blocks:
        return
    expand = passes.find("dequantize_weights").with_options(refused_only=False)
    for graph in graphs:
        expand.apply(graph)


def _unsupported(htp: Htp, graphs: Iterable[Graph], request: dict[str, Any]) -> list[dict[str, Any]]:
    skip = frozenset(tuple(pair) for pair in request["skip"])
    return [asdict(op) for graph in graphs for op in htp.validate(graph, skip)]


def _objections(
    htp: Htp, graphs: Sequence[Graph], model: Model, request: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the answer with unsupported ops and problems; None if there are none."""
    unbound = open_problem(model)
    if unbound is not None:  # one problem instead of one for each op that follows
        unbound.where = f"graph {model.main.name!r}"
        return {"problems": [words_of(unbound)]}
    skip = request["skip"] + [
        (graph.name, op.name) for graph in graphs for op in graph.ops if is_host_only(op)
    ]
    unsupported = _unsupported(htp, graphs, {**request, "skip": skip})
    ops = {(op["graph"], op["op"]) for op in unsupported}
    problems = [words_of(problem) for problem in host_problems(graphs, model, ops)]
    return {"unsupported": unsupported, "problems": problems} if unsupported or problems else None


def _validate(request: dict[str, Any], files: list[int], step: Step) -> dict[str, Any]:
    model = _model(request, step)
    for graph in model.graphs.values():
        passes.run(graph, passes.htp_query())
    _suit(model.graphs.values(), request["soc_id"])
    return {"unsupported": _unsupported(Htp(request["soc_id"], step), model.graphs.values(), request)}


def _build(request: dict[str, Any], files: list[int], step: Step) -> dict[str, Any]:
    return {"build": build_id()}


def _describe(request: dict[str, Any], files: list[int], step: Step) -> dict[str, Any]:
    step("describing the context binary")
    with open(files[0], "rb", closefd=False) as file:
        file.seek(0)
        return {"entry": BinaryDescription(file.read()).entry()}


def _load(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    """Load a model for copies of this process; the copies report its errors."""
    with contextlib.suppress(XdlcError):
        model = load(request["model"])
        _adapt(model.graphs.values())
        _READY[request["model"]] = model
    gc.collect()
    gc.freeze()  # a collection in a copy would touch, and so copy, every page of it
    return {}


_READY: dict[str, Model] = {}
"""Adapted models that the process had before it was copied, by path."""


def _adapted(request: dict[str, Any], step: Step) -> Model:
    if request["model"] not in _READY:
        model = _model(request, step)
        _adapt(model.graphs.values())
    else:
        model = _READY[request["model"]]
    _suit(model.graphs.values(), request["soc_id"])
    return model


def _compile(request: dict[str, Any], files: list[int], step: Step) -> dict[str, Any]:
    return _written(request, step)[0]


def _written(request: dict[str, Any], step: Step) -> tuple[dict[str, Any], dict[str, CompiledGraph]]:
    """Compile the graphs of a model and write their cache; return its entry and them."""
    folder = Path(request["folder"])
    htp, graphs, objections = _compiled(request, step)
    if objections is not None:
        return objections, {}
    is_shared = request["options"]["share_weights"]
    binary = htp.shared_cache(folder / SHARED_CACHE) if is_shared else htp.binary()
    with open(folder / "cache.bin", "wb") as file:
        file.write(memoryview(binary))
    step("describing the cache")
    return {"entry": BinaryDescription(binary).entry()}, graphs


def _compiled(
    request: dict[str, Any], step: Step
) -> tuple[Htp, dict[str, CompiledGraph], dict[str, Any] | None]:
    """Compile all graphs of a model in one context; return the graphs or a refusal."""
    model, options = _adapted(request, step), CompileOptions(**request["options"])
    arch = find_soc(request["soc_id"]).arch if options.arch_only else None
    htp = Htp(request["soc_id"], step, options=options, arch=arch)
    objections = _objections(htp, list(model.graphs.values()), model, request)
    if objections is not None:
        return htp, {}, objections
    graphs: dict[str, CompiledGraph] = {}
    for graph in model.graphs.values():
        _check_reads_inputs(graph)
        graphs[graph.name] = htp.compile(graph, options)
    return htp, graphs, None


def _trace(request: dict[str, Any], files: list[int], step: Step) -> dict[str, Any]:
    """Compile graphs; the library writes the op trace of each into the folder."""
    model, options = _adapted(request, step), CompileOptions(**request["options"])
    htp = Htp(request["soc_id"], step)
    objections = _objections(htp, list(model.graphs.values()), model, request)
    if objections is not None:
        return objections
    before = os.getcwd()
    os.chdir(request["folder"])
    try:
        for number, graph in enumerate(model.graphs.values()):
            _check_reads_inputs(graph)
            htp.compile(graph, options, name=TRACED.format(number), is_traced=True)
    finally:
        os.chdir(before)
    ops = {
        graph.name: [[op.name, op.type, list(op.origin.nodes)] for op in graph.ops]
        for graph in model.graphs.values()
    }
    return {"build": build_id(), "ops": ops}


def _check_reads_inputs(graph: Graph) -> None:
    if not reads_inputs(graph):
        raise ConstraintError(
            "no op reads an input, so the vendor's library cannot compile the graph",
            where=f"graph {graph.name!r}",
            fix="run the model without a cache: all outputs are constants",
        )


@dataclass(frozen=True, slots=True)
class Runner:
    """A graph, with the caller's description of its inputs and outputs."""

    graph: CompiledGraph
    inputs: Sequence[GraphIO]
    outputs: Sequence[GraphIO]

    def run(self, feeds: Mapping[str, Array], *, native: bool) -> dict[str, Array]:
        """Return the outputs by name, in the form that callers have.

        Raises:
            UsageError: If arrays are missing, left over, or do not fit.
        """
        results = [io.empty() for io in self.outputs]
        self.graph.execute(list(stored_feeds(self.inputs, feeds).values()), results)
        return {
            io.tensor.name: io.returned(array, native=native)
            for io, array in zip(self.outputs, results, strict=True)
        }


class LoadedCache:
    """The graphs of a context binary.

    Args:
        soc_id: The SoC to emulate; None for the one that the binary was made for.
        step: Called with what is about to happen.
    """

    def __init__(self, binary: bytes, soc_id: int | None, step: Any) -> None:
        step("describing the cache")
        self._description = BinaryDescription(binary)
        self._htp = Htp(soc_id or self._description.info.soc_model, step, binary)
        self._runners: dict[str | None, Runner] = {}

    def contents(self) -> dict[str, Any]:
        """Return the id of the binary's SoC, and names of graphs, inputs and outputs."""
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
        """Return a graph; None denotes the only or first one.

        Raises:
            BackendError: If the binary holds no such graph.
        """
        if name not in self._runners:
            graph = self._description.graph(name)
            inputs = [graph.inputs[index] for index in range(graph.input_count)]
            outputs = [graph.outputs[index] for index in range(graph.output_count)]
            self._runners[name] = Runner(
                self._htp.retrieve(_name(graph), inputs, outputs),
                [GraphIO.of_struct(tensor) for tensor in inputs],
                [GraphIO.of_struct(tensor) for tensor in outputs],
            )
        return self._runners[name]


def _name(struct: Any) -> str:
    return (struct.name or b"").decode(errors="replace")
