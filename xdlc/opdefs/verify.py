"""Verification of graphs and models: native operations and UDOs.

A model is converted for all backends at once.  A supplement replaces a constraint of the definition of a UDO,
or adds one, for its backend alone; a backend that does not accept an op then is reported as a notice.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import NamedTuple

from xdlc.errors import ConstraintError, nearest_names
from xdlc.ir.data import Elided
from xdlc.ir.dtype import UNDEFINED
from xdlc.ir.graph import NATIVE_PACKAGE, Graph, Op, is_udo
from xdlc.ir.model import Model
from xdlc.ir.names import place_of
from xdlc.ir.tensor import Role, Scalar
from xdlc.opdefs.backend_view import constrained, only_default
from xdlc.opdefs.constraint_check import Rule
from xdlc.opdefs.constraint_eval import EvalBudget
from xdlc.opdefs.constraint_scope import OpScope
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.loader import all_types, find, supplement
from xdlc.opdefs.model import Collection, OpDef, ParamDef, SupplementTensor, TensorDef
from xdlc.opdefs.op_verifier import OpVerifier, Problem, broken, type_names
from xdlc.opdefs.supplements import is_used, offers_of, side_of, tensors_of
from xdlc.opdefs.xml_elements import Key

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
        """Yield why some backends reject an op that others accept."""
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
        """Return a problem with its place in the supplement that causes it, if any."""
        for side, entry, key in tensors_of(self._definition):
            if key == problem.place[: len(key)]:
                if any(rule.text == problem.rule for rule in entry.constraints):
                    return problem
                place = ("table", backend, side, entry.name, *problem.place[len(key) :])
                return replace(problem, place=place)
        return problem


def _not_default(op: Op, form: OpDef) -> Iterator[Problem]:
    """Yield inputs and parameters that differ from a backend's only accepted value."""
    for index, entry in enumerate(form.inputs):
        if only_default(entry) and index < len(op.inputs) and op.inputs[index] is not None:
            found = "a tensor"
            yield Problem(f"input {entry.name!r}", "only its default", found, "only default", _FIX)
    for _, entry, _ in tensors_of(form):
        param = op.params.get(entry.name) if isinstance(entry, ParamDef) and only_default(entry) else None
        if param is None:
            continue
        value = param.value if isinstance(param, Scalar) else param.tolist()
        if value != default_value(entry):
            expected = f"only its default {entry.default}"
            yield Problem(f"parameter {entry.name!r}", expected, str(value)[:40], "only default", _FIX)


_MAX_SOUND = 1 << 13
_MAX_ELEMENTS = 64
"""Most elements of a parameter that is part of a signature."""
_sound: dict[Hashable, bool] = {}
"""Whether native ops have no breach, by signature, of all graphs: passes verify alike ops over and over."""


def verify_arity(graph: Graph) -> list[ConstraintError]:
    """Return the inputs, outputs and numbers that native operations lack."""
    return [
        _error(op, problem)
        for op in graph.ops
        if op.package == NATIVE_PACKAGE and find(op.type) is not None
        for problem in _verifier(op.type).arity(op)
    ]


def verify_graph(graph: Graph, *, backend: str | None = None) -> list[ConstraintError]:
    """Return every breach of a native operation's definition.

    Ops of other packages are skipped.

    Args:
        backend: ``cpu``, ``gpu``, ``htp`` or ``hta``: check also what it supports.

    Raises:
        UsageError: If the backend is not known.
    """
    return [
        _error(op, problem)
        for op in graph.ops
        if op.package == NATIVE_PACKAGE
        for problem in _native_problems(op, backend)
    ]


def _error(op: Op, problem: Problem) -> ConstraintError:
    where = place_of(op)
    return ConstraintError(str(problem), where=where, fix=problem.fix, node=op.name, op=op.type, code="XD110")


