"""Reads the fields beyond the vendor's: they say in JSON what only OpDef XML has fields for."""

from __future__ import annotations

from xdlc.ir.dtype import DType
from xdlc.opdefs.model import Constraint, DescriptionPart, Reference
from xdlc.udo.config.fields import Fields
from xdlc.udo.config.json_text import Node
from xdlc.udo.config.names import COMMON_TYPES, TYPES
from xdlc.udo.config.scope import Scope, choice, shown

TENSOR = (
    "xdlc_data_types",
    "xdlc_mandatory",
    "xdlc_rank",
    "xdlc_shape",
    "xdlc_constraints",
    "xdlc_description",
)
PARAM = (*TENSOR, "xdlc_enumeration")
OPERATOR = (
    "xdlc_description",
    "xdlc_references",
    "xdlc_use_default_translation",
    "xdlc_backends",
    "xdlc_order",
)
PACKAGE = ("xdlc_domain", "xdlc_version", "xdlc_supplements")

BACKEND_SPECIFIC = "BACKEND_SPECIFIC"
RANKS = {"SCALAR": 0, "1D": 1, "2D": 2, "3D": 3, "4D": 4, "ND": None}
CONSTRAINTS = ("", "Number", "Shape", "Value", "Datatype", "Description")


def dtypes(fields: Fields, name: str) -> tuple[DType, ...]:
    """Return several data types; none for ``["BACKEND_SPECIFIC"]``."""
    words = fields.words(
        name, (*COMMON_TYPES, *(key for key in TYPES if key not in COMMON_TYPES), BACKEND_SPECIFIC)
    )
    node = fields.node(name)
    if node is not None and node.value == ():
        fields.scope.report(node.line, f"{name} of {fields.what} is empty", 'write it like ["FLOAT_32"]')
    if BACKEND_SPECIFIC in words:
        if len(words) > 1:
            problem = f"{name} of {fields.what} has types beside BACKEND_SPECIFIC"
            fields.scope.report(fields.line_of(name), problem, "remove the one or the others")
        return ()
    return tuple(dict.fromkeys(TYPES[word] for word in words))


def rank(fields: Fields, otherwise: int | None) -> int | None:
    """Return the number of axes; None for any."""
    word = fields.text("xdlc_rank")
    if not word:
        return otherwise
    if word not in RANKS:
        problem = f"xdlc_rank of {fields.what} is unknown: {shown(word)}"
        fields.scope.report(fields.line_of("xdlc_rank"), problem, choice(word, RANKS))
    return RANKS.get(word, otherwise)


def description(fields: Fields) -> tuple[DescriptionPart, ...]:
    """Return a description: a string, or an array of strings and of objects with ``content`` or ``code``."""
    node = fields.node("xdlc_description")
    if node is None:
        return ()
    if isinstance(node.value, str):
        return (DescriptionPart(node.value),) if node.value.strip() else ()
    return tuple(
        part
        for item in fields.items("xdlc_description")
        for part in _description_part(item, f"xdlc_description of {fields.what}", fields.scope)
    )


def _description_part(node: Node, what: str, scope: Scope) -> tuple[DescriptionPart, ...]:
    if isinstance(node.value, str):
        return (DescriptionPart(node.value),)
    fields = Fields(node, f"a part of {what}", scope, ("content", "code"))
    if fields.ok and ("content" in fields) == ("code" in fields):
        scope.report(node.line, f"{fields.what} has content or code", 'write {"content": "..."}')
    name = "code" if "code" in fields else "content"
    return (DescriptionPart(fields.text(name), name == "code"),)


def constraints(fields: Fields, name: str = "xdlc_constraints") -> tuple[Constraint, ...]:
    """Return the rules about a tensor."""
    found = []
    for node in fields.items(name):
        rule = Fields(node, f"a constraint of {fields.what}", fields.scope, ("id", "type", "text"))
        kind = rule.text("type")
        if kind not in CONSTRAINTS:
            problem = f"type of {rule.what} is unknown: {shown(kind)}"
            fields.scope.report(rule.line_of("type"), problem, choice(kind, CONSTRAINTS[1:]))
        found.append(Constraint(rule.text("id"), kind, rule.text("text")))
    return tuple(found)


def references(fields: Fields) -> tuple[Reference, ...]:
    """Return what an operator corresponds to elsewhere."""
    found = []
    for node in fields.items("xdlc_references"):
        one = Fields(node, f"a reference of {fields.what}", fields.scope, ("source", "url", "text"))
        found.append(Reference(one.text("source"), one.text("url"), one.text("text")))
    return tuple(found)


def strings(fields: Fields, name: str) -> tuple[str, ...]:
    """Return an array of strings that are not empty."""
    found = []
    for node in fields.items(name):
        if isinstance(node.value, str) and node.value:
            found.append(node.value)
        else:
            fields.wrong(f"each of {name}", "a string that is not empty", node, 'write it like ["a", "b"]')
    return tuple(found)
