"""Reads ``xdlc_supplements``: what backends add, beyond the data types of cores."""

from __future__ import annotations

from xdlc.opdefs.model import SupplementOp, SupplementTable, SupplementTensor
from xdlc.udo.config import extension
from xdlc.udo.config.fields import Fields, named
from xdlc.udo.config.json_text import Node
from xdlc.udo.config.names import LAYOUTS
from xdlc.udo.config.scope import Scope, choice, shown

_TENSOR = ("name", "data_types", "tensor_layout", "shape", "constraints", "only_default")
_SIDES = ("inputs", "outputs", "params")


def tables_of(fields: Fields) -> tuple[SupplementTable, ...]:
    """Return the tables of a package."""
    return tuple(_table(node, fields.scope) for node in fields.items("xdlc_supplements"))


def _table(node: Node, scope: Scope) -> SupplementTable:
    title = f"supplement for {shown(named(node, 'backend'))}"
    fields = Fields(node, title, scope, ("backend", "supported", "Operators"))
    fields.need("backend", '"HTP"')
    ops: dict[str, tuple[SupplementOp, ...]] = {}
    for item in fields.items("Operators"):
        op = _op(item, fields)
        if op.name in ops:
            scope.report(item.line, f"{title} has operator {shown(op.name)} twice", "remove one of them")
        ops[op.name] = (op,)
    return SupplementTable(fields.text("backend"), frozenset(extension.strings(fields, "supported")), ops)


def _op(node: Node, table: Fields) -> SupplementOp:
    title = f"operator {shown(named(node, 'type'))} of {table.what}"
    fields = Fields(node, title, table.scope, ("type", *_SIDES))
    fields.need("type", '"MyOp"')
    inputs, outputs, params = (_tensors(fields, side) for side in _SIDES)
    return SupplementOp(fields.text("type"), inputs, outputs, params)


def _tensors(op: Fields, side: str) -> dict[str, SupplementTensor]:
    found: dict[str, SupplementTensor] = {}
    for node in op.items(side):
        fields = Fields(node, f"{side[:-1]} {shown(named(node, 'name'))} of {op.what}", op.scope, _TENSOR)
        fields.need("name", '"in[0]"')
        tensor = SupplementTensor(
            fields.text("name"),
            extension.dtypes(fields, "data_types"),
            extension.constraints(fields, "constraints"),
            fields.flag("only_default"),
            _layout(fields),
            fields.text("shape"),
        )
        if tensor.name in found:
            op.scope.report(node.line, f"{fields.what} is there twice", "remove one of them")
        found[tensor.name] = tensor
    return found


def _layout(fields: Fields) -> str:
    layout = fields.text("tensor_layout")
    if layout and layout not in LAYOUTS:
        problem = f"tensor_layout of {fields.what} is unknown: {shown(layout)}"
        fields.scope.report(fields.line_of("tensor_layout"), problem, choice(layout, LAYOUTS))
    return layout
