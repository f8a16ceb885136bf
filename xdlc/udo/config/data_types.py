"""Reads the data types of an input, output or parameter: one for all cores, or one for each."""

from __future__ import annotations

from collections.abc import Mapping

from xdlc.ir.dtype import DType
from xdlc.udo.config import extension
from xdlc.udo.config.fields import Fields
from xdlc.udo.config.json_text import Node
from xdlc.udo.config.names import COMMON_TYPES, CORES, TYPES
from xdlc.udo.config.scope import choice, shown

ONE = "data_type"
MANY = "per_core_data_types"
MANY_OLD = "per_core_data_type"
SEVERAL = "xdlc_data_types"


def types_of(fields: Fields, is_scalar: bool) -> tuple[tuple[DType, ...], dict[str, DType]]:
    """Return the data types that all cores share, or those of each core.

    Args:
        fields: The entry.
        is_scalar: Whether it is a scalar, whose type is the same for all cores.
    """
    many = MANY
    if MANY_OLD in fields and MANY not in fields:
        fields.scope.notice(fields.line_of(MANY_OLD), f"{MANY_OLD} of {fields.what} is read as {MANY}")
        many = MANY_OLD
    if ONE in fields and many in fields:
        problem = f"{fields.what} has both {ONE} and {many}"
        fields.scope.report(fields.line_of(many), problem, "remove one of the two")
        return (), {}
    one = _type(fields, ONE, fields.node(ONE))
    each = _per_core(fields, many)
    if SEVERAL in fields:
        return extension.dtypes(fields, SEVERAL), each
    if fields.lacks(ONE, MANY, MANY_OLD):
        others = "" if is_scalar else f" or {MANY}"
        fields.scope.report(fields.line, f"{fields.what} has no {ONE}{others}", f'add "{ONE}": "FLOAT_32"')
    return ((one,) if one else ()), each


def _per_core(fields: Fields, name: str) -> dict[str, DType]:
    found: dict[str, DType] = {}
    members, node = fields.members(name), fields.node(name)
    if not members and node is not None and isinstance(node.value, Mapping):
        fields.scope.report(
            fields.line_of(name), f"{name} of {fields.what} is empty", 'add "CPU": "FLOAT_32"'
        )
    for core, member in members.items():
        if core not in CORES:
            problem = f"{name} of {fields.what} has unknown core {shown(core)}"
            fields.scope.report(member.line, problem, choice(core, CORES))
            continue
        dtype = _type(fields, f"{name}, {core},", member.node)
        if dtype is not None:
            found[core] = dtype
    return found if len(found) == len(members) else {}


def _type(fields: Fields, name: str, node: Node | None) -> DType | None:
    if node is None:
        return None
    word = node.value
    if not isinstance(word, str):
        fields.wrong(name, "a string", node, 'write it like "FLOAT_32"')
        return None
    if word not in TYPES:
        fix = f"use {MANY}" if word == extension.BACKEND_SPECIFIC else choice(word, COMMON_TYPES)
        fields.scope.report(node.line, f"{name} of {fields.what} is unknown: {shown(word)}", fix)
    return TYPES.get(word)
