"""Ops that HTP does not support, and their errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdlc.errors import ConstraintError, XdlcError
from xdlc.ir import HOST_PACKAGE, AxisScaleOffset, BlockScaleOffset, Graph, Model, Op
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import blockers, is_control_flow, roles
from xdlc.options import spell
from xdlc.runtime.dynamic_dims import keeps_on_host, open_problem
from xdlc.targets import Soc

MAX_BLOCKERS = 8


@dataclass(frozen=True, slots=True)
class RefusedOp:
    """An op that HTP does not support.

    Attributes:
        type: Its type, with the package in front where that is not the native one.
        missing_format: The number format that the SoC lacks altogether, if that is the reason.
    """

    graph: str
    op: str
    type: str
    problem: str
    fix: str
    missing_format: str | None = None


def without_htp(soc: Soc, fix: str = "omit the SoC, or name a newer SoC") -> ConstraintError:
    """Return the error of a SoC that has no HTP."""
    problem = (
        f"{soc.name} has no HTP: its DSP has architecture {soc.capabilities.name}, and HTP starts with v68"
    )
    return ConstraintError(problem, fix=fix, code="XD103")


def problems_of(unsupported: Iterable[RefusedOp], place: str) -> list[XdlcError]:
    """Return a problem for each op, one for all of a missing number format.

    Args:
        place: The file or model, and the SoC.
    """
    groups: dict[str | RefusedOp, list[RefusedOp]] = {}
    for each in unsupported:
        groups.setdefault(each.missing_format or each, []).append(each)
    return [
        *(_problem(ops, place) for key, ops in groups.items() if isinstance(key, RefusedOp)),
        *(_problem(ops, place) for key, ops in groups.items() if isinstance(key, str)),
    ]


def _problem(ops: Sequence[RefusedOp], place: str) -> ConstraintError:
    first, others = ops[0], " and others" if len(ops) > 1 else ""
    missing = first.missing_format
    return ConstraintError(
        first.problem + (f"; {len(ops)} op(s) compute in {missing}" if missing else ""),
        where=f"{place}: graph {first.graph!r}: op {first.op!r} ({first.type}){others}",
        fix=first.fix,
        node=first.op + others,
        op=first.type + others,
        code="XD104" if missing else "XD101",
    )


def shortened(names: Sequence[str]) -> str:
    """Return the first names as text, and the number of the others."""
    more = f" and {len(names) - MAX_BLOCKERS} more" if len(names) > MAX_BLOCKERS else ""
    return f"{', '.join(names[:MAX_BLOCKERS])}{more}"


def is_quantized(graph: Graph) -> bool:
    """Return whether a graph computes in fixed point, beyond its weights."""
    return any(tensor.dtype.is_fixed and not tensor.is_static for op in graph.ops for tensor in op.outputs)


def fix_of_floats(*, is_quantized: bool) -> str:
    """Return the fix for float ops on a SoC without FP16.

    Args:
        is_quantized: Whether the graph is quantized, so that quantization left these ops float.
    """
    if not is_quantized:
        return "quantize the model, or choose a SoC that supports float graphs"
    return (
        f"prepare with {spell('prepare.partition', True)}, which leaves float ops to the CPU, or choose a "
        "SoC that has FP16"
    )


def scales_problem(op: Op) -> tuple[str, str] | None:
    """Return problem and fix of scales that HTP computes wrongly, or None.

    The vendor's validator accepts most products of fixed point and weights with a real scale per block, its
    compiler none but Conv2d without a bias from v81 on, and that computes other numbers.  Activations with a
    scale per channel, as of Quantize, become the lowest number (emulation of SDK 2.51).
    """
    source, weight = (*op.inputs, None, None)[:2]
    if any(isinstance(tensor.encoding, AxisScaleOffset) for tensor in op.outputs):
        return (
            "its result has a scale per channel, but HTP needs one scale",
            "quantize the result with one scale",
        )
    if source is None or weight is None or not source.dtype.is_fixed or not weight.is_static:
        return None
    if not isinstance(weight.encoding, BlockScaleOffset):
        return None
    return (
        "weights have a float scale per block, which HTP does not support with fixed-point activations",
        f"quantize the float model with {spell('use_lpbq', True)} and {spell('weights_block_size')}",
    )


def is_host_only(op: Op) -> bool:
    """Return whether only the host has an op."""
    return op.package == HOST_PACKAGE or is_udo(op)


def host_problems(
    graphs: Iterable[Graph],
    model: Model,
    unsupported: Collection[tuple[str, str]],
    *,
    whole: bool = True,
) -> Iterator[ConstraintError]:
    """Yield a problem for each host op, one for all with dynamic inputs.

    HTP has no op that runs other graphs; the problem of one names the ops in each branch and body that HTP
    does not support.

    Args:
        graphs: The graphs whose ops are checked.
        unsupported: Graph and name of each native op that HTP does not support.
        whole: Whether HTP is to run the graphs without the host, so that each ``If`` and ``While`` is a
            problem; else only those are that run an op which HTP does not support.
    """

    def reason(graph: Graph, op: Op) -> str | None:
        if is_host_only(op):
            return None if is_control_flow(op) else "runs on the host only"
        return "unsupported" if (graph.name, op.name) in unsupported else None

    unbound = open_problem(model)
    if unbound is not None:
        yield unbound
    found = roles(model.graphs)
    for graph in graphs:
        inside: dict[Op, dict[str, list[str]]] = {}
        for blocker in blockers(graph, model.graphs, reason):
            role, caller = found[blocker.graph.name]
            place = role if caller is blocker.caller else f"{role} of {caller.name!r}"
            held = inside.setdefault(blocker.caller, {}).setdefault(place, [])
            held.append(f"{blocker.op.name!r} ({blocker.op.type})")
        for op in graph.ops:
            if not is_host_only(op) or (unbound is not None and keeps_on_host(op)):
                continue
            if whole or op in inside or not is_control_flow(op):
                yield host_problem(graph.name, op, inside.get(op, {}))


def host_problem(graph: str, op: Op, inside: Mapping[str, Sequence[str]] | None = None) -> ConstraintError:
    """Return the problem of an op that only the host has.

    Args:
        inside: The ops that HTP does not support either, by the branch or body of it that has them.
    """
    fix = "rewrite the op with QNN's operators, or cut the model at the op and run this part on the host"
    why = op.origin.reason or "no QNN operation computes it"
    if is_control_flow(op):
        why = "HTP has no op that runs other graphs"
        fix = "run xdlc prepare: HTP runs the supported ops inside, and the host runs the rest"
    elif is_udo(op):
        why = f"it is a UDO of package {op.package}, and the compiler has no HTP library for it"
        fix = f"prepare with {spell('prepare.partition', True)}: HTP then runs the ops around this op"
    if inside:
        why += "; HTP also does not support these ops inside: "
        why += "; ".join(f"{place}: {shortened(names)}" for place, names in inside.items())
    return ConstraintError(
        f"runs on the host only: {why}",
        where=f"graph {graph!r}: op {op.name!r} ({op.type})",
        fix=fix,
        node=op.name,
        op=op.type,
        code="XD102",
    )
