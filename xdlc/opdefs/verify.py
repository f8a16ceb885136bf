"""Checks a graph against the definitions of its operations, and against a backend."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from xdlc.errors import ConstraintError, nearest_names
from xdlc.ir.dtype import UNDEFINED, DType
from xdlc.ir.graph import NATIVE_PACKAGE, Graph, Op
from xdlc.ir.tensor import Param, Role, Scalar, Tensor
from xdlc.opdefs.loader import all_types, find, supplement
from xdlc.opdefs.model import (
    Constraint,
    OpDef,
    ParamDef,
    Supplement,
    SupplementOp,
    SupplementTensor,
    TensorDef,
)
from xdlc.opdefs.rules import Finding, check_datatype, check_extents, check_shape, check_value


class _Problem(NamedTuple):
    subject: str
    finding: Finding
    fix: str | None = None


class _Slot(NamedTuple):
    """A tensor at a place of an op, with its definition."""

    place: str
    definition: TensorDef
    tensor: Tensor


def verify_graph(graph: Graph, *, backend: str | None = None) -> list[ConstraintError]:
    """Return every breach of an operation's definition; none if the graph keeps to them all.

    Ops of other packages are passed over.

    Args:
        graph: The graph.
        backend: ``cpu``, ``gpu``, ``htp`` or ``hta``: check also what it supports.

    Raises:
        UsageError: If the backend is not known.
    """
    extra = supplement(backend) if backend else None
    errors: list[ConstraintError] = []
    sound: set[Hashable] = set()
    for op in graph.ops:
        if op.package != NATIVE_PACKAGE:
            continue
        signature = _signature(op)
        if signature in sound:
            continue
        problems = [
            ConstraintError(
                f"{subject}: expected {finding.expected}, found {finding.found}",
                where=f"graph {graph.name!r}: op {op.name!r} ({op.type})",
                fix=fix,
                node=op.name,
                op=op.type,
            )
            for subject, finding, fix in _op_problems(op, extra)
        ]
        errors += problems
        if signature is not None and not problems:
            sound.add(signature)
    return errors


def _signature(op: Op) -> Hashable | None:
    """Return all that a verdict depends on, None for an op with tensor parameters."""
    params = op.params
    if any(isinstance(param, Tensor) for param in params.values()):
        return None
    return (
        op.type,
        tuple(params.items()),
        *map(_tensor_signature, op.inputs),
        None,
        *map(_tensor_signature, op.outputs),
    )


def _tensor_signature(tensor: Tensor | None) -> Hashable:
    if tensor is None:
        return ()
    return tensor.shape, tensor.dtype.code, tensor.role, tensor.is_static, tensor.dynamic_axes


def verify_op(op: Op, *, backend: str | None = None) -> list[str]:
    """Return what is wrong with one native op, each as ``subject: expected ..., found ...``."""
    extra = supplement(backend) if backend else None
    return [
        f"{subject}: expected {finding.expected}, found {finding.found}"
        for subject, finding, _ in _op_problems(op, extra)
    ]


def _op_problems(op: Op, extra: Supplement | None) -> Iterator[_Problem]:
    definition = find(op.type)
    if definition is None:
        near = nearest_names(op.type, all_types())
        fix = near or "give a custom operation its own package name"
        yield _Problem("type", Finding("an operation of qti.aisw", op.type), fix)
        return
    inputs = list(_bound("in", definition.inputs, op.inputs))
    outputs = list(_bound("out", definition.outputs, op.outputs))
    yield from _arity("input", definition, definition.inputs, op.inputs)
    yield from _arity("output", definition, definition.outputs, op.outputs)
    bound: dict[str, tuple[int, str]] = {}
    places = _Places(op)
    for slot in inputs:
        yield from _slot_problems(places, slot, bound)
    for slot in outputs:
        yield from _slot_problems(places, slot, bound)
        if slot.tensor.is_static or slot.tensor.role is Role.STATIC:
            yield _Problem(
                _subject(slot), Finding("a tensor that the op computes", "static data"), "fold the op away"
            )
    yield from _params(op, definition, places)
    if extra is not None:
        yield from _backend_problems(op, extra, [*inputs, *outputs], places)


def _bound(
    prefix: str, definitions: Sequence[TensorDef], tensors: Sequence[Tensor | None]
) -> Iterator[_Slot]:
    for index, tensor in enumerate(tensors):
        if tensor is None or tensor.role is Role.NULL:
            continue
        if index < len(definitions):
            yield _Slot(f"{prefix}[{index}]", definitions[index], tensor)
        elif definitions and definitions[-1].repeated:
            yield _Slot(f"{prefix}[{index}]", definitions[-1], tensor)


def _arity(
    what: str, definition: OpDef, definitions: Sequence[TensorDef], tensors: Sequence[Tensor | None]
) -> Iterator[_Problem]:
    for index, wanted in enumerate(definitions):
        missing = index >= len(tensors) or tensors[index] is None
        if wanted.mandatory and missing:
            yield _Problem(
                f"{what} {wanted.name}",
                Finding("a tensor", "nothing"),
                f"connect {what} {index} of the op",
            )
    repeated = bool(definitions) and definitions[-1].repeated
    if len(tensors) > len(definitions) and not repeated and definition.complete:
        yield _Problem(
            f"{what}s", Finding(f"at most {len(definitions)}", str(len(tensors))), f"remove the last {what}s"
        )


def _subject(slot: _Slot) -> str:
    return f"{slot.place} {slot.tensor.name!r}"


def _slot_problems(places: _Places, slot: _Slot, bound: dict[str, tuple[int, str]]) -> Iterator[_Problem]:
    tensor, definition = slot.tensor, slot.definition
    subject = _subject(slot)
    if definition.dtypes and tensor.dtype not in (*definition.dtypes, UNDEFINED):
        yield _Problem(subject, _types(definition.dtypes, tensor.dtype), "insert a Cast")
    if definition.rank is not None and tensor.rank != definition.rank and not _is_single(tensor, definition):
        yield _Problem(
            subject,
            Finding(f"rank {definition.rank}", f"rank {tensor.rank} {list(tensor.shape)}"),
            "insert a Reshape",
        )
    elif finding := check_extents(definition.shape, tensor, places, bound):
        yield _Problem(subject, finding, "check the shape and the axis order of the tensor")
    for finding, fix in _constraint_findings(places, tensor, definition.constraints):
        yield _Problem(subject, finding, fix)


def _is_single(tensor: Tensor, definition: TensorDef) -> bool:
    return definition.rank == 0 and tensor.shape == (1,)


def _types(allowed: Sequence[DType], found: DType) -> Finding:
    return Finding(f"data type {' or '.join(dtype.name for dtype in allowed)}", found.name)


class _Places:
    """Finds the tensor at ``in[0]`` or ``out[1]``."""

    def __init__(self, op: Op) -> None:
        self._sides = {"in": op.inputs, "out": op.outputs}

    def __call__(self, name: str) -> Tensor | None:
        side, _, rest = name.partition("[")
        tensors = self._sides.get(side, ())
        index = rest.rstrip("]")
        return tensors[int(index)] if index.isdigit() and int(index) < len(tensors) else None


def _constraint_findings(
    places: _Places, tensor: Tensor, constraints: Sequence[Constraint]
) -> Iterator[tuple[Finding, str]]:
    for constraint in constraints:
        if constraint.type == "Shape" and (finding := check_shape(constraint.text, tensor, places)):
            yield finding, "check the shapes around the op, or insert a Reshape"
        if constraint.type == "Datatype" and (finding := check_datatype(constraint.text, tensor, places)):
            yield finding, "insert a Cast or a Convert"


def _params(op: Op, definition: OpDef, places: _Places) -> Iterator[_Problem]:
    for name, param in op.params.items():
        known = definition.params.get(name)
        if known is not None:
            yield from _param_problems(places, name, param, known)
        elif definition.complete:
            near = nearest_names(name, definition.params)
            yield _Problem(
                f"parameter {name!r}",
                Finding(f"one of {', '.join(definition.params) or 'none'}", "an unknown name"),
                near or "remove it",
            )
    for name, known in definition.params.items():
        if known.mandatory and name not in op.params:
            yield _Problem(f"parameter {name!r}", Finding("a value", "nothing"), "set it")


def _param_problems(places: _Places, name: str, param: Param, definition: ParamDef) -> Iterator[_Problem]:
    subject = f"parameter {name!r}"
    if isinstance(param, Scalar) != definition.is_scalar and definition.rank is not None:
        kinds = ("a scalar", "a tensor") if definition.is_scalar else ("a tensor", "a scalar")
        yield _Problem(subject, Finding(*kinds), f"write it as {kinds[0]}")
        return
    if definition.dtypes and param.dtype not in definition.dtypes:
        yield _Problem(subject, _types(definition.dtypes, param.dtype), "change its data type")
        return
    if isinstance(param, Tensor):
        if param.data is None:
            yield _Problem(subject, Finding("static data", "none"), "give the parameter its values")
            return
        if finding := check_extents(definition.shape, param, places, {}):
            yield _Problem(subject, finding, "check the parameter's shape")
    if definition.enumeration and isinstance(param, Scalar) and not isinstance(param.value, str):
        names = definition.enumeration
        if not 0 <= param.value < len(names):
            listed = ", ".join(f"{word} {number}" for number, word in enumerate(names))
            yield _Problem(subject, Finding(f"one of {listed}", f"{param.value:g}"), "take one of these")
    for finding in _value_findings(places, param, definition.constraints):
        yield _Problem(subject, finding, "count axes from 0" if name in ("axis", "axes") else None)


def _value_findings(places: _Places, param: Param, constraints: Sequence[Constraint]) -> Iterator[Finding]:
    for constraint in constraints:
        if constraint.type == "Value" and (finding := check_value(constraint.text, param, places)):
            yield finding


# ---------------------------------------------------------------------- backends


def _backend_problems(
    op: Op, extra: Supplement, slots: Sequence[_Slot], places: _Places
) -> Iterator[_Problem]:
    """Yield what the table that comes closest says against the op; nothing if one accepts it."""
    name = extra.backend.upper()
    tables = [table for table in extra.tables if op.type in table.supported]
    if not tables:
        yield _Problem(
            "type", Finding(f"an operation that {name} has", op.type), f"run the op elsewhere than on {name}"
        )
        return
    rows = [(table.backend, row) for table in tables for row in table.ops.get(op.type, (None,))]
    if not any(slot.tensor.dtype.is_fixed for slot in slots):
        rows.reverse()  # float tables stand behind quantized ones: of equals, show what fits the op
    attempts = [list(_row_problems(op, places, name, row, slots)) for name, row in rows]
    yield from min(attempts, key=_distance)


def _distance(problems: Sequence[_Problem]) -> tuple[int, int]:
    """Return how far an op is from a row; of as many problems, those with other types are further."""
    return len(problems), sum(problem.finding.expected.startswith("data type") for problem in problems)


def _row_problems(
    op: Op, places: _Places, backend: str, row: SupplementOp | None, slots: Sequence[_Slot]
) -> Iterator[_Problem]:
    if row is None:
        return
    for slot in slots:
        held = _row_tensor(row, slot)
        if held is not None:
            yield from _supplement_problems(places, f"{backend}: {_subject(slot)}", slot.tensor, held)
    for name, held in row.params.items():
        param = op.params.get(name)
        if param is not None:
            subject = f"{backend}: parameter {name!r}"
            if held.dtypes and param.dtype not in held.dtypes:
                yield _Problem(subject, _types(held.dtypes, param.dtype), "change its data type")
            definition = find(op.type)
            known = definition.params.get(name) if definition is not None else None
            for finding in _value_findings(places, param, held.constraints):
                yield _Problem(subject, _in_words(finding, known.enumeration if known else ()), None)


def _in_words(finding: Finding, names: Sequence[str]) -> Finding:
    """Return a finding about an enumeration with the names of its numbers."""

    def named(match: re.Match[str]) -> str:
        number = int(match[0])
        return f"{names[number]} {number}" if number < len(names) else match[0]

    return Finding(*(re.sub(r"\d+", named, text) if names else text for text in finding))


def _row_tensor(row: SupplementOp, slot: _Slot) -> SupplementTensor | None:
    side: Mapping[str, SupplementTensor] = row.inputs if slot.place.startswith("in") else row.outputs
    return side.get(slot.place) or (side.get(slot.definition.name) if slot.definition.repeated else None)


def _supplement_problems(
    places: _Places, subject: str, tensor: Tensor, held: SupplementTensor
) -> Iterator[_Problem]:
    if held.dtypes and tensor.dtype not in (*held.dtypes, UNDEFINED):
        yield _Problem(subject, _types(held.dtypes, tensor.dtype), "quantize or convert the tensor")
    for finding, fix in _constraint_findings(places, tensor, held.constraints):
        yield _Problem(subject, finding, fix)
