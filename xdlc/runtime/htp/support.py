"""Support of a model's ops by a SoC's HTP: by its library or xdlc's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain

from xdlc import passes
from xdlc.errors import BackendError, ConstraintError, XdlcError, each_problem
from xdlc.ir import AxisScaleOffset, BlockwiseExpansion, Graph, Model, Op
from xdlc.ir.names import place_of
from xdlc.ir.quantization import used_bits
from xdlc.opdefs.control_flow import CONDITION, is_control_flow, roles
from xdlc.opdefs.traits import traits
from xdlc.opdefs.verify import verify_graph
from xdlc.options import spell
from xdlc.passes.narrow_integers import misfits
from xdlc.runtime.dynamic_dims import open_problem
from xdlc.runtime.htp import unsupported_ops
from xdlc.runtime.htp.library import library_folder
from xdlc.runtime.htp.unsupported_op import (
    fix_of_floats,
    host_problem,
    host_problems,
    is_host_only,
    is_quantized,
    problems_of,
    scales_problem,
    shortened,
    without_htp,
)
from xdlc.runtime.htp.validator_log import FIXED_DIMS, MAX_RANK, bind_dims
from xdlc.targets import Arch, Soc

PACKAGE = "onnxruntime-qnn"


@dataclass(frozen=True, slots=True)
class SocSupport:
    """Support of a model by a SoC.

    Attributes:
        judge: The source of the verdict, in words.
        is_vendors: Whether the vendor's library is the source; else xdlc's tables are.
        plain: Problems on any source: ops that run on the host only, integers that do not fit.
        refused: The problems that the source reports.
        inner: A line on each branch and loop body: which ops stay off HTP, and why.
        ops: Problem of each op that stays off HTP, by name of the graph and of the op.
    """

    judge: str
    is_vendors: bool
    plain: tuple[XdlcError, ...]
    refused: tuple[XdlcError, ...]
    inner: tuple[str, ...] = ()
    ops: Mapping[tuple[str, str], XdlcError] = field(default_factory=dict)


def judge(model: Model, soc: Soc, *, timeout: float = 600, tables_only: bool = False) -> SocSupport:
    """Query every op of every graph of a model.

    Ops of package ``xdlc`` run on the host only; they are reported without a query.  ``If`` and ``While`` are
    no problems if HTP supports the graphs that they run: caches hold partitions of these.

    Args:
        timeout: Seconds to wait for the vendor's library.
        tables_only: Whether to use xdlc's tables even where the vendor's library is installed, which needs
            seconds.

    Raises:
        BackendError: If the vendor's library is installed but fails.
    """
    unbound = open_problem(model)
    if not soc.has_htp:
        problem = without_htp(soc, "choose another SoC")
        host = tuple(host_problems(model.graphs.values(), model, (), whole=False))
        return SocSupport("xdlc's table of SoCs", False, host, (problem,))
    wide = {name: list(misfits(graph)) for name, graph in model.graphs.items()}
    adapted = model.clone()
    for graph in adapted.graphs.values():
        passes.run(graph, passes.htp_query())
    skip = {
        (graph.name, op.name)
        for graph in adapted.graphs.values()
        for op in graph.ops
        if is_host_only(op) or (unbound is not None and _is_dynamic(op))
    }
    is_vendors = not tables_only and _has_library()
    by = f"the vendor's library ({PACKAGE} {version(PACKAGE)})" if is_vendors else "xdlc's tables of HTP"
    if is_vendors:
        refused, kept = _by_vendor(model, soc, timeout, skip)
    else:
        refused, kept = _by_tables(adapted, soc, skip)
    is_known = bool(kept) or not refused  # else the library refused the model before it got to the ops
    for name, graph in adapted.graphs.items():
        own = (host_problem(name, op) for op in graph.ops if is_host_only(op) and not is_control_flow(op))
        for each in (*wide[name], *own):
            kept.setdefault((name, each.node or ""), each)
    host = tuple(host_problems(adapted.graphs.values(), adapted, kept, whole=False))
    if unbound is not None:
        for name, graph in adapted.graphs.items():
            for op in filter(_is_dynamic, graph.ops):
                kept.setdefault((name, op.name), ConstraintError(FIXED_DIMS, node=op.name, op=op.type))
    inner = tuple(_inner(model, kept)) if is_known else ()
    return SocSupport(by, is_vendors, (*host, *chain(*wide.values())), tuple(refused), inner, kept)


_Kept = dict[tuple[str, str], XdlcError]
"""Problems of ops that stay off HTP, by graph and op."""


def _inner(model: Model, kept: _Kept) -> Iterator[str]:
    by_graph: dict[str, list[str]] = {}
    for (graph, op), problem in kept.items():
        by_graph.setdefault(graph, []).append(f"{op!r} ({problem.op}): {problem.problem}")
    for name, (role, caller) in roles(model.graphs).items():
        if role != CONDITION and name in model.graphs:
            state = f"not on HTP: {shortened(by_graph[name])}" if name in by_graph else "HTP supports all ops"
            yield f"{role} of {caller.name!r}: {state}"


def _by_vendor(
    model: Model, soc: Soc, timeout: float, skip: Collection[tuple[str, str]]
) -> tuple[list[XdlcError], _Kept]:
    try:
        unsupported = unsupported_ops(model, soc.name, timeout=timeout, skip=sorted(skip))
    except XdlcError as error:
        refused = each_problem(error)
        if all(isinstance(problem, ConstraintError) for problem in refused):
            return list(refused), {}
        raise
    place = f"model: {soc.name}"
    return problems_of(unsupported, place), {
        (one.graph, one.op): problems_of([one], place)[0] for one in unsupported
    }


def _is_dynamic(op: Op) -> bool:
    return any(tensor is not None and tensor.dynamic_axes for tensor in (*op.inputs, *op.outputs))


def _has_library() -> bool:
    try:
        library_folder()
    except BackendError:
        return False
    return True


def _by_tables(model: Model, soc: Soc, skip: Collection[tuple[str, str]]) -> tuple[list[XdlcError], _Kept]:
    found = [(graph.name, each) for graph in model.graphs.values() for each in _violations(graph, soc, skip)]
    return [each for _, each in found], {(name, each.node or ""): each for name, each in reversed(found)}


def _violations(graph: Graph, soc: Soc, skip: Collection[tuple[str, str]]) -> Iterator[XdlcError]:
    """Yield violations of HTP's definitions and capabilities by an adapted graph."""
    violations = verify_graph(graph, backend="htp")
    yield from (problem for problem in violations if (graph.name, problem.node) not in skip)
    floats = [op for op in graph.ops if (graph.name, op.name) not in skip and _computes_floats(op)]
    if floats and not soc.fp16:
        yield ConstraintError(
            f"the vendor's compiler has no float graphs for {soc.name}, but {len(floats)} op(s) are float",
            node=floats[0].name,
            op=floats[0].type,
            fix=fix_of_floats(is_quantized=is_quantized(graph)),
            code="XD104",
        )
    for op in graph.ops:
        if (graph.name, op.name) in skip:
            continue
        for problem in (*_by_shapes(op), *_by_generation(op, soc)):
            problem.where, problem.node, problem.op = place_of(op), op.name, op.type
            yield problem


