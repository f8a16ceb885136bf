"""Lint of valid definitions: notices, and which constraints are enforced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from xdlc.opdefs import backends
from xdlc.opdefs.constraint_check import Rule
from xdlc.opdefs.constraint_parser import NotAnExpressionError, parse
from xdlc.opdefs.model import Collection, OpDef
from xdlc.opdefs.op_verifier import OpVerifier
from xdlc.opdefs.semantics import TITLES, place
from xdlc.opdefs.shape_text import states_dims, undetermined
from xdlc.opdefs.supplements import offered, side_of, tensors_of, unused
from xdlc.opdefs.xml_elements import Key

_MAX_TEXT = 200
"""Most characters of a constraint that are shown."""
_LIKE_A_RULE = re.compile(
    r"[<>=≤≥≠∈]|\b(?:must|should|shall|has to|have to|equals?|at (?:least|most)|between|one of|in range|"
    r"(?:greater|larger|more|bigger|less|smaller|fewer) than|(?:non-?)?(?:positive|negative|zero)|odd|even|"
    r"divisible|multiples? of|same .*\bas)\b",
    re.IGNORECASE,
)


def notices(collection: Collection, lines: Mapping[Key, str] | None = None) -> list[str]:
    """Return remarks on definitions that break no rule, with their lines.

    Reported are ops that name no backend; supplements for backends that an op does not name; Repeated inputs
    and outputs of ops for DSP and HTP, whose number must be known when a package is built; texts of shapes
    that begin like a list of dimensions but are not one, and outputs with a dimension that nothing binds; and
    constraints that are not enforced although they look like a rule, as they are not an expression, or a name
    in them is not bound.

    Args:
        lines: ``file:line`` of the parts, by the keys of ``xml_elements.keys``.
    """
    found: list[str] = []
    for op, key, text in _remarks(collection):
        where = place(lines or {}, key)
        found.append(f"{where}: op {op.name!r}: {text}" if where else f"op {op.name!r}: {text}")
    return found


def rule_report(collection: Collection, lines: Mapping[Key, str] | None = None) -> list[str]:
    """Return a line for each constraint: whether it is enforced or documentation.

    Args:
        lines: ``file:line`` of the parts, by the keys of ``xml_elements.keys``.
    """
    report = []
    for op, key, title, rule in _rules(collection):
        where = place(lines or {}, key)
        verdict = "enforced" if rule.node is not None else "documentation"
        if rule.reason:
            verdict = f"documentation only, because {rule.reason}"
        text = rule.constraint.text
        text = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
        report.append(
            f"{f'{where}: ' if where else ''}op {op.name!r}: {title}: {verdict}: {' '.join(text.split())}"
        )
    return report


def _remarks(collection: Collection) -> Iterator[tuple[OpDef, Key, str]]:
    offers = offered(collection)
    rules = list(_rules(collection))
    for key, op, backend, own in unused(collection):
        yield op, key, f"xdlc ignores its supplement for {backend}, because it is offered for {own}"
    for index, op in enumerate(collection.opdefs):
        for key, text in _of_op(op, ("op", index), offers[op.name]):
            yield op, key, text
        for owner, key, title, rule in rules:
            if owner is not op:
                continue
            if reason := _not_enforced(rule):
                text = " ".join(rule.constraint.text.split())[:_MAX_TEXT]
                yield op, key, f"xdlc does not enforce constraint {text!r} of {title}: {reason}"


def _not_enforced(rule: Rule) -> str:
    """Return why a constraint in the form of a rule is not enforced, or ""."""
    text = rule.constraint.text
    if rule.reason or rule.node is not None or rule.constraint.type == "Description":
        return rule.reason
    if len(text) > _MAX_TEXT or not _LIKE_A_RULE.search(text):
        return ""
    try:
        parse(text, "value")
    except NotAnExpressionError as error:
        return f"it is not an expression ({error}); write one like 'rank(x) >= 2' or 'value in [0, 1]'"
    return "the expression compares nothing"


def _rules(collection: Collection) -> Iterator[tuple[OpDef, Key, str, Rule]]:
    """Yield the constraints of a collection with op, place and tensor."""
    verifiers = {op.name: OpVerifier(op) for op in collection.opdefs}
    for index, op in enumerate(collection.opdefs):
        for side, tensor, key in tensors_of(op, ("op", index)):
            for rule in verifiers[op.name].rules(tensor):
                yield op, (*key, "Constraint", rule.constraint.id), f"{TITLES[side]} {tensor.name!r}", rule
    for index, table in enumerate(collection.supplements):
        for op in (op for op in collection.opdefs if op.name in table.ops):
            for side, tensor, _ in tensors_of(op):
                for row in table.ops[op.name]:
                    added = side_of(row, side).get(tensor.name)
                    if added is None:
                        continue
                    key = ("table", index, "op", op.name, side, tensor.name, "Constraint")
                    title = f"{TITLES[side]} {tensor.name!r} for {table.backend}"
                    for rule in verifiers[op.name].rules(replace(tensor, constraints=added.constraints)):
                        yield op, (*key, rule.constraint.id), title, rule


def _of_op(op: OpDef, key: Key, offers: set[str]) -> Iterator[tuple[Key, str]]:
    if not offers:
        yield key, "names no backend: packages need a backend in SupportedBackend or SupportedOps"
    dsps = ", ".join(sorted(name for name in offers if backends.is_dsp(name)))
    unclear = {tensor.name: reason for tensor, reason in undetermined(op)}
    for side, tensor, where in tensors_of(op, key):
        title = f"{TITLES[side]} {tensor.name!r}"
        if tensor.repeated and dsps:
            yield (
                (*where, "Repeated"),
                f"{title} is Repeated, but {dsps} cannot have an unknown number of tensors: no library "
                "there implements it",
            )
        if tensor.text.startswith("[") and not states_dims(tensor):
            like = "write a list like [N, H / 2, in[0].dim[1]]"
            yield (*where, "Text"), f"xdlc keeps shape {tensor.text[:60]!r} of {title} as text: {like}"
        if side == "output" and tensor.name in unclear:
            yield (*where, "Text"), f"{title} has no shape from its text: {unclear[tensor.name]}"
