"""Preparation of a model: compilation for several SoCs at a time."""

from __future__ import annotations

import copy
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

from xdlc.container import cache_provenance
from xdlc.container.metadata import add_step
from xdlc.errors import ConstraintError, ProblemList, UsageError, XdlcError, each_problem, raise_all
from xdlc.ir import Model
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.opdefs.control_flow_rules import verify_control_flow
from xdlc.options import check_values, spell
from xdlc.options.graphs import CompileOptions
from xdlc.passes.stored_weights import expanded_products
from xdlc.prepare.htp.cache_records import check_foreign, held_caches, store, whole
from xdlc.prepare.htp.compile_jobs import CompileJobs, Site, Step
from xdlc.prepare.htp.partition_plan import PartitionPlan
from xdlc.prepare.htp.prepare_partitions import PartitionJobs
from xdlc.prepare.htp.targets import Target, targets
from xdlc.prepare.htp.verify import Verified, Verifying, verify_caches
from xdlc.runtime import htp
from xdlc.runtime.dynamic_dims import open_problem
from xdlc.runtime.htp.library import library_folder, unswept
from xdlc.runtime.htp.process import ForkServer, WorkerSession, stored_model
from xdlc.runtime.htp.unsupported_op import shortened
from xdlc.worker.executors import open_compilers

