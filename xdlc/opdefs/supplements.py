"""Supplements of backends: which ones apply to an op, and their validity rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from xdlc.opdefs import backends
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import (
    Collection,
    Constraint,
    OpDef,
    ParamDef,
    SupplementOp,
    SupplementTable,
    SupplementTensor,
    TensorDef,
)
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC, Key, near


class Problem(NamedTuple):
    """A broken rule: the problem, its place in the collection, and a fix."""

    text: str
    key: Key
    fix: str | None = None


def supplement_problems(collection: Collection) -> Iterator[Problem]:
    """Yield the faults of supplements, or types and layouts that remain unspecified."""
    ops = {op.name: op for op in reversed(collection.opdefs)}
    offers = offered(collection)
    sound = not any(backends.unknown(op.backends) for op in collection.opdefs)
    for index, table in enumerate(collection.supplements):
        for problem in _table(table, ops, ("table", index)):
            sound = False
            yield problem
    if sound:
        yield from _unresolved(collection, offers)


def _table(table: SupplementTable, ops: Mapping[str, OpDef], key: Key) -> Iterator[Problem]:
    title = f"backend {table.backend}"
    for name, fix in backends.unknown([table.backend]):
        yield Problem(f"supplement for unknown backend {name!r}", key, fix)
    unknown = table.supported - ops.keys()
    for name in sorted(unknown):
        words = f"{title}: supported op {name!r} is not in the OpDefList"
        yield Problem(words, (*key, "supported", name), near(name, ops) or "define or remove it")
    for name, rows in table.ops.items():
        if name in ops:
            yield from _supplement(table, rows, ops[name], (*key, "op", name))
        elif name not in unknown:
            words = f"{title}: supplement of op {name!r}, which is not in the OpDefList"
            yield Problem(words, (*key, "op", name, "Name"), near(name, ops) or "define or remove it")


def offers_of(op: OpDef, collection: Collection) -> set[str]:
    """Return the backends of an op: those that it lists, and those that list it."""
    return {*op.backends, *(table.backend for table in collection.supplements if op.name in table.supported)}


def offered(collection: Collection) -> dict[str, set[str]]:
    """Return the backends of each op by its name."""
    return {op.name: offers_of(op, collection) for op in collection.opdefs}


def is_used(backend: str, offers: set[str]) -> bool:
    """Return whether an op supports the backend of a supplement."""
    return not offers or any(backends.overlap(backend, each) for each in offers)


def unused(collection: Collection) -> Iterator[tuple[Key, OpDef, str, str]]:
    """Yield the supplements for backends that the op does not list.

    Each is a place, the op, the backend and the op's backends.
    """
    ops, offers = {op.name: op for op in collection.opdefs}, offered(collection)
    for index, table in enumerate(collection.supplements):
        for name in filter(ops.__contains__, table.ops):
            if not is_used(table.backend, offers[name]):
                yield ("table", index, "op", name), ops[name], table.backend, ", ".join(sorted(offers[name]))


class Rows:
    """The supplements of a collection by backend and op."""

    def __init__(self, collection: Collection) -> None:
        self._rows: dict[tuple[str, str], list[SupplementOp]] = {}
        for table in collection.supplements:
            for name, rows in table.ops.items():
                self._rows.setdefault((table.backend, name), []).extend(rows)

    def of(self, op: str, backend: str) -> list[SupplementOp]:
        """Return the supplements of an op for a backend, the strongest first."""
        return [row for name in backends.chain(backend) for row in self._rows.get((name, op), ())]


def _supplement(
    table: SupplementTable, rows: Sequence[SupplementOp], op: OpDef, key: Key
) -> Iterator[Problem]:
    title = f"backend {table.backend}: supplement of op {op.name!r}"
    for row in rows:
        for side, title_, added, definitions in (
            ("input", "input", row.inputs, {tensor.name: tensor for tensor in op.inputs}),
            ("output", "output", row.outputs, {tensor.name: tensor for tensor in op.outputs}),
            ("param", "parameter", row.params, op.params),
        ):
            yield from _tensors(f"{title}: {title_}", added, definitions, (*key, side), side == "output")


def _tensors(
    title: str,
    added: Mapping[str, SupplementTensor],
    definitions: Mapping[str, TensorDef],
    key: Key,
    is_output: bool,
) -> Iterator[Problem]:
    for name, tensor in added.items():
        definition = definitions.get(name)
        where = (*key, name)
        if definition is None:
            fix = near(name, definitions) or f"use one of {', '.join(definitions) or 'none'}"
            yield Problem(f"{title} {name!r} is not in the op's definition", (*where, "Name"), fix)
            continue
        for problem in _tensor(tensor, definition, where, is_output):
            yield problem._replace(text=f"{title} {name!r} {problem.text}")


def _tensor(tensor: SupplementTensor, definition: TensorDef, key: Key, is_output: bool) -> Iterator[Problem]:
    extra = [dtype for dtype in tensor.dtypes if definition.dtypes and dtype not in definition.dtypes]
    if extra:
        allowed = ", ".join(dtype.name for dtype in definition.dtypes)
        fix = f"add the type to the definition, or make it {BACKEND_SPECIFIC}"
        yield Problem(
            f"has type {extra[0].name}, but the definition allows {allowed}", (*key, "Datatype"), fix
        )
    else:
        yield from _fitting(tensor, definition, key)
    if tensor.layout == BACKEND_SPECIFIC:
        yield Problem(
            f"has layout {BACKEND_SPECIFIC}, which specifies no layout", (*key, "Layout"), "state a layout"
        )
    elif tensor.layout and definition.layout not in ("", BACKEND_SPECIFIC, tensor.layout):
        words = f"has layout {tensor.layout}, but the definition has {definition.layout}"
        yield Problem(words, (*key, "Layout"), f"make it {BACKEND_SPECIFIC} in the definition")
    yield from repeated_ids(tensor.constraints, key)
    if tensor.only_default and definition.default is None:
        reason = "outputs have none" if is_output else "the definition has none"
        fix = "remove OnlyDefaultSupported" if is_output else "add a default to the definition"
        yield Problem(f"supports only its default, but {reason}", (*key, "OnlyDefaultSupported"), fix)


def _fitting(tensor: SupplementTensor, definition: TensorDef, key: Key) -> Iterator[Problem]:
    """Yield why the types of a backend do not fit the rest of the definition."""
    where = (*key, "Datatype")
    is_param = isinstance(definition, ParamDef)
    strings = any(dtype.kind == "string" for dtype in tensor.dtypes)
    if strings and not (is_param and definition.rank == 0):
        yield Problem("is a tensor of strings, expected numbers", where, "state another type")
        return
    odd = [dtype.name for dtype in tensor.dtypes if not dtype.is_integer]
    if odd and isinstance(definition, ParamDef) and definition.enumeration:
        yield Problem(f"is an enumeration of {odd[0]}, expected an integer type", where, "state another type")
    elif tensor.dtypes and not definition.dtypes and definition.default is not None:
        try:
            default_value(replace(definition, dtypes=tensor.dtypes))
        except ValueError as error:
            yield Problem(
                f"has in its definition the default {error}", where, "correct the type or the default"
            )


def repeated_ids(constraints: Sequence[Constraint], key: Key) -> Iterator[Problem]:
    """Yield each id that several constraints of one tensor have."""
    for id, count in Counter(rule.id for rule in constraints if rule.id).items():
        if count > 1:
            yield Problem(
                f"has {count} constraints of id {id!r}", (*key, "Constraint", id), "give each a different id"
            )


def _unresolved(collection: Collection, offers: Mapping[str, set[str]]) -> Iterator[Problem]:
    """Yield BACKEND_SPECIFIC types and layouts that no supplement specifies."""
    rows = Rows(collection)
    for index, op in enumerate(collection.opdefs):
        open_ = list(_left_open(op, ("op", index)))
        missing: dict[tuple[_Open, ...], list[str]] = {}
        for backend in sorted(offers[op.name]) if open_ else ():
            left = tuple(_not_resolved(open_, rows.of(op.name, backend)))
            missing.setdefault(left, []).append(backend)
        if open_ and not offers[op.name]:
            missing[tuple(open_)] = ["no backend"]
        for left, names in missing.items():
            if left:
                what = ", ".join(f"{one.what} of {one.kind} {one.name!r}" for one in left)
                yield Problem(
                    f"op {op.name!r} is {BACKEND_SPECIFIC} in {what}, {_for(names)}",
                    left[0].key,
                    "add a supplement for the backend, or state it in the definition",
                )


def _for(names: Sequence[str]) -> str:
    if names == ["no backend"]:
        return "but names no backend"
    return f"which no supplement specifies for {', '.join(names)}"


class _Open(NamedTuple):
    """A BACKEND_SPECIFIC type or layout of a definition."""

    what: str
    kind: str
    name: str
    key: Key


def _left_open(op: OpDef, key: Key) -> Iterator[_Open]:
    for side, tensor, where in tensors_of(op, key):
        kind = "parameter" if side == "param" else side
        if not tensor.dtypes:
            yield _Open("data type", kind, tensor.name, (*where, "Datatype"))
        if tensor.layout == BACKEND_SPECIFIC:
            yield _Open("layout", kind, tensor.name, (*where, "Layout"))


def _not_resolved(open_: Sequence[_Open], rows: Sequence[SupplementOp]) -> Iterator[_Open]:
    for part in open_:
        sides = [
            {"input": row.inputs, "output": row.outputs, "parameter": row.params}[part.kind] for row in rows
        ]
        held = [side[part.name] for side in sides if part.name in side]
        if not any(tensor.dtypes if part.what == "data type" else tensor.layout for tensor in held):
            yield part


def tensors_of(op: OpDef, key: Key = ()) -> Iterator[tuple[str, TensorDef, Key]]:
    """Yield inputs, outputs and parameters of an op, each with its side and its place."""
    for side, tensors in (("input", op.inputs), ("output", op.outputs)):
        for index, tensor in enumerate(tensors):
            yield side, tensor, (*key, side, index)
    for name, param in op.params.items():
        yield "param", param, (*key, "param", name)


def side_of(row: SupplementOp, side: str) -> Mapping[str, SupplementTensor]:
    """Return a supplement's tensors of one ``side``, as in ``xml_elements.keys``."""
    return {"input": row.inputs, "output": row.outputs, "param": row.params}[side]
