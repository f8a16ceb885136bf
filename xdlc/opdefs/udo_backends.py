"""Verification of UDOs whose constraints differ between backends.

A model is converted for all backends at once.  A supplement replaces a constraint of the definition, or
adds one, for its backend alone; a backend that does not accept an op then is reported as a notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from xdlc.ir.graph import Op
from xdlc.ir.tensor import Scalar
from xdlc.opdefs.backend_view import constrained, only_default
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import Collection, OpDef, ParamDef
from xdlc.opdefs.op_verifier import OpVerifier, Problem
from xdlc.opdefs.supplements import is_used, offers_of, side_of, tensors_of

_FIX = "change the model, or the supplement for the backend"


class UdoVerifier:
    """Checks ops against the definition of a UDO and the supplements of its backends.

    Args:
        collection: Its package, with what backends add; None if nothing does.
    """

    def __init__(self, definition: OpDef, collection: Collection | None = None) -> None:
        self._definition = definition
        self._collection = collection
        self._verifier = OpVerifier(definition)

    def problems(self, op: Op) -> Iterator[Problem]:
        """Yield the breaches of an op: of its definition, or on every backend."""
        structure = list(self._verifier.structure(op))
        yield from structure
        if not self._verifier.is_sound(op):
            return
        refusals = self._refusals(op)
        if not refusals:
            yield from self._verifier.broken_rules(op)
        elif all(refusals.values()):
            first, *others = refusals.values()
            common = [problem for problem in first if all(problem in held for held in others)]
            yield from common or [
                replace(problem, expected=f"{problem.expected} (for {backend})")
                for backend, held in refusals.items()
                for problem in held[:1]
            ]

    def notices(self, op: Op) -> Iterator[str]:
        """Yield why some backends do not accept an op that others accept."""
        refusals = self._refusals(op) if self._verifier.is_sound(op) else {}
        if all(refusals.values()):
            return
        for backend, held in refusals.items():
            for problem in held[:1]:
                yield f"op {op.name!r} ({op.type} of {op.package}) is not for {backend}: {problem}"

    @cached_property
    def _forms(self) -> Mapping[str, OpVerifier]:
        """The definition as each backend has it; empty if all are alike."""
        collection, name = self._collection, self._definition.name
        if collection is None:
            return {}
        offers = offers_of(self._definition, collection)
        own = [
            table.backend
            for table in collection.supplements
            for row in table.ops.get(name, ())
            if is_used(table.backend, offers)
            for side in ("input", "output", "param")
            if any(added.constraints or added.only_default for added in side_of(row, side).values())
        ]
        names = sorted({*offers, *own}) if own else []
        return {each: OpVerifier(constrained(self._definition, collection, each)) for each in names}

    def _refusals(self, op: Op) -> Mapping[str, list[Problem]]:
        """Return the constraints that an op breaks, by backend."""
        return {
            name: [
                self._placed(name, problem)
                for problem in (*form.broken_rules(op), *_not_default(op, form.definition))
            ]
            for name, form in self._forms.items()
        }

    def _placed(self, backend: str, problem: Problem) -> Problem:
        """Return a problem with its place in the supplement, if it is from there."""
        for side, entry, key in tensors_of(self._definition):
            if key == problem.place[: len(key)]:
                if any(rule.text == problem.rule for rule in entry.constraints):
                    return problem
                place = ("table", backend, side, entry.name, *problem.place[len(key) :])
                return replace(problem, place=place)
        return problem


def _not_default(op: Op, form: OpDef) -> Iterator[Problem]:
    """Yield inputs and parameters other than the default that a backend accepts alone."""
    for index, entry in enumerate(form.inputs):
        if only_default(entry) and index < len(op.inputs) and op.inputs[index] is not None:
            found = "a tensor"
            yield Problem(f"input {entry.name!r}", "its default alone", found, "only default", _FIX)
    for _, entry, _ in tensors_of(form):
        param = op.params.get(entry.name) if isinstance(entry, ParamDef) and only_default(entry) else None
        if param is None:
            continue
        value = param.value if isinstance(param, Scalar) else param.numpy().tolist()
        if value != default_value(entry):
            expected = f"its default {entry.default} alone"
            yield Problem(f"parameter {entry.name!r}", expected, str(value)[:40], "only default", _FIX)
