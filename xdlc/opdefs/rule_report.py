"""Which constraints of a package are enforced, and which are words for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from xdlc.opdefs.custom_verify import rules_of
from xdlc.opdefs.elements import Key
from xdlc.opdefs.model import Collection, OpDef, SupplementTensor, TensorDef
from xdlc.opdefs.semantics import TITLES, place
from xdlc.opdefs.supplement_rules import side_of, tensors_of

MAX_TEXT = 200
"""Most characters of a constraint that are shown."""


def rule_report(collection: Collection, lines: Mapping[Key, str] | None = None) -> list[str]:
    """Return a line for each constraint, with what becomes of it.

    Args:
        collection: The definitions.
        lines: ``file:line`` of the parts, by the keys of ``elements.keys``.
    """
    found: list[str] = []
    for index, op in enumerate(collection.opdefs):
        for side, tensor, key in tensors_of(op, ("op", index)):
            found += _told(op, side, tensor, key, lines or {}, "")
    for index, table in enumerate(collection.supplements):
        for op in (op for op in collection.opdefs if op.name in table.ops):
            for side, tensor, _ in tensors_of(op):
                for row in table.ops[op.name]:
                    added = side_of(row, side).get(tensor.name)
                    if added is not None and added.constraints:
                        key = ("table", index, "op", op.name, side, tensor.name)
                        found += _told(op, side, _with(tensor, added), key, lines or {}, table.backend)
    return found


def _with(tensor: TensorDef, added: SupplementTensor) -> TensorDef:
    return replace(tensor, constraints=added.constraints)


def _told(
    op: OpDef, side: str, tensor: TensorDef, key: Key, lines: Mapping[Key, str], backend: str
) -> Iterator[str]:
    title = f"op {op.name!r}: {TITLES[side]} {tensor.name!r}{f' for {backend}' if backend else ''}"
    for rule, node, reason in rules_of(tensor, op):
        where = place(lines, (*key, "Constraint", rule.id))
        verdict = "enforced" if node is not None else "kept as text"
        if reason:
            verdict = f"kept as text, as {reason}"
        text = rule.text if len(rule.text) <= MAX_TEXT else f"{rule.text[: MAX_TEXT - 3]}..."
        yield f"{f'{where}: ' if where else ''}{title}: {verdict}: {' '.join(text.split())}"
