"""Verification of one op against its definition.

Arity, data types, ranks, named dimensions, parameters and constraints are checked.  A constraint is enforced
if it is an expression (see ``constraint_parser``) whose names are all bound; other texts, and those of type
Description, are documentation.  The data types of native operations are exact; a UDO that accepts only
fixed-point types accepts float32 too, which a quantizer replaces later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from xdlc.errors import nearest_names
from xdlc.ir.data import Elided
from xdlc.ir.dtype import FLOAT32, PLAIN, STRING, UINT8, UINT16, UNDEFINED, DType
from xdlc.ir.graph import NATIVE_PACKAGE, Op
from xdlc.ir.tensor import Param, Role, Scalar, Tensor
from xdlc.opdefs.constraint_check import Failure, Rule, check, rules_of
from xdlc.opdefs.constraint_eval import MAX_STEPS, EvalBudget, TooManyStepsError
from xdlc.opdefs.constraint_scope import OpScope, places_of
from xdlc.opdefs.model import OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, make_view
from xdlc.opdefs.shape_text import named_dims, stated_dims, states_dims
from xdlc.opdefs.supplements import tensors_of
from xdlc.opdefs.xml_elements import Key
from xdlc.records import record

_STRUCTURE = ("arity", "mandatory", "rank")
_FIXES = {
    "Shape": "check the shapes around the op, or insert a Reshape",
    "Datatype": "insert a Cast or a Convert",
}


@record(frozen=True)
class Problem:
    """A breach of a definition.

    Attributes:
        subject: Input, output or parameter.
        expected: Requirement of the definition.
        found: What the op has.
        rule: The text of the constraint, or which other rule it is: ``type``, ``arity``, ``data type``,
            ``rank``, ``shape``, ``static``, ``enumeration``, ``mandatory``, ``name``, ``only default``.
        place: Part of the definition, as ``xml_elements.keys`` has it, from the op on; empty for the op.
    """

    subject: str
    expected: str
    found: str
    rule: str
    fix: str | None = None
    place: Key = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.found}"

    def located(self, lines: Mapping[Key, str] | None = None) -> str:
        """Return the problem with the broken constraint and its place.

        Args:
            lines: ``file:line`` of the parts of the op's definition, ``()`` for the whole; None if not kept.

        Example:
            >>> place = ("param", "k", "Constraint", "7")
            >>> problem = Problem("parameter 'k'", "k > 0", "k is 0", "k > 0", None, place)
            >>> problem.located({("param", "k"): "ops.xml:4"})
            "parameter 'k': expected k > 0, found k is 0 (constraint '7' in ops.xml:4)"
        """
        words = f"constraint {self.place[-1]!r}" if "Constraint" in self.place else ""
        if words and not self.expected.startswith(self.rule):
            words += f" {' '.join(self.rule.split())!r}"
        lengths = range(len(self.place), -1, -1)
        line = next((lines[self.place[:n]] for n in lengths if self.place[:n] in lines), "") if lines else ""
        words = " in ".join(filter(None, (words, line)))
        return f"{self} ({words})" if words else str(self)


class OpVerifier:
    """Checks ops against one definition; its constraints are parsed once.

    Attributes:
        is_native: Whether it is an operation of QNN, whose data types are exact.
    """

    def __init__(self, definition: OpDef) -> None:
        self.definition = definition
        self.is_native = definition.package == NATIVE_PACKAGE
        self._places = places_of(definition)
        self._states_dims = any(states_dims(entry) for _, entry, _ in tensors_of(definition))
        rules = [(*each, self.rules(each[1])) for each in tensors_of(definition)]
        self._enforced = [each for each in rules if any(rule.node is not None for rule in each[-1])]
        self._sides = (("input", definition.inputs), ("output", definition.outputs))

    def rules(self, tensor: TensorDef) -> list[Rule]:
        """Return the constraints of an input, output or parameter, enforced or not."""
        if not tensor.constraints:
            return []
        view = OpView(self.definition.package, self.definition.name, "", (), ())
        dims = dict.fromkeys(stated_dims(self.definition))
        return rules_of(tensor, OpScope(self.definition, view, tensor, dims))

    def is_sound(self, op: Op) -> bool:
        """Return whether an op has the tensors of its definition with their ranks."""
        return not any(problem.rule in _STRUCTURE for problem in self.structure(op))

    def structure(self, op: Op) -> Iterator[Problem]:
        """Yield breaches of arity, data types, ranks and names."""
        yield from self.arity(op)
        for (side, entries), tensors in zip(self._sides, (op.inputs, op.outputs), strict=True):
            for index, tensor in enumerate(tensors):
                if tensor is not None and tensor.role is not Role.NULL and entries:
                    place = min(index, len(entries) - 1)
                    if index == place or entries[-1].repeated:
                        yield from self._tensor(side, index, place, tensor)
        yield from self._params(op.params)

    def arity(self, op: Op) -> Iterator[Problem]:
        """Yield missing and surplus inputs and outputs, and texts for numbers."""
        for (side, entries), tensors in zip(self._sides, (op.inputs, op.outputs), strict=True):
            yield from self._arity(side, entries, tensors)
        for name, param in op.params.items():
            entry = self.definition.params.get(name)
            is_text = isinstance(param, Scalar) and isinstance(param.value, str)
            if entry is not None and is_text and not entry.enumeration and STRING not in entry.dtypes:
                yield from self._param(entry, param)

    def _arity(
        self, side: str, entries: Sequence[TensorDef], tensors: Sequence[Tensor | None]
    ) -> Iterator[Problem]:
        for index, entry in enumerate(entries):
            if entry.mandatory and (index >= len(tensors) or tensors[index] is None):
                fix = f"connect {side} {index} of the op"
                yield Problem(
                    f"{side} {entry.name!r}", "a tensor", "nothing", "mandatory", fix, (side, index)
                )
        repeated = bool(entries) and entries[-1].repeated
        if len(tensors) > len(entries) and not repeated and self.definition.complete:
            fix = f"remove the last {side}s"
            if not self.is_native:
                fix = f"mark the last {side} of the definition as Repeated, or remove the others from the op"
            yield Problem(f"{side}s", f"at most {len(entries)}", str(len(tensors)), "arity", fix)

    def subject(self, side: str, index: int, tensor: Tensor) -> str:
        """Return a tensor's name in messages: ``in[0] 'x'``, or as defined."""
        if self.is_native:
            return f"{side.removesuffix('put')}[{index}] {tensor.name!r}"
        entries = self.definition.inputs if side == "input" else self.definition.outputs
        return f"{side} {entries[min(index, len(entries) - 1)].name!r} ({tensor.name})"

    def _tensor(self, side: str, index: int, place: int, tensor: Tensor) -> Iterator[Problem]:
        entry = (self.definition.inputs if side == "input" else self.definition.outputs)[place]
        subject, key = self.subject(side, index, tensor), (side, place)
        if not self.accepts(entry.dtypes, tensor.dtype):
            expected = f"data type {type_names(entry.dtypes)}"
            yield Problem(subject, expected, tensor.dtype.name, "data type", "insert a Cast", key)
        is_single = self.is_native and entry.rank == 0 and tensor.shape == (1,)
        if entry.rank is not None and tensor.rank != entry.rank and not is_single:
            found = f"rank {tensor.rank} {list(tensor.shape)}"
            yield Problem(subject, f"rank {entry.rank}", found, "rank", "insert a Reshape", key)
        if side == "output" and self.is_native and (tensor.is_static or tensor.role is Role.STATIC):
            expected = "a tensor that the op computes"
            yield Problem(subject, expected, "static data", "static", "fold the op away", key)

    def accepts(self, allowed: Sequence[DType], dtype: DType) -> bool:
        """Return whether data types include another, or its quantized form in a UDO."""
        if not allowed or dtype is UNDEFINED or dtype in allowed:
            return True
        if self.is_native:
            return False
        if dtype is FLOAT32:
            return all(one.is_fixed or one in (UINT8, UINT16) for one in allowed)
        return PLAIN.get(dtype) in allowed

    def _params(self, params: Mapping[str, Param]) -> Iterator[Problem]:
        definitions = self.definition.params
        for name, param in params.items():
            if name in definitions:
                yield from self._param(definitions[name], param)
            elif self.definition.complete:
                fix = nearest_names(name, definitions) or (
                    "remove it" if self.is_native else "add it to the definition"
                )
                listed = f"one of {', '.join(definitions)}" if definitions else "no parameter"
                yield Problem(f"parameter {name!r}", listed, "an unknown name", "name", fix)
        for name, entry in definitions.items():
            if entry.mandatory and name not in params:
                place: Key = ("param", name)
                yield Problem(f"parameter {name!r}", "a value", "nothing", "mandatory", "set it", place)

    def _param(self, entry: ParamDef, param: Param) -> Iterator[Problem]:
        subject, place = f"parameter {entry.name!r}", ("param", entry.name)
        rank = 0 if isinstance(param, Scalar) else param.rank
        if entry.rank is not None and rank != entry.rank:
            kinds = ["a scalar" if one == 0 else f"a tensor of rank {one}" for one in (entry.rank, rank)]
            yield Problem(subject, kinds[0], kinds[1], "rank", f"write it as {kinds[0]}", place)
        elif not self.accepts(entry.dtypes, param.dtype):
            expected = f"data type {type_names(entry.dtypes)}"
            yield Problem(subject, expected, param.dtype.name, "data type", "change its data type", place)
        elif isinstance(param, Tensor) and param.data is None and self.is_native:
            yield Problem(
                subject, "static data", "none", "static", "set the elements of the parameter", place
            )
        elif entry.enumeration and isinstance(param, Scalar):
            value = param.value
            known = self.is_native if isinstance(value, str) else 0 <= value < len(entry.enumeration)
            if not known:
                listed = ", ".join(f"{word} {number}" for number, word in enumerate(entry.enumeration))
                yield Problem(
                    subject, f"one of {listed}", str(value), "enumeration", "use one of these", place
                )

    def scope(self, op: Op) -> tuple[OpScope, list[Problem]]:
        """Return the names of an op, and the problems of its named dimensions."""
        params = {name: param for name, param in op.params.items() if not _is_elided(param)}
        inputs = [None if one is not None and one.role is Role.NULL else one for one in op.inputs]
        view = make_view(self.definition, op.name, inputs, params, op.outputs, as_data=True)
        if not self._states_dims:
            return OpScope(self.definition, view, None, {}, self.is_native, self._places), []
        dims, conflicts = named_dims(self.definition, view, view.outputs)
        problems = []
        for side, index, expected, stated in conflicts:
            if self._has_other_rank(op, side, index):
                continue  # reported with the structure
            place: Key = ("param", index) if side == "param" else (side, self._position(side, int(index)))
            tensor = (op.inputs if side == "input" else op.outputs)[int(index)] if side != "param" else None
            subject = f"parameter {index!r}" if tensor is None else self.subject(side, int(index), tensor)
            fix = "check the shape and the axis order of the tensor"
            problems.append(Problem(subject, expected, stated, "shape", fix, place))
        return OpScope(self.definition, view, None, dims, self.is_native, self._places), problems

    def _has_other_rank(self, op: Op, side: str, index: int | str) -> bool:
        if side == "param":
            param, rank = op.params[str(index)], self.definition.params[str(index)].rank
            return rank is not None and isinstance(param, Tensor) and param.rank != rank
        entries, tensors = (
            (self._sides[0][1], op.inputs) if side == "input" else (self._sides[1][1], op.outputs)
        )
        tensor, rank = tensors[int(index)], entries[self._position(side, int(index))].rank
        return rank is not None and tensor is not None and tensor.rank != rank

    def _position(self, side: str, index: int) -> int:
        entries = self.definition.inputs if side == "input" else self.definition.outputs
        return min(index, len(entries) - 1)

    def broken_rules(self, op: Op, scope: OpScope | None = None) -> Iterator[Problem]:
        """Yield the constraints that an op breaks, and texts of shapes without a scope."""
        if scope is None:
            scope, problems = self.scope(op)
            yield from problems
        budget = EvalBudget()
        for side, entry, key, rules in self._enforced:
            subject = f"{'parameter' if side == 'param' else side} {entry.name!r}"
            if self.is_native and side != "param":
                tensors, index = op.inputs if side == "input" else op.outputs, int(key[-1])
                tensor = tensors[index] if index < len(tensors) else None
                if tensor is None:
                    continue
                subject = self.subject(side, index, tensor)
            yield from broken(rules, scope, entry, subject, key, budget)
            if budget.left < 0:
                return