def verify_op(op: Op, *, backend: str | None = None) -> list[str]:
    """Return the breaches of one native op as ``subject: expected ..., found ...``."""
    return [str(problem) for problem in _native_problems(op, backend)]


def accepts(backend: str, op: Op) -> bool:
    """Return whether a backend accepts a native op; alike ops are verified once."""
    is_sound = _sound.get(_signature(op, backend))
    return not _native_problems(op, backend) if is_sound is None else is_sound


def verify_udos(
    model: Model,
    definitions: Iterable[OpDef],
    collections: Mapping[str, Collection] | None = None,
    lines: Mapping[tuple[str, str], Mapping[Key, str]] | None = None,
) -> list[ConstraintError]:
    """Return the breaches of a model's UDOs; ops without a definition are skipped.

    Args:
        collections: Their packages by name, with what backends add: a constraint that differs between
            backends is broken if all backends of the op break it.
        lines: ``file:line`` of the parts of definitions, by package and type, where they are kept.
    """
    verifiers = {
        (definition.package, definition.name): UdoVerifier(
            definition, (collections or {}).get(definition.package)
        )
        for definition in definitions
    }
    return [
        ConstraintError(
            problem.located((lines or {}).get((op.package, op.type))),
            where=f"graph {graph.name!r}: op {op.name!r} ({op.type} of {op.package})",
            fix=problem.fix,
            node=op.name,
            op=op.type,
        )
        for graph in model.graphs.values()
        for op in graph.ops
        if is_udo(op) and (op.package, op.type) in verifiers
        for problem in verifiers[op.package, op.type].problems(op)
    ]


def _native_problems(op: Op, backend: str | None) -> list[Problem]:
    signature = _signature(op, backend)
    if _sound.get(signature):
        return []
    definition = find(op.type)
    if definition is None:
        fix = nearest_names(op.type, all_types()) or "set the package of a UDO"
        return [Problem("type", f"an operation of {NATIVE_PACKAGE}", op.type, "type", fix)]
    verifier = _verifier(op.type)
    scope, problems = verifier.scope(op)
    breaches = [*verifier.structure(op), *problems, *verifier.broken_rules(op, scope)]
    if backend is not None:
        breaches += _backend_problems(op, verifier, scope, backend)
    if signature is not None:
        if len(_sound) >= _MAX_SOUND:
            _sound.clear()
        _sound[signature] = not breaches
    return breaches


@cache
def _verifier(type: str) -> OpVerifier:
    definition = find(type)
    assert definition is not None
    return OpVerifier(definition)


def _signature(op: Op, backend: str | None) -> Hashable | None:
    """Return all that a verdict depends on; None for an op with large parameters."""
    params: list[Hashable] = []
    for name, param in op.params.items():
        if isinstance(param, Scalar):
            params.append((name, param))
        elif param.data is None or isinstance(param.data, Elided) or param.size > _MAX_ELEMENTS:
            return None
        else:
            params.append((name, param.shape, param.dtype.code, bytes(param.data.content())))
    inputs = op.inputs
    tensors = [
        ()
        if tensor is None
        else (tensor.shape, tensor.dtype.code, tensor.role, tensor.data is not None, tensor.dynamic_axes)
        for tensor in (*inputs, *op.outputs)
    ]
    return backend, op.type, len(inputs), *params, *tensors


# ---------------------------------------------------------------------- backends of native operations


class _Added(NamedTuple):
    """Restrictions that a row of a supplement adds to a tensor or parameter."""

    side: str
    entry: TensorDef
    key: Key
    held: SupplementTensor
    rules: list[Rule]


@cache
def _rows(type: str, backend: str) -> list[tuple[str, list[_Added]]] | None:
    """Return the alternatives of a backend, quantized ones first, or None."""
    tables = [table for table in supplement(backend).tables if type in table.supported]
    if not tables:
        return None
    verifier = _verifier(type)
    return [
        (
            table.backend,
            [
                _Added(side, entry, key, held, verifier.rules(replace(entry, constraints=held.constraints)))
                for side, entry, key in tensors_of(verifier.definition)
                if row is not None and (held := side_of(row, side).get(entry.name)) is not None
            ],
        )
        for table in tables
        for row in table.ops.get(type, (None,))
    ]


