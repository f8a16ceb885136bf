"""Checks the elements of OpDef XML against ``opdef.xsd``, and says what is wrong in its writer's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from xdlc.errors import ModelError
from xdlc.ir.dtype import BY_NAME, UNDEFINED
from xdlc.opdefs.names import MAX_NAME, near
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC, RANKS, TITLES, Element, spelling, text_of
from xdlc.opdefs.xml_lines import AttributeLines

MAX_PROBLEMS = 100
LAYOUTS = ("NHWC", "NHCW", "NCHW", "UNDEFINED", BACKEND_SPECIFIC)
CONSTRAINT_TYPES = ("Number", "Shape", "Value", "Datatype", "Description")

_SCHEMA = Path(__file__).parent.parent / "schema" / "opdef.xsd"
_TENSOR = ("Name", "Description", "Mandatory", "Constraint", "Datatype", "Shape")
_SUPPLEMENT = ("Name", "Constraint", "Datatype", "Shape", "OnlyDefaultSupported")
_CHILDREN = {
    "OpDefCollection": ("OpDefList", "SupplementalOpDefList"),
    "OpDefList": ("OpDef",),
    "SupplementalOpDefList": ("SupportedOps", "SupplementalOpDef"),
    "SupportedOps": ("OpName",),
    "OpDef": (
        "Name", "Description", "Reference", "Input", "Output", "Parameter", "UseDefaultTranslation",
        "SupportedBackend",
    ),
    "Description": ("Content", "Code"),
    "Input": (*_TENSOR, "Default", "Repeated", "IsStaticTensor"),
    "Output": (*_TENSOR, "Repeated"),
    "Parameter": (*_TENSOR, "Default", "Enumeration"),
    "Enumeration": ("Enum",),
    "Shape": ("Rank", "Layout", "Text"),
    "SupplementalOpDef": ("Name", "Input", "Output", "Parameter"),
    "supplement/Shape": ("Layout", "Text"),
}  # fmt: skip
_ATTRIBUTES = {
    "OpDefCollection": ("PackageName", "Domain", "Version"),
    "SupplementalOpDefList": ("Backend",),
    "Reference": ("Source", "Url"),
    "Constraint": ("id", "Type"),
}
_MANY = {
    "OpDef", "SupplementalOpDefList", "SupplementalOpDef", "OpName", "Reference", "Input", "Output",
    "Parameter", "SupportedBackend", "Content", "Code", "Constraint", "Datatype", "Enum",
}  # fmt: skip
_REQUIRED = {
    "Input": ("Name", "Mandatory", "Datatype", "Shape"),
    "Output": ("Name", "Mandatory", "Datatype", "Shape"),
    "Parameter": ("Name", "Mandatory", "Datatype", "Shape"),
    "OpDef": ("Name",),
    "SupplementalOpDef": ("Name",),
}
_FLAGS = ("Mandatory", "Repeated", "IsStaticTensor", "UseDefaultTranslation", "OnlyDefaultSupported")


def _spellings() -> tuple[str, ...]:
    long = [spelling(dtype) for dtype in BY_NAME.values() if dtype is not UNDEFINED]
    short = [name.removeprefix("QNN_DATATYPE_") for name in long]
    return (BACKEND_SPECIFIC, *short, "FIXED_4", "FIXED_8", "FIXED_16", *long)


@cache
def _schema() -> Any:
    from lxml import etree

    return etree.XMLSchema(etree.parse(str(_SCHEMA)))


def schema_problems(root: Element, where: str, attributes: AttributeLines) -> list[ModelError]:
    """Return what breaks the schema, each once, with its line; at most ``MAX_PROBLEMS``.

    Args:
        root: An lxml element.
        where: File that it comes from.
        attributes: Lines of attributes.
    """
    schema = _schema()
    if schema.validate(root.getroottree()):
        return list(_counts(root, where))
    problems: dict[str, ModelError] = {}
    for entry in schema.error_log:
        if entry.path not in problems and len(problems) < MAX_PROBLEMS:
            element = _at(root, entry.path)
            attribute = re.search(r"attribute '([^']*)'", entry.message)
            name = attribute[1] if attribute else ""
            problem, fix = _words(element, entry.message, entry.type_name, name)
            line = attributes.get(element, {}).get(name, element.sourceline)
            problems[entry.path] = ModelError(problem, where=f"{where}:{line}", fix=fix)
    return list(problems.values())


def _at(root: Element, path: str | None) -> Element:
    """Return the element at a path of the schema's checker, whose names have the prefixes of the file."""
    if not path:
        return root
    prefixes = {prefix: uri for element in root.iter() for prefix, uri in element.nsmap.items() if prefix}
    found = root.getroottree().xpath(path, namespaces=prefixes or None)
    return found[0] if found else root