def broken(
    rules: Iterable[Rule], scope: OpScope, tensor: TensorDef, subject: str, key: Key, budget: EvalBudget
) -> list[Problem]:
    """Return the broken constraints of a tensor.

    Args:
        tensor: The definition that they belong to.
        key: Its place in the definition.
        budget: Steps that the constraints of the op may still take.
    """
    own = OpScope(scope.definition, scope.view, tensor, scope.dims, scope.exact_types, scope.places)
    problems = []
    with budget.charged():
        for rule in rules:
            if rule.node is None:
                continue
            text, id = rule.constraint.text, rule.constraint.id
            try:
                failure = check(rule.node, own)
            except TooManyStepsError:
                failure = Failure(f"constraints that read {MAX_STEPS} numbers in all", "more")
                fix = "remove constraints about elements of large tensors from the definition"
            else:
                fix = "change the model, or the constraint in the definition"
                if scope.exact_types:
                    of_axes = (
                        "count axes from 0" if tensor.name in ("axis", "axes") else "change the parameter"
                    )
                    fix = _FIXES.get(rule.constraint.type, of_axes)
            if failure is not None:
                place = (*key, "Constraint", id) if id else key
                problems.append(Problem(subject, failure.expected, failure.found, text, fix, place))
            if budget.left < 0:
                break
    return problems


def type_names(dtypes: Iterable[DType]) -> str:
    """Return data types for a message."""
    return " or ".join(dtype.name for dtype in dtypes)


def _is_elided(param: Param) -> bool:
    return isinstance(param, Tensor) and (param.data is None or isinstance(param.data, Elided))