def _backend_problems(op: Op, verifier: OpVerifier, scope: OpScope, backend: str) -> list[Problem]:
    """Return the breaches of the closest alternative; none if one accepts the op."""
    name = backend.upper()
    rows = _rows(op.type, backend)
    if rows is None:
        fix = f"run the op on another processor than {name}"
        return [Problem("type", f"an operation that {name} has", op.type, "type", fix)]
    if not any(tensor is not None and tensor.dtype.is_fixed for tensor in (*op.inputs, *op.outputs)):
        rows = rows[::-1]  # float tables follow quantized ones: of equals, show what fits the op
    attempts = [
        [problem for added in row for problem in _refused(op, verifier, scope, added, f"{table}: ")]
        for table, row in rows
    ]
    return min(attempts, key=_distance)


def _distance(problems: Sequence[Problem]) -> tuple[int, int]:
    """Return how far an op is from a row; wrong types count more."""
    return len(problems), sum(problem.rule == "data type" for problem in problems)


def _refused(op: Op, verifier: OpVerifier, scope: OpScope, added: _Added, title: str) -> Iterator[Problem]:
    side, entry, key, stated, rules = added
    if side == "param":
        param = op.params.get(entry.name)
        if param is not None:
            subject = f"{title}parameter {entry.name!r}"
            if stated.dtypes and param.dtype not in stated.dtypes:
                expected = f"data type {type_names(stated.dtypes)}"
                yield Problem(subject, expected, param.dtype.name, "data type", "change its data type", key)
            names = entry.enumeration if isinstance(entry, ParamDef) else ()
            for problem in broken(rules, scope, entry, subject, key, EvalBudget()):
                yield replace(problem, expected=_in_words(problem.expected, names))
        return
    tensors = op.inputs if side == "input" else op.outputs
    first = int(key[-1])
    present = [
        (at, tensor)
        for at, tensor in enumerate(tensors[first : None if entry.repeated else first + 1], first)
        if tensor is not None and tensor.role is not Role.NULL
    ]
    for at, tensor in present:
        if stated.dtypes and tensor.dtype not in stated.dtypes and tensor.dtype is not UNDEFINED:
            expected, fix = f"data type {type_names(stated.dtypes)}", "quantize or convert the tensor"
            subject = f"{title}{verifier.subject(side, at, tensor)}"
            yield Problem(subject, expected, tensor.dtype.name, "data type", fix, key)
    if present and rules:
        subject = f"{title}{verifier.subject(side, *present[0])}"
        if side == "input" and any(tensor.is_static for _, tensor in present):
            limits = [rule for rule in rules if "extent(" in rule.constraint.text]
            rules = [rule for rule in rules if rule not in limits]
            yield from broken(limits, _without_static(op, scope), entry, subject, key, EvalBudget())
        yield from broken(rules, scope, entry, subject, key, EvalBudget())


def _without_static(op: Op, scope: OpScope) -> OpScope:
    """Return a scope without static inputs, whose dimensions a backend does not limit."""
    inputs = zip(op.inputs, scope.view.inputs, strict=True)
    kept = (None if tensor is None or tensor.is_static else spec for tensor, spec in inputs)
    return replace(scope, view=replace(scope.view, inputs=tuple(kept)))


def _in_words(text: str, names: Sequence[str]) -> str:
    """Return a text about an enumeration with the names of its numbers."""

    def named(match: re.Match[str]) -> str:
        number = int(match[0])
        return f"{names[number]} {number}" if number < len(names) else match[0]

    return re.sub(r"\d+", named, text) if names else text
