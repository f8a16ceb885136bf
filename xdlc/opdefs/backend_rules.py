"""Constraints that differ between backends: an op is sound if one of its backends takes it.

A model is converted for all backends at once.  A supplement replaces a constraint of the definition, or
adds one, for its backend alone; that one which does not take an op then is a matter of a notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from xdlc.ir.graph import Op
from xdlc.ir.tensor import Scalar
from xdlc.opdefs.backend_view import constrained, only_default
from xdlc.opdefs.custom_verify import RuleProblem, broken_rules, is_sound
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import Collection, OpDef, ParamDef
from xdlc.opdefs.supplements import offered, side_of, tensors_of

_FIX = "change the model, or the supplement for the backend"


def backend_problems(op: Op, definition: OpDef, collection: Collection | None) -> list[RuleProblem] | None:
    """Return which rules an op breaks if no backend takes it; None if supplements have no rules for it.

    Args:
        op: An op that keeps to the rest of its definition.
        definition: Its definition.
        collection: The package, with what backends add.
    """
    refused = _refused(op, definition, collection)
    if not refused:
        return None
    if not all(refused.values()):
        return []
    common = [
        problem
        for problem in next(iter(refused.values()))
        if all(problem in held for held in refused.values())
    ]
    return common or [
        replace(problem, expected=f"{problem.expected} (for {backend})")
        for backend, held in refused.items()
        for problem in held[:1]
    ]


def backend_notices(op: Op, definition: OpDef, collection: Collection | None) -> Iterator[str]:
    """Yield why some backends do not take an op that others take."""
    if not is_sound(op, definition):
        return
    refused = _refused(op, definition, collection)
    if all(refused.values()):
        return
    for backend, held in refused.items():
        for problem in held[:1]:
            yield f"op {op.name!r} ({op.type} of {op.package}) is not for {backend}: {problem}"


def _refused(op: Op, definition: OpDef, collection: Collection | None) -> Mapping[str, list[RuleProblem]]:
    """Return the rules that an op breaks, by backend; empty if no backend has rules of its own."""
    tables = collection.supplements if collection is not None else ()
    rows = [(table.backend, row) for table in tables for row in table.ops.get(definition.name, ())]
    own = [
        backend
        for backend, row in rows
        for side in ("input", "output", "param")
        if any(added.constraints or added.only_default for added in side_of(row, side).values())
    ]
    if collection is None or not own:
        return {}
    names = sorted({*offered(collection).get(definition.name, ()), *own})
    forms = {name: constrained(definition, collection, name) for name in names}
    return {
        name: list(map(partial(_placed, definition, name), [*broken_rules(op, form), *_others(op, form)]))
        for name, form in forms.items()
    }


def _placed(definition: OpDef, backend: str, problem: RuleProblem) -> RuleProblem:
    """Return a problem with its place in the supplement, if the rule is not the definition's own."""
    for side, entry, key in tensors_of(definition):
        if key == problem.place[: len(key)]:
            if any(rule.text == problem.rule for rule in entry.constraints):
                return problem
            place = ("table", backend, side, entry.name, *problem.place[len(key) :])
            return replace(problem, place=place)
    return problem


def _others(op: Op, form: OpDef) -> Iterator[RuleProblem]:
    """Yield what is not the default that a backend takes alone."""
    for index, entry in enumerate(form.inputs):
        if only_default(entry) and index < len(op.inputs) and op.inputs[index] is not None:
            found = "a tensor"
            yield RuleProblem(f"input {entry.name!r}", "its default alone", found, "only default", _FIX)
    for _, entry, _ in tensors_of(form):
        param = op.params.get(entry.name) if isinstance(entry, ParamDef) and only_default(entry) else None
        if param is None:
            continue
        value = param.value if isinstance(param, Scalar) else param.numpy().tolist()
        if value != default_value(entry):
            expected = f"its default {entry.default} alone"
            yield RuleProblem(f"parameter {entry.name!r}", expected, str(value)[:40], "only default", _FIX)
