"""Tells what is known of a node that nothing covers."""

from __future__ import annotations

from typing import Any

from xdlc.converter.onnx.nodes import domain_of, name_of
from xdlc.converter.onnx.value_info import DeclaredTypes
from xdlc.converter.operators.inference import extents
from xdlc.converter.session.context import State
from xdlc.converter.values import Value
from xdlc.errors import XdlcError
from xdlc.opdefs.source_match import Operand, UncoveredNode


def describe(state: State, proto: Any, where: str, declared: DeclaredTypes) -> UncoveredNode:
    """Return what is known of a ``NodeProto``; its inputs may stand for nothing.

    Args:
        state: The import.
        proto: The node.
        where: File and node.
        declared: What the model states of its values.
    """
    return UncoveredNode(
        proto.op_type,
        domain_of(proto),
        name_of(proto),
        where,
        tuple(_input(state, name, declared) if name else None for name in proto.input),
        tuple(_stated(name, declared) if name else None for name in proto.output),
        {attribute.name: _attribute(state, attribute) for attribute in proto.attribute},
    )


def _attribute(state: State, proto: Any) -> Any:
    try:
        return state.attribute(proto)
    except (
        XdlcError,
        LookupError,
        TypeError,
        ValueError,
    ):  # no plain value: the message itself stands for it
        return proto


def _input(state: State, name: str, declared: DeclaredTypes) -> Operand:
    value = state.values[name] if name in state.values and name not in state.poisoned else None
    if value is None:
        return _stated(name, declared)
    if not isinstance(value, Value):
        return Operand(name, odd="a sequence or an optional")
    return Operand(name, extents(value), value.dtype, value.is_static)


def _stated(name: str, declared: DeclaredTypes) -> Operand:
    odd = declared.oddity(name)
    if odd:
        return Operand(name, odd=odd)
    found = declared.find(name)
    return Operand(name, found.shape, found.dtype)
