"""The child process that loads the vendor's libraries: one request, one SoC, one process.

Started by ``process``.  Its folder holds ``request.json`` (and ``arrays.npz``); it writes
``answer.json`` (and files that the answer names).  ``step`` tells what it is about to do, so that the
parent can say where it died.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc.errors import UsageError, XdlcError, each_problem, nearest_names, raise_all
from xdlc.ir import Tensor
from xdlc.opdefs.control_flow import reachable
from xdlc.runtime.htp.backend import Htp
from xdlc.runtime.htp.host_only import host_problems, is_host_only
from xdlc.runtime.htp.options import CompileOptions
from xdlc.runtime.htp.ports import Port, read_feeds, results_of

if TYPE_CHECKING:
    from xdlc.ir import Graph, Model

Step = Callable[[str], None]


def main(folder: Path) -> None:
    """Serve the request in ``folder`` and end the process."""
    request = json.loads((folder / "request.json").read_text())
    note = os.open(folder / "step", os.O_WRONLY | os.O_CREAT)

    def step(text: str) -> None:
        written = os.pwrite(note, text.encode(), 0)
        os.ftruncate(note, written)

    try:
        answer = _COMMANDS[request["command"]](request, folder, step)
    except XdlcError as error:
        answer = {"errors": [_error_words(problem) for problem in each_problem(error)]}
    unfinished = folder / "answer.part"
    unfinished.write_text(json.dumps(answer))
    unfinished.rename(folder / "answer.json")
    os._exit(0)  # the libraries' clean-up at exit has crashed before and is of no use here


def _error_words(error: XdlcError) -> dict[str, Any]:
    return {
        "kind": type(error).__name__,
        "problem": error.problem,
        "where": error.where,
        "fix": error.fix,
        "node": error.node,
        "op": error.op,
    }


def _model(request: dict[str, Any], step: Step) -> Model:
    from xdlc.container import load

    step("reading the model")
    return load(request["model"])


def _adapt(graphs: Iterable[Graph]) -> None:
    """Bring graphs into the form that HTP takes."""
    from xdlc import passes

    problems: list[XdlcError] = []
    for graph in graphs:
        try:
            passes.run(graph, passes.HTP)
        except XdlcError as error:
            problems += each_problem(error)
    raise_all(problems)


def _refusals(htp: Htp, graphs: Iterable[Graph], request: dict[str, Any]) -> list[dict[str, Any]]:
    skip = frozenset(tuple(pair) for pair in request["skip"])
    return [
        {"graph": graph.name, "op": found.op, "type": found.type, "code": found.code, "log": found.log}
        for graph in graphs
        for found in htp.validate(graph, skip)
    ]


def _objections(
    htp: Htp, graphs: Sequence[Graph], model: Model, request: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the answer that tells what HTP does not take of some graphs; None if it takes all."""
    skip = request["skip"] + [
        (graph.name, op.name) for graph in graphs for op in graph.ops if is_host_only(op)
    ]
    refused = _refusals(htp, graphs, {**request, "skip": skip})
    ops = {(found["graph"], found["op"]) for found in refused}
    problems = [_error_words(problem) for problem in host_problems(graphs, model.graphs, ops)]
    return {"refused": refused, "problems": problems} if refused or problems else None


def _validate(request: dict[str, Any], folder: Path, step: Step) -> dict[str, Any]:
    from xdlc import passes
    from xdlc.passes.narrow_integers import misfits

    model = _model(request, step)
    problems = [_error_words(problem) for graph in model.graphs.values() for problem in misfits(graph)]
    for graph in model.graphs.values():
        passes.run(graph, passes.HTP_ASKED)
    refused = _refusals(Htp(request["soc_id"], step), model.graphs.values(), request)
    return {"refused": refused, "problems": problems}


def _compile(request: dict[str, Any], folder: Path, step: Step) -> dict[str, Any]:
    from xdlc.runtime.htp.info import BinaryDescription

    model = _model(request, step)
    _adapt(model.graphs.values())
    htp = Htp(request["soc_id"], step)
    objections = _objections(htp, list(model.graphs.values()), model, request)
    if objections is not None:
        return objections
    for graph in model.graphs.values():
        htp.compile(graph, CompileOptions(**request["options"]))
    binary = htp.binary()
    with open(folder / "cache.bin", "wb") as file:
        file.write(memoryview(binary))
    step("describing the cache")
    return {"refused": [], "entry": BinaryDescription(binary).entry()}


def _run(request: dict[str, Any], folder: Path, step: Step) -> dict[str, Any]:
    model = _model(request, step)
    wanted = request["graph"]
    if wanted is not None and wanted not in model.graphs:
        raise UsageError(
            f"there is no graph {wanted!r}", fix=nearest_names(wanted, model.graphs) or "leave the name out"
        )
    graph = model.main if wanted is None else model.graphs[wanted]
    known = [_copy(tensor) for tensor in (*graph.inputs, *graph.outputs)]
    needed = reachable(graph, model.graphs)
    _adapt(needed)
    htp = Htp(request["soc_id"], step)
    objections = _objections(htp, needed, model, request)
    if objections is not None:
        return objections
    ports = list(map(Port, known, (*graph.inputs, *graph.outputs)))
    inputs, outputs = ports[: len(graph.inputs)], ports[len(graph.inputs) :]
    feeds = read_feeds(folder, inputs, request)
    results = [port.empty() for port in outputs]
    htp.compile(graph, CompileOptions()).execute(feeds, results)
    return results_of(folder, outputs, results, request)


def _copy(tensor: Tensor) -> Tensor:
    """Return what a caller knows of an input or output."""
    return Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.encoding)


def _run_cache(request: dict[str, Any], folder: Path, step: Step) -> dict[str, Any]:
    from xdlc.runtime.htp.info import BinaryDescription

    binary = Path(request["cache"]).read_bytes()
    step("describing the cache")
    description = BinaryDescription(binary)
    graph = description.graph(request["graph"])
    described = (
        [graph.inputs[index] for index in range(graph.input_count)],
        [graph.outputs[index] for index in range(graph.output_count)],
    )
    inputs, outputs = ([Port.of_struct(tensor) for tensor in tensors] for tensors in described)
    feeds = read_feeds(folder, inputs, request)
    results = [port.empty() for port in outputs]
    htp = Htp(description.info.soc_model, step, binary)
    htp.retrieve((graph.name or b"").decode(), *described).execute(feeds, results)
    return results_of(folder, outputs, results, request)


_COMMANDS: dict[str, Callable[[dict[str, Any], Path, Step], dict[str, Any]]] = {
    "validate": _validate,
    "compile": _compile,
    "run": _run,
    "run_cache": _run_cache,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
