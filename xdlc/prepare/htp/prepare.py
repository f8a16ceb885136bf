"""Compiling a model for several SoCs at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from xdlc import passes
from xdlc.errors import ConstraintError, ProblemList, StorageError, UsageError, XdlcError, each_problem
from xdlc.ir import Model, ScaleOffset, Tensor
from xdlc.runtime.htp import Compiled, CompileOptions, compile_for
from xdlc.runtime.htp.library import library_folder
from xdlc.runtime.htp.process import stored_model
from xdlc.targets import Soc, find_soc
from xdlc.version import VERSION


@dataclass(frozen=True, slots=True)
class Prepared:
    """What came of preparing a model.

    Attributes:
        model: A copy of the model with a cache for each SoC that was compiled or kept.
        done: Names of the SoCs that have their cache, in the order asked for.
        problems: Why the others have none.
    """

    model: Model
    done: tuple[str, ...]
    problems: tuple[XdlcError, ...]


class PrepareError(ProblemList):
    """Some SoCs failed; the problems of all of them are in one list.

    Attributes:
        model: A copy of the model with the caches of the SoCs that did not fail.
    """

    def __init__(self, problems: Sequence[XdlcError], model: Model) -> None:
        super().__init__([single for problem in problems for single in each_problem(problem)])
        self.model = model


def prepare(
    model: Model | str | os.PathLike[str],
    socs: Sequence[str],
    *,
    vtcm_override: int | None = None,
    optimization_level: int = 2,
    num_hvx_threads: int | None = None,
    htp_dlbc: bool = False,
    overwrite_cache_records: bool = False,
    jobs: int | None = None,
    timeout: float = 1800,
    progress: Callable[[int], None] | None = None,
) -> Model:
    """Return a copy of the model with one compiled cache for each SoC.

    The vendor's own compiler plans for 4 MB of VTCM unless told otherwise; here the default is all
    that the SoC has, which is faster there but does not run on a SoC with less.  Caches hold all
    graphs of the model.  Same model, options and library: same bytes.

    Args:
        model: The model, or the path of a DLC, which spares writing a copy for the compiler.
        socs: SoC names such as ``sm8650``.
        vtcm_override: VTCM in MB to plan for; 0 and None mean all that the SoC has.
        optimization_level: 1 to 3; 3 compiles longest and gives the fastest graph.
        num_hvx_threads: Threads of the vector unit; default: all.
        htp_dlbc: Whether to compress feature maps in memory.
        overwrite_cache_records: Whether to compile again for a SoC that has an equal cache already:
            one of the same graphs, inputs, outputs and options.
        jobs: SoCs to compile at a time; default: one per processor.
        timeout: Seconds that one SoC may take.
        progress: Called with the number of SoCs finished.

    Raises:
        UsageError: If a SoC or an option is not known, or a cache exists that was made otherwise.
        PrepareError: After all SoCs are finished, if some failed; its ``model`` has the caches of the others.
        BackendError: If the vendor's package is missing.
    """
    prepared = prepare_all(
        model,
        socs,
        vtcm_override=vtcm_override,
        optimization_level=optimization_level,
        num_hvx_threads=num_hvx_threads,
        htp_dlbc=htp_dlbc,
        overwrite_cache_records=overwrite_cache_records,
        jobs=jobs,
        timeout=timeout,
        progress=progress,
    )
    if prepared.problems:
        raise PrepareError(prepared.problems, prepared.model)
    return prepared.model


def prepare_all(
    model: Model | str | os.PathLike[str],
    socs: Sequence[str],
    *,
    vtcm_override: int | None = None,
    optimization_level: int = 2,
    num_hvx_threads: int | None = None,
    htp_dlbc: bool = False,
    overwrite_cache_records: bool = False,
    jobs: int | None = None,
    timeout: float = 1800,
    progress: Callable[[int], None] | None = None,
) -> Prepared:
    """Do what ``prepare`` does, but return what failed beside what worked.

    Raises:
        UsageError: If a SoC or an option is not known, or a cache exists that was made otherwise.
        BackendError: If the vendor's package is missing.
    """
    from xdlc.container import add_cache, caches, load, remove_caches

    _check_options(vtcm_override, optimization_level, num_hvx_threads, jobs)
    targets = _targets(socs, vtcm_override)
    library_folder()
    result = model.clone() if isinstance(model, Model) else load(model)
    if not result.graphs:
        raise UsageError(
            "the model holds no graph, only records", fix="give the DLC that the caches came from"
        )
    options = {
        target.name: CompileOptions(
            vtcm_override or target.vtcm_mb or 0, optimization_level, num_hvx_threads, htp_dlbc
        )
        for target in targets
    }
    name = "model" if isinstance(model, Model) else os.fspath(model)
    wanted = []
    for target in targets:
        held = next((cache for cache in caches(result) if cache.soc == target.name), None)
        if held is None or overwrite_cache_records:
            wanted.append(target)
        elif held.problem or not _is_equal(held.entry or {}, result, options[target.name]):
            raise UsageError(
                f"there is a cache for {target.name} already, which "
                + (held.problem or "was made with other options or for another model"),
                where=f"{name}: {held.name}",
                fix="replace it with --overwrite_cache_records (overwrite_cache_records=True)",
            )
    problems: dict[str, XdlcError] = {}
    compiled: dict[str, Compiled] = {}
    with (
        stored_model(model) as path,
        ThreadPoolExecutor(max(1, min(jobs or os.cpu_count() or 1, len(wanted)))) as pool,
    ):
        running = {
            pool.submit(
                compile_for, path, target.name, options[target.name], timeout=timeout, name=name
            ): target.name
            for target in wanted
        }
        for count, future in enumerate(as_completed(running), start=len(targets) - len(wanted) + 1):
            soc = running[future]
            try:
                compiled[soc] = future.result()
            except XdlcError as error:
                problems[soc] = error
            except OSError as error:
                problems[soc] = StorageError(
                    f"a temporary file cannot be written: {error.strerror or error}",
                    where=f"{name}: {soc}",
                    fix="free some space, or set TMPDIR to a folder with space",
                )
            if progress is not None:
                progress(count)
    for target in wanted:
        if target.name in compiled:
            found = compiled[target.name]
            remove_caches(result, target.name)
            add_cache(result, target.name, found.data, found.entry)
    if compiled:
        given = {
            "htp_socs": ",".join(target.name for target in wanted if target.name in compiled),
            "vtcm_override": vtcm_override,
            "optimization_level": optimization_level,
            "num_hvx_threads": num_hvx_threads,
            "htp_dlbc": htp_dlbc or None,
        }
        args = {key: str(value) for key, value in given.items() if value is not None}
        result.metadata.setdefault("history", []).append(
            {"tool": "xdlc-graph-prepare", "converterVersion": VERSION, "args": args}
        )
    return Prepared(
        result,
        tuple(target.name for target in targets if target.name not in problems),
        tuple(problems[target.name] for target in targets if target.name in problems),
    )


def _check_options(vtcm: int | None, level: int, threads: int | None, jobs: int | None) -> None:
    for name, value, low, high in (
        ("vtcm_override", vtcm, 0, 64),
        ("optimization_level", level, 1, 3),
        ("num_hvx_threads", threads, 1, 64),
        ("jobs", jobs, 1, 1024),
    ):
        if value is not None and not low <= value <= high:
            raise UsageError(f"{name} should be from {low} to {high}, is {value}")


def _targets(socs: Sequence[str], vtcm: int | None) -> list[Soc]:
    if not socs:
        raise UsageError("no SoC is named", fix="name one or more, like sm8550,sm8650")
    found = {target.name: target for target in map(find_soc, socs)}
    for target in found.values():
        if not target.has_htp:
            raise ConstraintError(
                f"{target.name} has no HTP: its DSP is of architecture {target.capabilities.name}",
                fix="leave it out; HTP starts with v68",
            )
        if vtcm and target.vtcm_mb and vtcm > target.vtcm_mb:
            raise UsageError(
                f"vtcm_override asks for {vtcm} MB, {target.name} has {target.vtcm_mb} MB",
                fix=f"give at most {target.vtcm_mb}, or leave it out",
            )
    return list(found.values())


def _is_equal(entry: Mapping[str, Any], model: Model, options: CompileOptions) -> bool:
    graphs = {graph.get("graphName"): graph for graph in entry.get("graphs", ())}
    if set(graphs) != set(model.graphs):
        return False
    for name, graph in graphs.items():
        own = model.graphs[name].clone()
        passes.run(own, passes.HTP_ASKED)
        facts = graph.get("graphBlobInfo", {})
        if (
            facts.get("vtcmSize") != options.vtcm_mb
            or facts.get("optimizationLevel") != options.optimization_level
            or facts.get("numHvxThreads") != (options.num_hvx_threads or 0)
            or bool(facts.get("htpDlbc")) != options.dlbc
        ):
            return False
        for listed, tensors in (("graphInputs", own.inputs), ("graphOutputs", own.outputs)):
            if [_signature(item) for item in graph.get(listed, ())] != [_own_signature(t) for t in tensors]:
                return False
    return True


_Signature = tuple[object, ...]


def _signature(item: dict[str, Any]) -> _Signature:
    step = item.get("quantizeParams", {}).get("scaleOffset", {})
    return item.get("name"), tuple(item.get("dimensions", ())), step.get("scale"), step.get("offset")


def _own_signature(tensor: Tensor) -> _Signature:
    encoding = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    return tensor.name, tensor.shape, encoding and encoding.scale, encoding and encoding.offset
