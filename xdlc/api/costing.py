"""Cost of a model, with and without a device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdlc.api.models import executable, loaded
from xdlc.api.verbs import verb
from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir import Model
from xdlc.options import PathLike, Step
from xdlc.options.running import WorkerOptions

if TYPE_CHECKING:
    from xdlc.cost.device import DeviceCost
    from xdlc.cost.report import CostReport
    from xdlc.prepare.htp.targets import Target


@verb
def cost(
    model: Model | PathLike,
    socs: Sequence[str] = (),
    *,
    vtcm: Sequence[int] = (),
    step: Step | None = None,
    **options: Unpack[WorkerOptions],
) -> CostReport:
    """Return the operations, bytes and estimated times of a model on SoCs.

    The vendor's compiler plans the network for each SoC.  The plan has the bytes and the engine of each
    kernel.  Without SoCs, the report has MACs, bytes and memory, and xdlc needs no vendor library.

    Args:
        model: The model, or the path of a DLC.
        socs: SoC names such as ``sm8650``.
        vtcm: Sizes of VTCM in MB; xdlc makes a plan for each size.  Default: the whole VTCM of the SoC.
        step: Called as ``step(title, done, total)`` with the number of finished plans and of all plans.
        **options: Options of the workers that compile.

    Returns:
        The report.  ``static`` has MACs and bytes of each graph; ``devices`` has a plan for each SoC and size
        of VTCM.  ``times`` has the milliseconds of each plan, or a text that says why xdlc estimates no time.

    Raises:
        UsageError: If xdlc does not know a SoC, a SoC has less VTCM, or you name sizes without a SoC.
        ConstraintError: If a SoC has no HTP, or HTP refuses an op.
        BackendError: If the vendor's package is missing, or its compiler refuses the model for all SoCs.
        ContainerError: If the DLC is damaged.
        StorageError: If the DLC cannot be read.
    """
    from xdlc.content.static_cost import static_cost
    from xdlc.cost.report import CostReport
    from xdlc.cost.times import milliseconds
    from xdlc.prepare.htp.targets import targets
    from xdlc.runtime.htp import CompileOptions

    if vtcm and not socs:
        raise UsageError("xdlc plans VTCM sizes only for a SoC", fix="name a SoC like sm8650, or omit VTCM")
    where = None if isinstance(model, Model) else os.fspath(model)
    source = executable(loaded(model), where)
    if not source.graphs:
        raise UsageError("the file has no graph", where=where, fix="pass the DLC that the caches came from")
    plans = [
        target
        for size in dict.fromkeys(vtcm) or (None,)
        for target in (targets(socs, options=CompileOptions(size, optimization_level=2)) if socs else ())
    ]
    devices, refused = _device_costs(source, plans, where or "model", step, options) if plans else ([], [])
    times = [milliseconds(cost, source.graphs[cost.graph]) for cost in devices]
    static = map(static_cost, source.graphs.values())
    return CostReport(tuple(static), tuple(devices), tuple(times), tuple(refused))


def _device_costs(
    model: Model, plans: Sequence[Target], name: str, step: Step | None, options: WorkerOptions
) -> tuple[list[DeviceCost], list[XdlcError]]:
    """Return costs by plan and graph, and errors of the plans that fail.

    Plans are compiled several at a time.
    """
    from xdlc.prepare.htp.compile_jobs import Site
    from xdlc.runtime.htp.process import ForkServer, stored_model
    from xdlc.worker.executors import open_compilers

    costs: dict[int, list[DeviceCost]] = {}
    errors: dict[int, XdlcError] = {}

    def started(number: int) -> None:
        if step is not None:
            step(f"compiling for {plans[number].name}", len(costs) + len(errors), len(plans))

    with stored_model(model) as path, open_compilers(**options) as workers, ForkServer(path) as server:
        site = Site(model, path, workers, server)
        tasks = {number: site.task(_costs, plan, name=name) for number, plan in enumerate(plans)}
        for number, outcome in workers.each(tasks, name, started):
            if isinstance(outcome, XdlcError):
                errors[number] = outcome
            elif isinstance(outcome, Exception):
                raise outcome
            else:
                costs[number] = outcome
    refused = [errors[number] for number in sorted(errors)]
    if not costs:
        raise_all(refused)
    return [cost for number in sorted(costs) for cost in costs[number]], refused


def _costs(model: Model, path: Path, plan: Target, **how: Any) -> list[DeviceCost]:
    from xdlc.cost.device import device_costs

    return device_costs(model, plan.soc, plan.options, path=path, **how)
