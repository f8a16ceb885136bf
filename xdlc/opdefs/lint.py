"""What a user should know about definitions that break no rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from xdlc.opdefs import backends
from xdlc.opdefs.custom_verify import rules_of
from xdlc.opdefs.model import Collection, OpDef, SupplementTensor, TensorDef
from xdlc.opdefs.semantics import TITLES, place
from xdlc.opdefs.shape_reason import untold
from xdlc.opdefs.shape_text import is_extent
from xdlc.opdefs.supplements import offered, side_of, tensors_of
from xdlc.opdefs.xml_elements import Key

MAX_NOTICES = 100


def notices(collection: Collection, lines: Mapping[Key, str] | None = None) -> list[str]:
    """Return what is good to know, each with its line; at most ``MAX_NOTICES``.

    That an op with a Repeated input or output runs on DSP and HTP only with a number of tensors that is
    known when its package is built; that an op names no backend; that a text of a shape begins like a list
    of extents and is none, or that of an output has an extent that nothing tells; and that a constraint
    which reads like a rule is not enforced, because a name in it means nothing, or may mean two things.

    Args:
        collection: The definitions.
        lines: ``file:line`` of the parts, by the keys of ``elements.keys``.
    """
    found: list[str] = []
    offers = offered(collection)
    for index, op in enumerate(collection.opdefs):
        for key, text in _of_op(op, ("op", index), offers[op.name]):
            where = place(lines or {}, key)
            found.append(f"{where}: op {op.name!r}: {text}" if where else f"op {op.name!r}: {text}")
            if len(found) == MAX_NOTICES:
                return found
    return found


def _of_op(op: OpDef, key: Key, offers: set[str]) -> Iterator[tuple[Key, str]]:
    if not offers:
        yield key, "names no backend: packages are generated for those in SupportedBackend or SupportedOps"
    dsps = ", ".join(sorted(name for name in offers if backends.is_dsp(name)))
    unclear = {tensor.name: reason for tensor, reason in untold(op)}
    for side, tensor, where in tensors_of(op, key):
        title = f"{TITLES[side]} {tensor.name!r}"
        if tensor.repeated and dsps:
            yield (
                (*where, "Repeated"),
                f"{title} is Repeated, but {dsps} cannot have an unknown number of tensors: no library there "
                "has it",
            )
        if tensor.text.startswith("[") and not (tensor.shape and all(map(is_extent, tensor.shape))):
            like = "a list is like [N, H / 2, in[0].dim[1]]"
            yield (*where, "Text"), f"shape {tensor.text[:60]!r} of {title} is kept as text: {like}"
        if side == "output" and tensor.name in unclear:
            yield (*where, "Text"), f"{title} gets no shape from its text: {unclear[tensor.name]}"
        for rule, _, reason in rules_of(tensor, op):
            if reason:
                words = f"constraint {rule.text!r} of {title} is not enforced: {reason}"
                yield (*where, "Constraint", rule.id), words


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
