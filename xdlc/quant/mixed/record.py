"""What mixed precision raised, what that brings and what it costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from xdlc.opdefs.macs import macs
from xdlc.quant.mixed.groups import has_weights
from xdlc.quant.mixed.search import Found
from xdlc.quant.mixed.trials import Trials


@dataclass(frozen=True, slots=True)
class Raised:
    """An op whose widths were raised.

    Attributes:
        op: Its name.
        tensors: The activations that it writes.
        before: Widths that were asked for, like ``A8W8``.
        after: Widths that it has now, or ``float``.
        gain: What its group's width is worth: dB lost when the group alone was lowered, None where
            that was not tried; ops of a group have the same.
        bytes: Bytes that its group moves more in an inference.
        macs: Its part of the network's multiply-accumulates, 0 to 1.
    """

    op: str
    tensors: tuple[str, ...]
    before: str
    after: str
    gain: float | None
    bytes: int
    macs: float


def raised_records(trials: Trials, found: Found) -> list[Raised]:
    """Return a record of each op that was raised, those of greatest gain first."""
    total = sum(macs(op) for op in trials.job.graph.ops)
    records = []
    for index, (group, level) in enumerate(zip(trials.groups, found.levels, strict=True)):
        if not level:
            continue
        more = trials.group_cost(index, level).bytes - trials.group_cost(index, 0).bytes
        for op in group.ops:
            names = [
                (str(choice) if has_weights(op) else str(choice).split("W")[0])
                for choice in (group.levels[0], group.levels[level])
            ]
            records.append(
                Raised(
                    op.name,
                    tuple(tensor.name for tensor in op.outputs),
                    names[0],
                    names[1],
                    found.gains.get(index),
                    round(more),
                    macs(op) / total if total else 0.0,
                )
            )
    return sorted(records, key=lambda record: -(record.gain or 0.0))


def summary(trials: Trials, found: Found, count: int) -> list[str]:
    """Return what was done, in lines for people."""
    base = tuple(0 for _ in found.levels)
    old, new = trials.whole_cost(base), trials.whole_cost(found.levels)
    proof = trials.proof
    others = "" if proof is None else f", {proof.sqnr(found.levels):.1f} dB on samples unseen by ranges"
    lines = [
        f"mixed precision: {trials.goal} to keep; {trials.sqnr(base):.1f} dB as asked, now "
        f"{trials.sqnr(found.levels):.1f} dB{others} (mean over outputs); {count} trials"
    ]
    kinds = Counter(
        str(group.levels[level]) for group, level in zip(trials.groups, found.levels, strict=True) if level
    )
    names = ", ".join(f"{number} to {name}" for name, number in sorted(kinds.items())) or "none"
    lines.append(f"mixed precision: of {len(found.levels)} groups of ops raised: {names}")
    if any(found.levels):
        parts = [f"bytes moved x {new.bytes / old.bytes:.2f}"] if old.bytes else []
        if old.bit_operations:
            parts.append(f"bit operations x {new.bit_operations / old.bit_operations:.2f}")
        lines.append(f"mixed precision costs: {', '.join(parts)}")
    for record in raised_records(trials, found):
        gain = "" if record.gain is None else f", worth {record.gain:.1f} dB"
        lines.append(
            f"raised {record.op!r} ({', '.join(record.tensors)}) from {record.before} to {record.after}"
            f"{gain}; {record.bytes:+,} bytes, {record.macs:.1%} of the MACs"
        )
    return lines
