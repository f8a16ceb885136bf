"""Attributes of format 3: their way into parameters of ops and back, and plain values of all others.

A plain value is ``[name, type, value]``, where the value of a nested attribute is a list of plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.errors import ContainerError
from xdlc.ir import Param, Scalar, Tensor, b8, f32, i32, static, string, u32
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, STRING, UINT32
from xdlc.schema._generated.dlc3_model import Attribute

FLAG, INTEGER, NATURAL, REAL, TEXT, FLAGS, POSITIONS, INTEGERS, REALS, TEXTS, NESTED = range(1, 12)
# By type: the field that holds the value.
FIELDS = {
    FLAG: "flag",
    INTEGER: "integer",
    NATURAL: "natural",
    REAL: "real",
    TEXT: "text",
    FLAGS: "flags",
    POSITIONS: "positions",
    INTEGERS: "integers",
    REALS: "reals",
    TEXTS: "texts",
    NESTED: "attributes",
}
SCALARS = {BOOL8: FLAG, INT32: INTEGER, UINT32: NATURAL, FLOAT32: REAL, STRING: TEXT}
LISTS = {BOOL8: FLAGS, INT32: POSITIONS, FLOAT32: REALS}
DEEPEST = 64
Kinds = dict[str, int]


def by_name(attributes: Sequence[Attribute], where: str) -> dict[str, Attribute]:
    """Return attributes by their names.

    Raises:
        ContainerError: If one has no name, or two have the same.
    """
    named: dict[str, Attribute] = {}
    for attribute in attributes:
        if attribute.name is None or attribute.name in named:
            raise ContainerError(f"has two attributes named {attribute.name!r}, or no name", where=where)
        named[attribute.name] = attribute
    return named


def children(attribute: Attribute | None) -> dict[str, Attribute]:
    """Return what is nested in an attribute, by name."""
    return {child.name or "": child for child in (attribute.attributes or ())} if attribute else {}


def elements(attribute: Attribute | None) -> Iterator[Attribute]:
    """Yield the elements of an array, which are named by their index."""
    held = children(attribute)
    index = 0
    while str(index) in held:
        yield held[str(index)]
        index += 1


def nested(name: str, held: Sequence[Attribute]) -> Attribute:
    """Return an attribute that holds others."""
    return Attribute(name, NESTED, attributes=list(held))


def array(name: str, held: Sequence[Attribute]) -> Attribute:
    """Return an array of attributes: their names become their indices."""
    for index, element in enumerate(held):
        element.name = str(index)
    return nested(name, held)


def to_plain(attribute: Attribute, where: str, depth: int = 0) -> list[Any]:
    """Return an attribute as plain values.

    Raises:
        ContainerError: If its type is not known, or it nests too deeply.
    """
    kind = attribute.type
    if kind not in FIELDS or depth > DEEPEST:
        raise ContainerError(
            f"has an attribute {attribute.name!r} of type {kind}, only 1 to 11 are known", where=where
        )
    value = getattr(attribute, FIELDS[kind])
    if kind == NESTED:
        value = [to_plain(child, where, depth + 1) for child in value or ()]
    elif kind >= FLAGS:
        value = list(value or ())
    return [attribute.name, kind, value]


def from_plain(plain: Sequence[Any]) -> Attribute:
    """Return the attribute that ``to_plain`` made plain values of."""
    name, kind, value = plain
    if kind == NESTED:
        value = [from_plain(child) for child in value]
    return _filled(name, kind, value)


def _filled(name: str | None, kind: int, value: Any) -> Attribute:
    attribute = Attribute(name, kind)
    setattr(attribute, FIELDS[kind], value)
    return attribute


def to_params(name: str, attribute: Attribute, layer: str, where: str, kinds: Kinds) -> dict[str, Param]:
    """Return the parameters for an attribute: one, or one for each leaf below it, under dotted names.

    Args:
        name: Name of the parameter.
        attribute: The attribute.
        layer: Name of its layer.
        where: Place for errors.
        kinds: Gets the types that ``from_params`` would not choose, by name.

    Raises:
        ContainerError: If a type is not known, or a name comes twice.
    """
    kind = attribute.type
    if kind == NESTED:
        found: dict[str, Param] = {}
        for child_name, child in by_name(attribute.attributes or (), where).items():
            found.update(to_params(f"{name}.{child_name}", child, layer, where, kinds))
        if not found:
            kinds[name] = kind
        return found
    if kind == TEXTS:
        kinds[name] = kind
        return {f"{name}.{index}": string(text) for index, text in enumerate(attribute.texts or ())}
    scalar = _scalar(attribute)
    if scalar is not None:
        return {name: scalar}
    import numpy

    dtypes = {FLAGS: numpy.bool_, POSITIONS: numpy.int32, INTEGERS: numpy.int32, REALS: numpy.float32}
    if kind not in dtypes:
        raise ContainerError(f"has an attribute {name!r} of type {kind}, only 1 to 11 are known", where=where)
    if kind == INTEGERS:
        kinds[name] = kind
    values = getattr(attribute, FIELDS[kind])
    return {name: static(f"{layer}_{name}", numpy.asarray(() if values is None else values, dtypes[kind]))}


def _scalar(attribute: Attribute) -> Scalar | None:
    kind = attribute.type
    if kind == FLAG:
        return b8(attribute.flag)
    if kind == INTEGER:
        return i32(attribute.integer)
    if kind == NATURAL:
        return u32(attribute.natural)
    if kind == REAL:
        return f32(attribute.real)
    return string(attribute.text or "") if kind == TEXT else None


def from_params(params: Mapping[str, Param], kinds: Mapping[str, int], where: str) -> list[Attribute]:
    """Return the attributes whose parameters these are.

    Args:
        params: Parameters by dotted names.
        kinds: What ``to_params`` noted of them.
        where: Place for errors.

    Raises:
        ContainerError: If a parameter is of a type that no attribute has, or nests too deeply.
    """
    tree: dict[str, Any] = {}
    for name in (*kinds, *params):
        if name.count(".") > DEEPEST:
            raise ContainerError(f"has an attribute {name[:40]!r}... that nests too deeply", where=where)
    for name, kind in kinds.items():
        if kind == NESTED:
            _put(tree, name, {})
        elif kind == TEXTS:
            _put(tree, name, Attribute("", TEXTS, texts=_texts(params, name)))
    for name, param in params.items():
        if kinds.get(name.rpartition(".")[0]) != TEXTS:
            _put(tree, name, _attribute(param, kinds.get(name, 0), f"{where}: attribute {name!r}"))
    return _grown(tree)


def _texts(params: Mapping[str, Param], name: str) -> list[str]:
    found: list[str] = []
    while isinstance(held := params.get(f"{name}.{len(found)}"), Scalar):
        found.append(str(held.value))
    return found


def _put(tree: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for step in path:
        inner = tree.setdefault(step, {})
        if not isinstance(inner, dict):
            inner = tree[step] = {}
        tree = inner
    tree[last] = value


def _grown(tree: Mapping[str, Any]) -> list[Attribute]:
    found = []
    for name, value in tree.items():
        attribute = nested(name, _grown(value)) if isinstance(value, dict) else value
        attribute.name = name
        found.append(attribute)
    return found


def _attribute(param: Param, kind: int, where: str) -> Attribute:
    kind = kind or (LISTS if isinstance(param, Tensor) else SCALARS).get(param.dtype, 0)
    if not kind or (isinstance(param, Tensor) and param.rank != 1):
        shape = list(param.shape) if isinstance(param, Tensor) else ""
        raise ContainerError(f"is {param.dtype}{shape}, which format 3 has no form for", where=where)
    if isinstance(param, Tensor):
        return _filled("", kind, tuple(param.numpy().tolist()))
    return _filled("", kind, param.value)
