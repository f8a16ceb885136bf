"""The vendor's HTP library on the host: validator, compiler and emulation.

The library is a black box that comes with the package ``onnxruntime-qnn``; it is called through its
public API in child processes only (see docs/adr/0006).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy

from xdlc.container import load
from xdlc.container.caches import SHARED
from xdlc.errors import BackendError
from xdlc.ir import MappedData, MappedFile, Model, TensorData
from xdlc.runtime.htp.options import SHARED_CACHE, TRACED, CompileOptions
from xdlc.runtime.htp.process import (
    HtpWorker,
    Launch,
    ModelOrPath,
    WorkerSession,
    model_request,
    start,
)
from xdlc.runtime.htp.unsupported_op import RefusedOp
from xdlc.worker.temporary import TemporaryFolder

__all__ = [
    "CompileOptions",
    "Compiled",
    "RefusedOp",
    "Traced",
    "build_id",
    "compile_for",
    "traced_compilation",
    "unsupported_ops",
]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cache for a SoC.

    Attributes:
        data: The QNN context binary, in a nameless file that is removed after its last use.
        entry: Its description as the vendor's ``cacheList`` words it, without name and timestamp.
        shared: Records of weights that it does not hold itself, by name.
        served: The child that has the compiled graphs, if it was to be kept; close it in the end.
    """

    data: TensorData
    entry: dict[str, Any]
    shared: Mapping[str, TensorData] = field(default_factory=dict)
    served: WorkerSession | None = None


def unsupported_ops(
    model: ModelOrPath,
    soc: str,
    *,
    timeout: float = 600,
    skip: Sequence[tuple[str, str]] = (),
    name: str | None = None,
    launch: Launch = start,
) -> list[RefusedOp]:
    """Return the ops that HTP rejects, under the names of its form of the graph.

    Args:
        skip: Names of graph and op of the ops to omit.
        name: What messages call the model; default: its path.

    Raises:
        BackendError: If the library is missing, unknown, or fails.
    """
    with model_request(model, soc, name, launch) as (request, worker), worker:
        request |= {"do": "validate", "skip": list(skip)}
        return worker.validated(request, timeout=timeout)[1]


def build_id(*, timeout: float = 60, launch: Launch = start) -> str:
    """Return the build of the vendor's library, like ``v2.51.0.260929181845``.

    Raises:
        BackendError: If the library is missing, unknown, or fails.
    """
    with HtpWorker("onnxruntime-qnn", launch=launch) as worker:
        return str(worker.query({"do": "build"}, timeout=timeout)["build"])


def compile_for(
    model: ModelOrPath,
    soc: str,
    options: CompileOptions,
    *,
    timeout: float = 1800,
    name: str | None = None,
    launch: Launch = start,
    keep: bool = False,
) -> Compiled:
    """Return the cache of all graphs of a model for a SoC.

    Args:
        name: What messages call the model; default: its path.
        keep: Whether the child stays, with the graphs as it compiled them.

    Raises:
        ConstraintError: If HTP refuses an op; a ProblemList of them if it refuses several.
        BackendError: If the library is missing, unknown, or fails.
    """
    opened = model_request(model, soc, name, launch)
    with TemporaryFolder() as folder, ExitStack() as stack, opened as (request, worker):
        stack.enter_context(worker)
        request |= {"do": "compile_and_keep" if keep else "compile"}
        request |= {"options": asdict(options), "folder": folder}
        answer = worker.query(request, timeout=timeout)
        path, entry = Path(folder) / "cache.bin", answer.get("entry")
        if not (path.is_file() and isinstance(entry, dict)):
            raise BackendError(
                "the vendor's library reported no error, but wrote no cache",
                where=f"{name or 'model'}: {soc}",
                fix="prepare this SoC again",
            )
        file = MappedFile(path)
        data = MappedData(file, 0, (file.size,), numpy.uint8)
        served = None
        if keep:
            stack.pop_all()
            served = WorkerSession.of_worker(worker, answer["contents"])
        return Compiled(data, entry, _shared_weights(Path(folder) / SHARED_CACHE), served)


@dataclass(frozen=True, slots=True)
class Traced:
    """Op traces of a compilation.

    Attributes:
        build: Build of the vendor's library.
        files: Path of the trace by name of the graph: text, as the library writes it.
        ops: Name, type and source nodes of each op that was compiled, by name of the graph.
    """

    build: str
    files: Mapping[str, Path]
    ops: Mapping[str, Sequence[tuple[str, str, Sequence[str]]]]


@contextmanager
def traced_compilation(
    model: Model,
    soc: str,
    options: CompileOptions,
    *,
    timeout: float = 1800,
    name: str | None = None,
    path: Path | None = None,
    launch: Launch = start,
) -> Iterator[Traced]:
    """Compile all graphs of a model for a SoC; yield the op traces.

    Their folder is removed at the end.

    Args:
        path: A DLC that it is stored in; default: it is stored for this call.

    Raises:
        ConstraintError: If HTP refuses an op; a ProblemList of them if it refuses several.
        BackendError: If the library is missing, unknown, fails, or writes no trace.
    """
    with TemporaryFolder() as folder:
        with model_request(path or model, soc, name, launch) as (request, worker), worker:
            request |= {"do": "trace", "options": asdict(options), "folder": folder}
            answer = worker.query(request, timeout=timeout)
        paths = {
            graph: Path(folder) / f"{TRACED.format(number)}_schematic.bin"
            for number, graph in enumerate(model.graphs)
        }
        for graph, path in paths.items():
            if not path.is_file():
                raise BackendError(
                    f"the vendor's library wrote no op trace of graph {graph!r}",
                    where=f"{name or 'model'}: {soc}",
                    fix="install another release of onnxruntime-qnn; xdlc platform-check lists releases",
                )
        yield Traced(str(answer["build"]), paths, answer["ops"])


def _shared_weights(path: Path) -> dict[str, TensorData]:
    """Return the shared weights of a DLC and their descriptions, by record."""
    records = load(path).records if path.exists() else {}
    return {name: data for name, data in records.items() if name.startswith(SHARED)}