_log = logging.getLogger(__name__)
_LONGEST = 7 * 86_400
_FORGOTTEN = f"record {cache_provenance.RECORD!r} is damaged: facts about existing caches are lost"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of preparing a model.

    Attributes:
        model: A copy of the model with a cache for each SoC that was compiled or kept.
        done: Names of the SoCs that have their cache, in the order of the request.
        problems: Why the others have none.
        kept: Names of the SoCs whose cache was there already.
        failed: Names of the SoCs that have none, in the order of ``problems``.
        notices: What the caller should know: caches that were kept or replaced, and why; what is left to
            the CPU, and why.
        plans: With ``partition``, the partition plan of each SoC that is done.
    """

    model: Model
    done: tuple[str, ...]
    problems: tuple[XdlcError, ...]
    kept: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    plans: tuple[PartitionPlan, ...] = ()


class PrepareError(ProblemList):
    """Some SoCs failed; the problems of all of them are in one list, each cause once.

    Attributes:
        model: A copy of the model with the caches of the SoCs that did not fail.
    """

    def __init__(self, problems: Sequence[XdlcError], model: Model) -> None:
        super().__init__(problems)
        self.model = model


def by_cause(prepared: Prepared) -> list[XdlcError]:
    """Return the problems of all SoCs, each distinct problem once."""
    groups: dict[tuple[str, ...], tuple[XdlcError, list[str]]] = {}
    for soc, error in zip(prepared.failed, prepared.problems, strict=True):
        for problem in each_problem(error):
            place, text = _without(soc, problem.where or ""), _without(soc, problem.problem)
            if _SOC not in place + text:
                place = f"{_SOC}: {place}" if place else _SOC
            merged = copy.copy(problem)
            merged.where, merged.problem = place, text
            alike = re.sub(r"0x[0-9a-fA-F]+", "", text)
            groups.setdefault((alike, problem.fix or "", place), (merged, []))[1].append(soc)
    for (*_, place), (merged, socs) in groups.items():
        merged.where = place.replace(_SOC, ", ".join(socs)) or None
        merged.problem = merged.problem.replace(_SOC, ", ".join(socs))
    return [merged for merged, _ in groups.values()]


_SOC = "\0"
"""Placeholder of the name of a SoC in texts that are compared."""


def _without(soc: str, text: str) -> str:
    return re.sub(rf"(?:(?<=: )|^){re.escape(soc)}(?=:|$)", _SOC, text, count=1)


def prepare(
    model: Model,
    socs: Sequence[str] = (),
    *,
    notify: Callable[[str], None] | None = None,
    **options: Any,
) -> Model:
    """Return a copy of the model with a compiled cache for each SoC.

    Args:
        socs: SoC names such as ``sm8650``.
        notify: Called with each of ``Prepared.notices``; default: the log.
        **options: Options of ``prepare_all``.

    Raises:
        UsageError: If a SoC or an option is not known, or a cache exists that xdlc did not make.
        ConstraintError: If a SoC has no HTP.
        PrepareError: After all SoCs are finished, if some failed; its ``model`` has the caches of the others.
        ContainerError: If the record with the facts about the model's caches is damaged.
        BackendError: If the vendor's package is missing.
    """
    prepared = prepare_all(model, socs, **options)
    for notice in prepared.notices:
        (notify or _log.warning)(notice)
    if prepared.problems:
        raise PrepareError(by_cause(prepared), prepared.model)
    return prepared.model


def prepare_all(
    model: Model,
    socs: Sequence[str] = (),
    *,
    path: str | os.PathLike[str] | None = None,
    htp_archs: Sequence[str | int] = (),
    vtcm_override: int | None = None,
    optimization_level: int = 2,
    num_hvx_threads: int | None = None,
    htp_dlbc: bool = False,
    share_weights: bool = False,
    share_graph_weights: bool = False,
    overwrite_cache_records: bool = False,
    partition: bool = False,
    verify: bool | Mapping[str, Any] = True,
    verify_budget: float = 30,
    jobs: int | None = None,
    scheduler: str | None = None,
    executor: Executor | None = None,
    timeout: float = 1800,
    step: Step | None = None,
) -> Prepared:
    """Compile a model for each SoC; return a copy with the caches, and failures.

    The vendor's own compiler plans for 4 MB of VTCM by default; here the default is all that the SoC has,
    which is faster there but does not run on a SoC with less.  Caches hold all graphs of the model.  The host
    runs ``If`` and ``While``: where there are any, caches hold partitions of the graphs around them and of
    their branches and loop bodies.  Same model, options and library: same bytes, in whatever order SoCs are
    named.

    A cache that would come out the same (of the same graphs, options and build of the library) is kept.
    One that xdlc made otherwise is replaced, and ``Prepared.notices`` have the reason.  One that xdlc
    did not make is kept if its description is that of the one requested, else only replaced with
    ``overwrite_cache_records``.

    Args:
        socs: SoC names such as ``sm8650``.
        path: The DLC that the model was loaded from for this call, which spares a copy of the model, and
            writing one for the compiler.
        htp_archs: Architectures such as ``v73``, instead of SoCs: one cache each, which runs on all SoCs
            of it that are known, see ``targets``.
        vtcm_override: VTCM in MB to plan for; 0 and None mean all that the SoC has.
        optimization_level: 1 to 3; 3 compiles longest, to the fastest graph.
        num_hvx_threads: Threads of the vector unit; default: all.
        htp_dlbc: Whether to compress feature maps in memory.
        share_weights: Whether to keep the weights in records that SoCs with the same form of weights have
            in common, as the vendor's files for several SoCs do.  Off by default, because the vendor's
            emulation does not load such caches ("Shared weights buffer isn't supported on this
            platform"): they run on devices only, and nothing here can prove them right.
        share_graph_weights: Whether graphs of a cache have their common weights once.  The emulation does not
            load such caches either; they are verified in the context that compiles them, before it is
            written.
        overwrite_cache_records: Whether to compile again what is there already, whoever made it.
        partition: Whether to compile the partitions that HTP supports where it does not support all ops, see
            ``PartitionJobs``; tensors between partitions then become outputs of the model.
        verify: Whether to run each cache on the emulation of its SoC and compare it with the host, or the
            sample to do so with, arrays by input; default: seeded inputs.  A cache with a wrong op is a
            failure of its SoC.
        verify_budget: Seconds that this may take for a cache; beyond it parts of the graph are verified.
        jobs: SoCs to compile at a time; default: one per processor.
        scheduler: Address of a Dask scheduler, whose workers compile and verify instead.
        executor: An executor that does.
        timeout: Time limit in seconds per SoC.
        step: Called with the title of what is done, which names the SoCs that are under way, the number of
            SoCs finished, and of all.

    Raises:
        UsageError: If a SoC or an option is not known, or a cache exists that xdlc did not make.
        ConstraintError: If a SoC has no HTP, the model has dynamic dimensions, which HTP does not support, or
            a branch or a loop breaks a rule of control flow.
        ContainerError: If the record with the facts about the model's caches is damaged.
        BackendError: If the vendor's package is missing.
    """
    args = {
        "vtcm_override": vtcm_override,
        "optimization_level": optimization_level,
        "num_hvx_threads": num_hvx_threads,
        "htp_dlbc": htp_dlbc,
        "share_weights": share_weights,
        "share_graph_weights": share_graph_weights,
        "partition": partition,
    }
    if not 0 < timeout <= _LONGEST:
        raise UsageError(f"timeout is {timeout} seconds", fix=f"pass more than 0 and at most {_LONGEST} s")
    check_values(CompileOptions, {**args, "jobs": jobs, "verify_budget": verify_budget})
    options = htp.CompileOptions(
        vtcm_override, optimization_level, num_hvx_threads, htp_dlbc, share_weights, share_graph_weights
    )
    named = targets(socs, htp_archs, options)
    requested = sorted(named, key=lambda target: target.soc.id)  # their order does not change the result
    library_folder()
    result = model.clone() if path is None else model
    if not result.graphs:
        raise UsageError(
            "the model holds no graph, only compiled caches or records, which cannot be compiled again",
            fix="prepare the DLC that the caches came from",
        )
    name = "model" if path is None else os.fspath(path)
    notices = []
    if share_graph_weights and len(result.graphs) == 1:
        requested = [
            replace(target, options=replace(target.options, share_graph_weights=False))
            for target in requested
        ]
        notices.append(f"{spell('share_graph_weights', True)} has no effect: the model has one graph")
    notices += _expansions(result, requested)
    runs_graphs = any(map(has_control_flow, result.graphs.values()))
    if runs_graphs:
        raise_all(verify_control_flow(result.graphs), where=name)
    unbound = None if partition else open_problem(result)
    if unbound is not None:  # for any SoC, before the compiler is started
        unbound.where = name
        raise unbound
    forgotten = overwrite_cache_records and cache_provenance.drop_damaged(result)
    existing = {} if overwrite_cache_records else held_caches(result)
    for target in requested:
        if target.name in existing:
            check_foreign(existing[target.name], result, target, name)
    sample = None if isinstance(verify, bool) else verify

    def check(stored: Model, socs: Sequence[str], served: Mapping[str, WorkerSession]) -> Verified:
        if verify is False:
            return Verified()
        if step is not None:
            step("verifying", len(requested), len(requested))
        verifying = Verifying(sample, verify_budget, served=served)
        return verify_caches(replace(site, model=stored), socs, verifying, name=name, timeout=timeout)

    with (
        stored_model(path or model) as file,
        open_compilers(jobs, scheduler, executor) as workers,
        ForkServer(file) as server,
    ):
        site = Site(result, file, workers, server)
        if partition or runs_graphs:
            work: CompileJobs | PartitionJobs = PartitionJobs(
                site, name, requested, existing, timeout, strict=not partition
            )
        else:
            selections = dict.fromkeys((target.name for target in requested), whole(result, file))
            keep = verify is not False and len(requested) == 1 and requested[0].options.share_graph_weights
            work = CompileJobs(name, requested, existing, selections, timeout, site, keep)
        work.do(step, len(requested))
        prepared = _stored(result, work, "htp_archs" if htp_archs else "htp_socs", args, check)
    notices += [_FORGOTTEN] if forgotten else []
    done = tuple(target.name for target in named if target.name in prepared.done)
    return replace(prepared, done=done, notices=(*prepared.notices, *notices))


def _expansions(model: Model, targets: Sequence[Target]) -> list[str]:
    """Return notices on weights in blocks that caches have as floats."""
    notices = []
    for has_blocks, reason in (
        (
            True,
            (
                "HTP multiplies by blocks of input channels only if their integers of 2, 4 or 8 bits fill "
                "32 bits"
            ),
        ),
        (False, "HTP multiplies by integers in blocks from v69 on"),
    ):
        socs = [target.name for target in targets if target.soc.capabilities.float_blocks is has_blocks]
        graphs = model.graphs.values() if socs else ()
        names = [repr(name) for graph in graphs for name in expanded_products(graph, has_blocks=has_blocks)]
        if names:
            notices.append(
                f"{', '.join(socs)}: xdlc stores weights of {shortened(names)} as floats: {reason}"
            )
    return notices


def _stored(
    model: Model,
    work: CompileJobs | PartitionJobs,
    kind: str,
    args: Mapping[str, object],
    check: Callable[[Model, Sequence[str], Mapping[str, WorkerSession]], Verified],
) -> Prepared:
    """Store compiled caches in a model, and verify them.

    Args:
        model: The model; it is changed, unless partitions of it were compiled.
        kind: Which option named what to compile for, ``htp_socs`` or ``htp_archs``.
        args: The other options, for the history.
        check: Verifies the caches of SoCs, and removes wrong ones.
    """
    plans: tuple[PartitionPlan, ...] = ()
    said = (unswept(), *(outcome.notice for _, outcome in work.outcomes()))
    notices = [notice for notice in said if notice]
    failures = work.failures()
    problems = [single for error in failures.values() for single in each_problem(error)]
    outcomes = list(work.outcomes())
    if isinstance(work, PartitionJobs):
        model, plans = work.model, work.plans()
        notices += work.notices()
    if not args["partition"] and any(isinstance(problem, ConstraintError) for problem in problems):
        hint = "compiles the parts of a network that HTP supports, and leaves the rest to the CPU"
        notices.append(f"{spell('partition', True)} {hint}")
    for target, outcome in outcomes:
        if outcome.compiled is not None:
            store(model, target, outcome.compiled, outcome.selection)
    served = {
        target.name: outcome.compiled.served
        for target, outcome in outcomes
        if outcome.compiled is not None and outcome.compiled.served is not None
    }
    verified = check(model, [target.name for target, _ in outcomes], served)
    notices += verified.notices
    failures |= verified.failures
    outcomes = [(target, outcome) for target, outcome in outcomes if target.name not in failures]
    compiled = [target for target, outcome in outcomes if outcome.compiled is not None]
    if compiled:
        given = {key: str(value) for key, value in args.items() if value is not None and value is not False}
        names = [t.soc.capabilities.name if kind == "htp_archs" else t.name for t in compiled]
        add_step(model, "xdlc-graph-prepare", {kind: ",".join(names), **given})
    return Prepared(
        model,
        done=tuple(target.name for target, _ in outcomes),
        problems=tuple(failures.values()),
        failed=tuple(failures),
        kept=tuple(target.name for target, outcome in outcomes if outcome.compiled is None),
        notices=tuple(notices),
        plans=plans,
    )