def _computes_floats(op: Op) -> bool:
    """Return whether an op outputs floats that are not dequantized values."""
    source = op.inputs[0] if op.inputs else None
    makes = op.type in ("Cast", "Dequantize") and source is not None and not source.dtype.is_float
    return not makes and any(tensor.dtype.is_float for tensor in op.outputs)


def _by_shapes(op: Op) -> Iterator[XdlcError]:
    if is_host_only(op):
        return
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    deepest = max((tensor.rank for tensor in tensors), default=0)
    if deepest > MAX_RANK:
        yield ConstraintError(
            f"has a tensor of rank {deepest}, but HTP supports at most rank {MAX_RANK}",
            fix=f"insert Reshapes around the op, so that its tensors have at most {MAX_RANK} axes",
            code="XD101",
        )
    if any(tensor.dynamic_axes for tensor in tensors):
        yield ConstraintError(FIXED_DIMS, fix=bind_dims(), code="XD105")


def _by_generation(op: Op, soc: Soc) -> Iterator[XdlcError]:
    if (problem := scales_problem(op)) is not None:
        yield ConstraintError(problem[0], fix=problem[1], code="XD106")
    for name in _needs(op):
        if not getattr(soc.capabilities, name):
            yield ConstraintError(
                f"needs {_CAPABILITIES[name]}, which {soc.capabilities.name} of {soc.name} does not have",
                fix=f"quantize the float model: {spell('quantize.target', soc.name)}, or choose a newer SoC",
                code="XD106",
            )


_CAPABILITIES = {
    "a8w8": "8-bit weights with 8-bit activations",
    "a8w4": "4-bit weights with 8-bit activations",
    "a16w8": "8-bit weights with 16-bit activations",
    "a16w4": "4-bit weights with 16-bit activations",
    "a16w2": "2-bit weights with 16-bit activations",
    "a16w16": "16-bit weights or factors with 16-bit activations",
    "per_channel": "weights with one scale per channel",
    "lpbq": "weights with block scales over channel scales",
    "bf16": "bfloat16",
}


def _needs(op: Op) -> Iterator[str]:
    """Yield the names of the capabilities of an ``Arch`` that an op needs."""
    if any(tensor.dtype.name == "bfloat16" for tensor in op.outputs):
        yield "bf16"
    if len(op.inputs) < 2:
        return
    data, weight = op.inputs[:2]
    if data is None or weight is None or not (data.dtype.is_fixed and weight.dtype.is_fixed):
        return
    if weight.dtype.bits == 16 and 1 in traits(op).centred_16:
        yield "a16w16"
    elif weight.is_static and traits(op).weight is not None:
        width = f"a{data.dtype.bits}w{used_bits(weight)}"
        if width in Arch.__dataclass_fields__:
            yield width
        if isinstance(weight.encoding, AxisScaleOffset):
            yield "per_channel"
        elif isinstance(weight.encoding, BlockwiseExpansion):
            yield "lpbq"
