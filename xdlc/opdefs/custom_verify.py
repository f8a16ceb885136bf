"""Checks an op of a user's package against its definition, constraints included.

A constraint is enforced if it is an expression (see ``xdlc.opdefs.constraint_parser``) whose names all mean
something in the op; ``rules_of`` says which are.  Others, and those of type Description, are words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from xdlc.errors import ConstraintError, nearest_names
from xdlc.ir.data import Elided
from xdlc.ir.dtype import FLOAT32, PLAIN, UINT8, UINT16, UNDEFINED, DType
from xdlc.ir.graph import Op, is_udo
from xdlc.ir.model import Model
from xdlc.ir.tensor import Param, Role, Scalar, Tensor
from xdlc.opdefs.constraint_check import check
from xdlc.opdefs.constraint_parser import Node, NotAnExpressionError, parse
from xdlc.opdefs.constraint_scope import OpScope
from xdlc.opdefs.eval_budget import MOST_STEPS, Effort, TooMuchError
from xdlc.opdefs.extent_names import in_rule, stated_names
from xdlc.opdefs.model import Constraint, OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, make_view
from xdlc.opdefs.shape_text import named_extents
from xdlc.opdefs.supplements import tensors_of
from xdlc.opdefs.xml_elements import Key

MAX_PROBLEMS = 20
"""Most problems that are told of one op."""
_SUBJECTS = {"Value": "value", "Number": "number", "Datatype": "datatype", "Shape": "shape"}


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """A breach of a definition.

    Attributes:
        subject: Input, output or parameter, by name.
        expected: What the definition says.
        found: What the op has.
        rule: The text of the constraint, or which other rule it is: ``arity``, ``data type``, ``rank``,
            ``shape``, ``enumeration``, ``mandatory``, ``name``.
        fix: What to do.
        place: Where the definition says it, as ``elements.keys`` has it, from the op on; empty if no part
            of the op does alone.
    """

    subject: str
    expected: str
    found: str
    rule: str
    fix: str | None = None
    place: Key = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, found {self.found}"

    def told(self, lines: Mapping[Key, str] | None = None) -> str:
        """Return the problem with the constraint that is broken, and with where the definition says it.

        Args:
            lines: ``file:line`` of the parts of the op's definition, ``()`` for the whole; None if not kept.

        Example:
            >>> place = ("param", "k", "Constraint", "7")
            >>> problem = RuleProblem("parameter 'k'", "k > 0", "k is 0", "k > 0", None, place)
            >>> problem.told({("param", "k"): "ops.xml:4"})
            "parameter 'k': expected k > 0, found k is 0 (constraint '7' in ops.xml:4)"
        """
        words = f"constraint {self.place[-1]!r}" if "Constraint" in self.place else ""
        if words and not self.expected.startswith(self.rule):
            words += f" {' '.join(self.rule.split())!r}"
        lengths = range(len(self.place), -1, -1)
        line = next((lines[self.place[:n]] for n in lengths if self.place[:n] in lines), "") if lines else ""
        words = " in ".join(filter(None, (words, line)))
        return f"{self} ({words})" if words else str(self)


def verify_custom(op: Op, definition: OpDef) -> list[RuleProblem]:
    """Return what is wrong with an op of a user's package; at most ``MAX_PROBLEMS``."""
    return list(islice(_problems(op, definition), MAX_PROBLEMS))


def is_sound(op: Op, definition: OpDef) -> bool:
    """Return whether constraints can be asked of an op: its tensors are there, of the ranks stated."""
    return not any(problem.rule in ("arity", "mandatory", "rank") for problem in _structure(op, definition))


Rules = Callable[[Op, OpDef], "list[RuleProblem] | None"]