def _words(element: Element, message: str, kind: str, attribute: str) -> tuple[str, str]:
    if "No matching global declaration" in message:
        named = element.tag.endswith("}OpDefCollection")
        fix = "remove its namespace, xmlns=..." if named else "wrap the definitions in it"
        return f"the root is <{element.tag}>, expected <OpDefCollection>", fix
    if "This element is not expected" in message:
        return _unexpected(element)
    if missing := re.search(r"Missing child element\(s\)\. Expected is (?:one of )?\( ([^,\s]+)", message):
        return f"{place_of(element)} has no <{missing[1]}>", f"add <{missing[1]}>"
    if kind == "SCHEMAV_CVC_COMPLEX_TYPE_2_3":
        return f"{place_of(element)} holds text between its elements", "remove the text"
    if kind in ("SCHEMAV_CVC_TYPE_3_1_2", "SCHEMAV_CVC_COMPLEX_TYPE_2_2"):
        return f"{place_of(element)} holds elements, expected text", "write its text without elements"
    if "is required but missing" in message:
        return f"{place_of(element)} has no attribute {attribute}", f'add {attribute}="..."'
    if attribute and "is not allowed" in message:
        fix = near(attribute, _ATTRIBUTES.get(element.tag, ())) or "remove it"
        return f"{place_of(element)} has an unknown attribute {attribute!r}", fix
    return _bad_value(element, attribute)


def _unexpected(element: Element) -> tuple[str, str]:
    parent = element.getparent()
    known = _known_children(parent)
    place = place_of(parent)
    if element.tag in known:
        return f"{place} has a second <{element.tag}>", "keep one of them"
    listed = f"expected one of {', '.join(known)}" if known else "expected text only"
    if element.tag == "Default" and parent.tag == "Output":
        return f"{place} has a default value, which outputs cannot have", "remove <Default>"
    if any(element.tag in tags for tags in _CHILDREN.values()):
        return f"{place} cannot have <{element.tag}>, {listed}", f"remove <{element.tag}>"
    return f"{place} has an unknown element <{element.tag}>, {listed}", near(
        element.tag, known
    ) or "remove it"


def _known_children(parent: Element) -> tuple[str, ...]:
    supplement = next((True for above in parent.iterancestors("SupplementalOpDef")), False)
    if supplement:
        return _CHILDREN["supplement/Shape"] if parent.tag == "Shape" else _SUPPLEMENT
    return _CHILDREN.get(parent.tag, ())


def _bad_value(element: Element, attribute: str) -> tuple[str, str]:
    value = element.get(attribute, "") if attribute else text_of(element)
    parent = element.getparent()
    place = place_of(element if parent is None or attribute else parent)
    title = f"attribute {attribute}" if attribute else f"<{element.tag}>"
    if not value:
        return f"{place}: {title} is empty", f"give {title} a value"
    if len(value) > MAX_NAME:
        return f"{place}: {title} has {len(value)} characters, expected at most {MAX_NAME}", "shorten it"
    expected: tuple[str, ...] = ()
    if element.tag in _FLAGS:
        expected = ("true", "false")
    elif element.tag == "Rank":
        expected = (*RANKS, "ND")
    elif element.tag == "Layout":
        expected = LAYOUTS
    elif attribute == "Type":
        expected = CONSTRAINT_TYPES
    elif element.tag == "Datatype":
        words = _spellings()
        in_supplement = value == BACKEND_SPECIFIC
        fix = near(value, words) or f"use one of {', '.join(words)}"
        if in_supplement:
            return (
                f"{place}: <Datatype> is {BACKEND_SPECIFIC}, expected what the backend takes",
                "list the data types of this backend",
            )
        return f"{place}: <Datatype> is {value!r}, expected a data type", fix
    wanted = f"one of {', '.join(expected)}" if expected else "another value"
    fix = near(value, expected) or (f"write {' or '.join(expected)}" if expected else "correct it")
    return f"{place}: {title} is {value!r}, expected {wanted}", fix


def place_of(element: Element) -> str:
    """Return the op and the tensor that an element belongs to, then the element itself."""
    parts = []
    inner = element
    while inner is not None and inner.tag not in ("OpDefCollection", "OpDefList", "SupplementalOpDefList"):
        name = text_of(inner, "Name")[:60]
        if inner.tag in ("OpDef", "SupplementalOpDef"):
            op = f"op {name!r}" if name else "an op"
            parts.append(op if inner.tag == "OpDef" else f"supplement of {op}")
        elif inner.tag in TITLES:
            kind = TITLES[inner.tag]
            parts.append(f"{kind} {name!r}" if name else f"a{'n' * (kind[0] in 'io')} {kind}")
        else:
            parts.append(f"<{inner.tag}>")
        inner = inner.getparent()
    return ": ".join(reversed(parts)) or f"<{element.tag}>"


def _counts(root: Element, where: str) -> Iterator[ModelError]:
    """Yield elements of which there are too few or too many."""
    found = 0
    for element in root.iter(*_CHILDREN):
        counts: dict[str, int] = {}
        for child in element:
            counts[child.tag] = counts.get(child.tag, 0) + 1
            if counts[child.tag] == 2 and child.tag not in _MANY:
                yield ModelError(
                    f"{place_of(element)} has a second <{child.tag}>",
                    where=f"{where}:{child.sourceline}",
                    fix="keep one of them",
                )
                found += 1
        required = _REQUIRED.get(element.tag, ())
        if element.getparent() is not None and element.getparent().tag == "SupplementalOpDef":
            required = ("Name",)
        for tag in required:
            if not counts.get(tag):
                yield ModelError(
                    f"{place_of(element)} has no <{tag}>",
                    where=f"{where}:{element.sourceline}",
                    fix=f"add <{tag}>",
                )
                found += 1
        if found >= MAX_PROBLEMS:
            return
