"""An op that HTP refuses, and the errors that tell of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.errors import ConstraintError, XdlcError
from xdlc.ir import Graph
from xdlc.runtime.htp.op_facts import NO_FACTS, OpFacts
from xdlc.runtime.htp.validator_log import explain, lacking


@dataclass(frozen=True, slots=True)
class Refused:
    """An op that HTP does not take.

    Attributes:
        graph: Name of its graph.
        op: Its name.
        type: Its type, with the package in front where that is not the native one.
        problem: The reason in words.
        fix: What to do about it.
        lacks: The number format that the SoC lacks altogether, if that is the reason.
    """

    graph: str
    op: str
    type: str
    problem: str
    fix: str
    lacks: str | None = None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Refused:
        """Return the refusal that the child answers with."""
        lacks = lacking(answer["log"])
        facts = OpFacts.read(answer["facts"]) if "facts" in answer else NO_FACTS
        problem, fix = explain(answer["type"], answer["code"], answer["log"], facts)
        if lacks is not None:
            problem = f"this SoC has no {lacks}: accepted are ops of quantized types"
            fix = fix_of_floats(is_quantized=answer.get("quantized", False))
        return cls(answer["graph"], answer["op"], answer["type"], problem, fix, lacks)


def is_quantized(graph: Graph) -> bool:
    """Return whether a graph computes in fixed point already; stored weights alone do not count."""
    return any(tensor.dtype.is_fixed and not tensor.is_static for op in graph.ops for tensor in op.outputs)


def fix_of_floats(*, is_quantized: bool) -> str:
    """Return what to do about float ops on a SoC without FP16.

    Args:
        is_quantized: Whether the graph is quantized, so that quantization left these ops float.
    """
    if not is_quantized:
        return "quantize the model, or choose a SoC that takes float graphs"
    return (
        "prepare with xdlc-graph-prepare --partition, which leaves the ops that quantization kept in float "
        "to the CPU, or choose a SoC that has FP16"
    )


def in_words(refused: Iterable[Refused], place: str) -> list[XdlcError]:
    """Return one problem for each op, but a single one for all ops whose number format the SoC lacks.

    Args:
        refused: The ops.
        place: The file or model, and the SoC.
    """
    needing: dict[str | Refused, list[Refused]] = {}
    for each in refused:
        needing.setdefault(each.lacks or each, []).append(each)
    plain = [_problem(users[0], place) for key, users in needing.items() if isinstance(key, Refused)]
    return [*plain, *(_lack(users, place) for key, users in needing.items() if isinstance(key, str))]


def _problem(refused: Refused, place: str, others: str = "") -> ConstraintError:
    return ConstraintError(
        refused.problem,
        where=f"{place}: graph {refused.graph!r}: op {refused.op!r} ({refused.type}){others}",
        fix=refused.fix,
        node=refused.op + others,
        op=refused.type + others,
    )


def _lack(users: Sequence[Refused], place: str) -> ConstraintError:
    problem = _problem(users[0], place, " and others" if len(users) > 1 else "")
    problem.problem += f", found are {len(users)} that compute in {users[0].lacks}"
    return problem