def verify_custom_ops(
    model: Model,
    definitions: Iterable[OpDef],
    rules: Rules | None = None,
    lines: Mapping[tuple[str, str], Mapping[Key, str]] | None = None,
) -> list[ConstraintError]:
    """Return what is wrong with the ops of users in a model; ops without a definition are passed over.

    Args:
        model: The model.
        definitions: The definitions.
        rules: Gives the broken constraints of ops whose backends have some of their own, None for others.
        lines: ``file:line`` of the parts of definitions, by package and type, where they are kept.
    """
    held = {(definition.package, definition.name): definition for definition in definitions}
    return [
        ConstraintError(
            problem.told((lines or {}).get((op.package, op.type))),
            where=f"graph {graph.name!r}: op {op.name!r} ({op.type} of {op.package})",
            fix=problem.fix,
            node=op.name,
            op=op.type,
        )
        for graph in model.graphs.values()
        for op in graph.ops
        if is_udo(op) and (op.package, op.type) in held
        for problem in islice(_problems(op, held[op.package, op.type], rules), MAX_PROBLEMS)
    ]


def rules_of(tensor: TensorDef, definition: OpDef) -> list[tuple[Constraint, Node | None, str]]:
    """Return the constraints of a tensor, each with its expression, and why one is not enforced.

    The expression is None for words; a reason is given for what reads like a rule, but has a name that means
    nothing, or may mean two things.
    """
    if not tensor.constraints:
        return []
    view = OpView(definition.package, definition.name, "", (), ())
    names = dict.fromkeys(stated_names(definition))
    scope = OpScope(definition, view, tensor, names)
    tensors = {entry.name for entry in (*definition.inputs, *definition.outputs)}
    found: list[tuple[Constraint, Node | None, str]] = []
    for rule in tensor.constraints:
        node = None
        if rule.type != "Description":
            try:
                node = parse(rule.text, _SUBJECTS.get(rule.type, ""))
            except NotAnExpressionError:
                node = None
        if node is not None and not node.is_rule:
            node = None
        reason = ""
        if node is not None:
            node, both = in_rule(node, names, tensors, tensor.name, rule.type)
            unknown = scope.unknown(node)
            if unknown is not None:
                reason = f"{unknown!r} means nothing here"
            elif both:
                reason = (
                    f"{both!r} may be the extent or the elements of the tensor of that name: rename one, or "
                    "write shape(x)[i] for the extent"
                )
        found.append((rule, None if reason else node, reason))
    return found


def _problems(op: Op, definition: OpDef, rules: Rules | None = None) -> Iterator[RuleProblem]:
    sound = True
    for problem in _structure(op, definition):
        sound = sound and problem.rule not in ("arity", "mandatory", "rank")
        yield problem
    if sound:  # rules speak of tensors that are there, with the axes that they should have
        special = rules(op, definition) if rules is not None else None
        yield from broken_rules(op, definition) if special is None else special


def _structure(op: Op, definition: OpDef) -> Iterator[RuleProblem]:
    for side, definitions, tensors in (
        ("input", definition.inputs, op.inputs),
        ("output", definition.outputs, op.outputs),
    ):
        yield from _arity(side, definitions, tensors)
        for entry, tensor in _placed(definitions, tensors):
            for problem in _tensor(f"{side} {entry.name!r}", entry, tensor):
                yield replace(problem, place=(side, definitions.index(entry)))
    yield from _params(op.params, definition)


def _placed(
    definitions: Sequence[TensorDef], tensors: Sequence[Tensor | None]
) -> Iterator[tuple[TensorDef, Tensor]]:
    for index, tensor in enumerate(tensors):
        if definitions and tensor is not None and tensor.role is not Role.NULL:
            yield definitions[min(index, len(definitions) - 1)], tensor


def _arity(
    side: str, definitions: Sequence[TensorDef], tensors: Sequence[Tensor | None]
) -> Iterator[RuleProblem]:
    for index, entry in enumerate(definitions):
        missing = index >= len(tensors) or tensors[index] is None
        if entry.mandatory and missing:
            fix = f"connect {side} {index} of the op"
            yield RuleProblem(f"{side} {entry.name!r}", "a tensor", "nothing", "mandatory", fix)
    if len(tensors) > len(definitions) and not (definitions and definitions[-1].repeated):
        fix = f"mark the last {side} of the definition as Repeated, or remove the others from the op"
        yield RuleProblem(f"{side}s", f"at most {len(definitions)}", str(len(tensors)), "arity", fix)


