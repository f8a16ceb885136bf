"""Attributes of format 3 and the parameters of ops that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdlc.errors import ContainerError
from xdlc.ir import Param, Scalar, b8, f32, i32, static, string, u32
from xdlc.schema._generated.dlc3_model import Attribute

FLAG, INTEGER, NATURAL, REAL, TEXT, FLAGS, POSITIONS, INTEGERS, REALS, TEXTS, NESTED = range(1, 12)


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


def to_params(name: str, attribute: Attribute, layer: str, where: str) -> dict[str, Param]:
    """Return the parameters for an attribute: one, or one for each leaf below it, under dotted names.

    Args:
        name: Name of the parameter.
        attribute: The attribute.
        layer: Name of its layer.
        where: Place for errors.

    Raises:
        ContainerError: If a type is not known, or a name comes twice.
    """
    kind = attribute.type
    if kind == NESTED:
        found: dict[str, Param] = {}
        for child_name, child in by_name(attribute.attributes or (), where).items():
            found.update(to_params(f"{name}.{child_name}", child, layer, where))
        return found
    if kind == TEXTS:
        return {f"{name}.{index}": string(text) for index, text in enumerate(attribute.texts or ())}
    scalar = _scalar(attribute)
    if scalar is not None:
        return {name: scalar}
    import numpy

    lists = {
        FLAGS: (attribute.flags, numpy.bool_),
        POSITIONS: (attribute.positions, numpy.int32),
        INTEGERS: (attribute.integers, numpy.int32),
        REALS: (attribute.reals, numpy.float32),
    }
    if kind not in lists:
        raise ContainerError(f"has an attribute {name!r} of type {kind}, only 1 to 11 are known", where=where)
    values, dtype = lists[kind]
    return {name: static(f"{layer}_{name}", numpy.asarray(() if values is None else values, dtype))}


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
