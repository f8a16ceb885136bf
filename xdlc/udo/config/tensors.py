"""Reads an input, output or parameter of a JSON configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import DType
from xdlc.opdefs.model import ParamDef, TensorDef
from xdlc.udo.config import extension
from xdlc.udo.config.data_types import types_of
from xdlc.udo.config.defaults import WrongDefaultError, default_text, wrong_default
from xdlc.udo.config.fields import Fields, named
from xdlc.udo.config.json_text import Node
from xdlc.udo.config.names import LAYOUTS
from xdlc.udo.config.scope import Scope, choice, shown

_TENSOR = ("name", "data_type", "per_core_data_types", "tensor_layout", "static")
_OLD = ("per_core_data_type", "quantization_mode")
FIELDS = {
    "inputs": (*_TENSOR, "repeated", "default", *_OLD, *extension.TENSOR),
    "outputs": (*_TENSOR, "repeated", *_OLD, *extension.TENSOR),
    "scalar_params": ("name", "data_type", "default", "quantization_mode", *extension.PARAM),
    "tensor_params": (*_TENSOR, "default", *_OLD, *extension.PARAM),
}
_WORDS = {
    "inputs": "input",
    "outputs": "output",
    "scalar_params": "scalar_param",
    "tensor_params": "tensor_param",
}
_STEMS = {"inputs": "in", "outputs": "out"}
_TAGS = {
    "name": "Name",
    "per_core_data_type": "Datatype",
    "per_core_data_types": "Datatype",
    "xdlc_data_types": "Datatype",
    "data_type": "Datatype",
    "tensor_layout": "Layout",
    "static": "IsStaticTensor",
    "repeated": "Repeated",
    "default": "Default",
    "xdlc_rank": "Rank",
    "xdlc_shape": "Text",
    "xdlc_mandatory": "Mandatory",
    "xdlc_constraints": "Constraint",
    "xdlc_enumeration": "Enumeration",
}


@dataclass(frozen=True, slots=True)
class Part:
    """An input, output or parameter with its place.

    Attributes:
        definition: What it is; without data types where the cores differ.
        per_core: Its data type for each core, where they differ.
        what: What messages call it.
        line: Line that it begins on.
        lines: Lines of its fields, under the names that they have in OpDef XML.
    """

    definition: TensorDef | ParamDef
    per_core: Mapping[str, DType]
    what: str
    line: int
    lines: Mapping[str, int]


def part_of(node: Node, role: str, index: int, op: str, scope: Scope) -> Part:
    """Return one entry of ``inputs``, ``outputs``, ``scalar_params`` or ``tensor_params``.

    Args:
        node: The entry.
        role: Which of the four lists it stands in.
        index: Its position there.
        op: What messages call the operator.
        scope: Where problems go.
    """
    title = shown(named(node, "name")) if named(node, "name") else index
    fields = Fields(node, f"{_WORDS[role]} {title} of {op}", scope, FIELDS[role])
    name = _name(fields, role, index)
    dtypes, per_core = types_of(fields, role == "scalar_params")
    enumeration = extension.strings(fields, "xdlc_enumeration")
    default = _default(fields, dtypes or tuple(per_core.values()), enumeration, role)
    _old_fields(fields)
    shared: dict[str, Any] = {
        "name": name,
        "mandatory": fields.flag("xdlc_mandatory", default is None),
        "dtypes": dtypes,
        "rank": extension.rank(fields, 0 if role == "scalar_params" else None),
        "text": fields.text("xdlc_shape").strip(),
        "layout": _layout(fields),
        "constraints": extension.constraints(fields),
        "default": default,
        "repeated": fields.flag("repeated"),
        "is_static": _is_static(fields, role),
        "description": extension.description(fields),
    }
    definition = TensorDef(**shared) if role in _STEMS else ParamDef(**shared, enumeration=enumeration)
    lines = {tag: fields.line_of(key) for key, tag in _TAGS.items() if key in fields}
    return Part(definition, per_core, fields.what, fields.line, lines)


def _name(fields: Fields, role: str, index: int) -> str:
    name = fields.text("name")
    if name or not fields.ok:
        return name
    if role in _STEMS:
        return f"{_STEMS[role]}[{index}]"
    node = fields.node("name")
    if fields.lacks("name") or (node is not None and node.value == ""):
        fields.scope.report(fields.line_of("name"), f"{fields.what} has no name", 'add "name": "..."')
    return ""


def _layout(fields: Fields) -> str:
    layout = fields.text("tensor_layout")
    if layout and layout not in LAYOUTS:
        problem = f"tensor_layout of {fields.what} is unknown: {shown(layout)}"
        fields.scope.report(fields.line_of("tensor_layout"), problem, choice(layout, LAYOUTS))
    return layout


def _is_static(fields: Fields, role: str) -> bool:
    static = fields.flag("static")
    if role == "inputs" or "static" not in fields:
        return static
    line = fields.line_of("static")
    if static and role == "outputs":
        fields.scope.report(line, f"{fields.what} is static: an output holds no data", 'remove "static"')
    elif role == "tensor_params":
        fields.scope.notice(line, f"static of {fields.what} changes nothing: parameters always are")
    return False


def _default(fields: Fields, dtypes: Sequence[DType], names: tuple[str, ...], role: str) -> str | None:
    node = fields.node("default")
    if node is None:
        return None
    if node.value is None or node.value == "":
        fields.scope.notice(node.line, f"default of {fields.what} is empty: read as if it were left out")
        return None
    try:
        text = default_text(
            node, dtypes, names, is_scalar=role == "scalar_params", is_tensor=role == "tensor_params"
        )
    except WrongDefaultError as wrong:
        fields.scope.report(wrong.node.line, *wrong_default(fields.what, node, wrong))
        return None
    if text.strip() != text:
        problem = f"default of {fields.what} begins or ends with a blank"
        fields.scope.report(
            node.line, problem, "remove the blank: definitions are kept as XML, which drops it"
        )
    return text


def _old_fields(fields: Fields) -> None:
    if "quantization_mode" not in fields:
        return
    mode, line = fields.text("quantization_mode"), fields.line_of("quantization_mode")
    if mode not in ("", "TF"):
        problem = f"quantization_mode of {fields.what} is unknown: {shown(mode)}"
        fields.scope.report(line, problem, "use TF, or remove the field")
    else:
        text = f"quantization_mode of {fields.what} changes nothing: the quantizer's options decide"
        fields.scope.notice(line, text)