def _tensor(subject: str, entry: TensorDef, tensor: Tensor) -> Iterator[RuleProblem]:
    subject = f"{subject} ({tensor.name})"
    if not _takes(entry.dtypes, tensor.dtype):
        expected = f"data type {_names(entry.dtypes)}"
        yield RuleProblem(subject, expected, tensor.dtype.name, "data type", "insert a Cast")
    if entry.rank is not None and tensor.rank != entry.rank:
        found = f"rank {tensor.rank} {list(tensor.shape)}"
        yield RuleProblem(subject, f"rank {entry.rank}", found, "rank", "insert a Reshape")


def _takes(allowed: Sequence[DType], dtype: DType) -> bool:
    """Return whether types allow another; reals that a quantizer is to store in fixed point count too."""
    if not allowed or dtype is UNDEFINED or dtype in allowed:
        return True
    if dtype is FLOAT32:
        return all(one.is_fixed or one in (UINT8, UINT16) for one in allowed)
    return PLAIN.get(dtype) in allowed


def _names(dtypes: Sequence[DType]) -> str:
    return " or ".join(dtype.name for dtype in dtypes)


def _params(params: Mapping[str, Param], definition: OpDef) -> Iterator[RuleProblem]:
    for name, param in params.items():
        entry = definition.params.get(name)
        if entry is None:
            fix = nearest_names(name, definition.params) or "add it to the definition"
            listed = ", ".join(definition.params) or "no parameter"
            yield RuleProblem(f"parameter {name!r}", listed, "an unknown name", "name", fix)
        else:
            for problem in _param(entry, param):
                yield replace(problem, place=("param", name))
    for name, entry in definition.params.items():
        if entry.mandatory and name not in params:
            yield RuleProblem(
                f"parameter {name!r}", "a value", "nothing", "mandatory", "set it", ("param", name)
            )


def _param(entry: ParamDef, param: Param) -> Iterator[RuleProblem]:
    subject = f"parameter {entry.name!r}"
    rank = 0 if isinstance(param, Scalar) else param.rank
    if entry.rank is not None and rank != entry.rank:
        kinds = ["a scalar" if one == 0 else f"a tensor of rank {one}" for one in (entry.rank, rank)]
        yield RuleProblem(subject, kinds[0], kinds[1], "rank", f"write it as {kinds[0]}")
    elif not _takes(entry.dtypes, param.dtype):
        expected = f"data type {_names(entry.dtypes)}"
        yield RuleProblem(subject, expected, param.dtype.name, "data type", "change its data type")
    elif entry.enumeration and isinstance(param, Scalar):
        value = param.value
        if isinstance(value, str) or not 0 <= value < len(entry.enumeration):
            listed = ", ".join(f"{word} {number}" for number, word in enumerate(entry.enumeration))
            yield RuleProblem(subject, f"one of {listed}", str(value), "enumeration", "take one of these")


def broken_rules(op: Op, definition: OpDef) -> Iterator[RuleProblem]:
    """Yield the constraints and texts of shapes that a sound op breaks."""
    params = {name: param for name, param in op.params.items() if not _is_elided(param)}
    view = make_view(definition, op.name, op.inputs, params, op.outputs)
    extents, conflicts = named_extents(definition, view, view.outputs)
    for text in conflicts:
        yield RuleProblem("shape", "extents as the definition names them", text, "shape", "check the shapes")
    effort = Effort()
    for side, tensor, key in tensors_of(definition):
        scope = OpScope(definition, view, tensor, extents)
        for rule, node, _ in rules_of(tensor, definition):
            subject = f"{'parameter' if side == 'param' else side} {tensor.name!r}"
            place = (*key, "Constraint", rule.id) if rule.id else key
            try:
                with effort.spent():
                    failure = check(node, scope) if node is not None else None
            except TooMuchError:
                expected, found = f"constraints that look at {MOST_STEPS} numbers in all", "more"
                fix = "take constraints about elements of large tensors out of the definition"
                yield RuleProblem(subject, expected, found, rule.text, fix, place)
                return
            if failure is not None:
                fix = "change the model, or the constraint in the definition"
                yield RuleProblem(subject, failure.expected, failure.found, rule.text, fix, place)


def _is_elided(param: Param) -> bool:
    return isinstance(param, Tensor) and (param.data is None or isinstance(param.data, Elided))
