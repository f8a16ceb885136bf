"""Validating reader of OpDef XML from untrusted files.

Document types are refused, entities are neither expanded nor fetched; size, depth and number of elements are
bounded.  Faults of form have libxml2's messages and lines, completed by what ``opdef.xsd`` expects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from xdlc.errors import ModelError, raise_all
from xdlc.opdefs import xml_elements
from xdlc.opdefs.loader import MAX_XML_BYTES, read_content
from xdlc.opdefs.model import Collection
from xdlc.opdefs.semantics import MAX_PROBLEMS, check_collection, duplicate
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC, TITLES, Element, Key, near, text_of

MAX_ELEMENTS = 50_000
"""Most elements of a file, some thousand ops: validation takes time with the number of siblings."""
_CHUNK = 1 << 16
_MAX_TEXT = 300
_MAX_SHOWN = 25
_SCHEMA = Path(__file__).parent.parent / "schema" / "opdef.xsd"
_DOCTYPE = re.compile(rb"<!DOCTYPE\s+([^\s>\[]+)")
_XS = "{http://www.w3.org/2001/XMLSchema}"
_REQUIRED = {
    **dict.fromkeys(("Input", "Output", "Parameter"), ("Name", "Mandatory", "Datatype", "Shape")),
    **dict.fromkeys(("OpDef", "SupplementalOpDef"), ("Name",)),
}
_MANY = {
    "OpDef", "SupplementalOpDefList", "SupplementalOpDef", "OpName", "Reference", "Input", "Output",
    "Parameter", "SupportedBackend", "Content", "Code", "Constraint", "Datatype", "Enum",
}  # fmt: skip
"""Elements that may be repeated; XML Schema cannot count children that stand in any order."""
_FIXES = (
    (r"Expected is (?:one of )?\( ([^,\s)]+)", "add <{}>"),
    (r"required but missing", "add the attribute"),
    (r"element of the set \{(.{1,300})\}", "write one of {}"),
    (r"^Element content is not allowed", "write text without elements"),
    (r"^Character content", "remove the text"),
    (r"underruns the allowed minimum length", "write a value"),
    (r"exceeds the allowed maximum length of '(\d+)'", "shorten it to {} characters"),
)
"""Fixes by a pattern of libxml2's message."""


def validate_xml(path: str | os.PathLike[str]) -> list[ModelError]:
    """Return the faults of an OpDef XML file with lines, the schema's first.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it is too large.
    """
    return _read(read_content(path), os.fspath(path))[1]


def read_valid(path: str | os.PathLike[str]) -> Collection:
    """Read an OpDef XML file.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it breaks the schema or a rule; a ProblemList of them if it does more than once.
    """
    return parse_collection(read_content(path), os.fspath(path))


def parse_collection(data: bytes, where: str) -> Collection:
    """Read OpDef XML from bytes.

    Raises:
        ModelError: If it breaks the schema or a rule; a ProblemList of them if it does more than once.
    """
    found, problems = _read(data, where)
    raise_all(problems, where=where)
    if found is None:
        raise ModelError("cannot be read", where=where)
    return found


def schema_text() -> str:
    """Return the XML Schema of OpDef XML."""
    return _SCHEMA.read_text(encoding="utf-8")


def collection_lines(data: bytes, where: str) -> dict[Key, str]:
    """Return ``file:line`` of each part of OpDef XML from ``parse_collection``."""
    return _lines(_parse(data, where), where)


def values_of(type: str) -> list[str]:
    """Return values and patterns of a simple type, including union members."""
    found = _xsd().find(f"{_XS}simpleType[@name='{type}']")
    if found is None:
        return []
    facets = [one.get("value") for one in found.iter(f"{_XS}enumeration", f"{_XS}pattern")]
    members = (one.get("memberTypes", "").split() for one in found.iter(f"{_XS}union"))
    return [*facets, *(value for names in members for name in names for value in values_of(name))]


def _read(data: bytes, where: str) -> tuple[Collection | None, list[ModelError]]:
    try:
        root = _parse(data, where)
    except ModelError as error:
        return None, [error]
    if problems := _schema_problems(root, where):
        return None, problems
    found = xml_elements.collection(root)
    problems = list(islice(_ambiguous(root, where), MAX_PROBLEMS))
    return found, problems or check_collection(found, _lines(root, where))


def _lines(root: Element, where: str) -> dict[Key, str]:
    found: dict[Key, str] = {(name,): f"{where}:{root.sourceline}" for name in root.attrib}
    return found | {key: f"{where}:{element.sourceline}" for key, element in xml_elements.keys(root)}


# ---------------------------------------------------------------------- parsing


def _parse(data: bytes, where: str) -> Element:
    """Parse a document within the bounds."""
    from lxml import etree

    if len(data) > MAX_XML_BYTES:
        raise ModelError(f"is larger than {MAX_XML_BYTES >> 20} MiB", where=where, fix="split the file")
    options: Any = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
    parser: Any = etree.XMLPullParser(("start",), remove_comments=True, remove_pis=True, **options)
    elements = 0
    try:
        for start in range(0, len(data), _CHUNK):
            parser.feed(data[start : start + _CHUNK])
            elements += sum(1 for _ in parser.read_events())
            if elements > MAX_ELEMENTS:
                problem = f"has more than {MAX_ELEMENTS} elements"
                raise ModelError(problem, where=where, fix="split the package into several files")
        root = parser.close()
    except etree.XMLSyntaxError as error:
        if match := _DOCTYPE.search(data):
            raise _document_type(match[1].decode("utf-8", "replace"), data, where) from error
        first = next(iter(parser.feed_error_log), None)
        reason, line = (error.msg, error.lineno) if first is None else (first.message, first.line)
        reason = re.sub(r", line \d+, column \d+$", "", reason or "no element")
        fix = "correct the XML there or just before"
        if "xmlParseEntityRef" in reason or "not defined" in reason:
            fix = "write & as &amp;, and other characters as themselves"
        raise _malformed(reason, f"{where}:{line or 1}", fix) from error
    except (ValueError, LookupError) as error:  # an encoding that is unknown, or not the one stated
        raise _malformed(str(error), f"{where}:1", "save the file as UTF-8") from error
    if (found := root.getroottree().docinfo.internalDTD) is not None:
        raise _document_type(found.name, data, where)
    return root


def _document_type(name: str, data: bytes, where: str) -> ModelError:
    line = data.count(b"\n", 0, max(0, data.find(b"<!DOCTYPE"))) + 1
    return ModelError(
        f"document type {name[:40]!r} is not allowed",
        where=f"{where}:{line}",
        fix="remove <!DOCTYPE ...> and its entities",
    )


def _malformed(reason: str, where: str, fix: str) -> ModelError:
    return ModelError(f"is not well-formed XML: {reason}", where=where, fix=fix)


# ---------------------------------------------------------------------- schema


@cache
def _xsd() -> Element:
    from lxml import etree

    return etree.parse(str(_SCHEMA)).getroot()


@cache
def _schema() -> Any:
    from lxml import etree

    return etree.XMLSchema(_xsd().getroottree())


def _schema_problems(root: Element, where: str) -> list[ModelError]:
    """Return up to ``MAX_PROBLEMS`` breaches of the schema with their lines."""
    schema = _schema()
    if schema.validate(root.getroottree()):
        return list(islice(_counts(root, where), MAX_PROBLEMS))
    prefixes = {prefix: uri for element in root.iter() for prefix, uri in element.nsmap.items() if prefix}
    problems: dict[str, ModelError] = {}
    for entry in schema.error_log:
        if entry.path not in problems and len(problems) < MAX_PROBLEMS:
            found = root.getroottree().xpath(entry.path, namespaces=prefixes or None) if entry.path else ()
            problem, fix = _explained(found[0] if found else root, entry.message)
            problems[entry.path] = ModelError(problem, where=f"{where}:{entry.line}", fix=fix)
    return list(problems.values())


def _explained(element: Element, message: str) -> tuple[str, str]:
    """Return libxml2's message with the schema's expectation, and a fix."""
    reason = re.sub(r"^Element '[^']*'(?:, attribute '[^']*')?: (?:\[facet '[^']*'\] )?", "", message)
    attribute = re.search(r"attribute '([^']*)'", message)
    if "validation root" in message:
        fix = "wrap the definitions in it, without a namespace"
        return f"the root is <{element.tag}>, expected <OpDefCollection>", fix
    if "element is not expected" in message:
        parent = element.getparent()
        expected = [child.get("name") for child in _children(_type_of(_declaration(parent)))]
        if element.tag in expected:
            return f"{_place(parent)}: a second <{element.tag}> is not expected", "keep one element"
        fix = near(element.tag, expected) or "remove it"
        return f"{_place(parent)}: <{element.tag}> is not expected, expected {_one_of(expected)}", fix
    if attribute and "is not allowed" in message:
        expected = [one.get("name") for one in _type_of(_declaration(element)).iter(f"{_XS}attribute")]
        return f"{_place(element)}: attribute {attribute[1]!r} is not expected", near(
            attribute[1], expected
        ) or "remove it"
    if "not a valid value of the union" in message:
        value, expected = text_of(element), values_of(_declaration(element).get("type", ""))
        fix = near(value, expected) or f"write {_one_of(expected)}"
        return f"{_place(element)}: {value[:_MAX_TEXT]!r} is not expected, expected {_one_of(expected)}", fix
    name = attribute[1] if attribute else ""
    where = _place(element) if name in reason else f"{_place(element)}: attribute {name!r}"
    fixes = ((re.search(pattern, reason), fix) for pattern, fix in _FIXES)
    fix = next((fix.format(*match.groups()) for match, fix in fixes if match), "correct it")
    return f"{where}: {reason[:_MAX_TEXT]}", fix


def _one_of(words: list[str]) -> str:
    known = [word for word in words if word]
    more = ", ..." if len(known) > _MAX_SHOWN else ""
    return f"one of {', '.join(known[:_MAX_SHOWN])}{more}" if known else "text only"


def _declaration(element: Element) -> Element:
    """Return the declaration of an element whose ancestors are valid."""
    parent = element.getparent()
    declared = (
        _xsd().iterfind(f"{_XS}element") if parent is None else _children(_type_of(_declaration(parent)))
    )
    return next((one for one in declared if one.get("name") == element.tag), _xsd())


def _type_of(declaration: Element) -> Element:
    name = declaration.get("type")
    found = _xsd().find(f"*[@name='{name}']") if name else None
    return declaration if found is None else found


def _children(node: Element) -> Iterator[Element]:
    """Yield the declarations of child elements of a type."""
    for part in node:
        if part.tag == f"{_XS}element":
            yield part
        elif part.tag == f"{_XS}group" and part.get("ref"):
            yield from _children(_xsd().find(f"{_XS}group[@name='{part.get('ref')}']"))
        else:
            yield from _children(part)


def _place(element: Element) -> str:
    """Return the op and tensor of an element, then the element itself."""
    parts = []
    inner = element
    while inner is not None and inner.tag not in ("OpDefCollection", "OpDefList", "SupplementalOpDefList"):
        name = text_of(inner, "Name")[:60]
        title = {"OpDef": "op", "SupplementalOpDef": "supplement of op", **TITLES}.get(inner.tag)
        parts.append(f"<{inner.tag}>" if title is None else f"{title} {name!r}")
        inner = inner.getparent()
    return ": ".join(reversed(parts)) or f"<{element.tag}>"


def _counts(root: Element, where: str) -> Iterator[ModelError]:
    """Yield a problem for each element that is missing or repeated."""
    for element in root.iter():
        counts: dict[str, int] = {}
        for child in element:
            counts[child.tag] = counts.get(child.tag, 0) + 1
            if counts[child.tag] == 2 and child.tag not in _MANY:
                problem = f"{_place(element)}: a second <{child.tag}> is not expected"
                yield ModelError(problem, where=f"{where}:{child.sourceline}", fix="keep one element")
        required = _REQUIRED.get(element.tag, ())
        if element.tag in TITLES and element.getparent().tag == "SupplementalOpDef":
            required = ("Name",)
        for tag in required:
            if tag not in counts:
                line = f"{where}:{element.sourceline}"
                yield ModelError(f"{_place(element)} has no <{tag}>", where=line, fix=f"add <{tag}>")


# ---------------------------------------------------------------------- what a collection cannot hold


def _ambiguous(root: Element, where: str) -> Iterator[ModelError]:
    """Yield repeated names, and types in addition to BACKEND_SPECIFIC."""
    for element in root.iterfind("OpDefList/OpDef/*"):
        types = [text_of(child) for child in element.iterfind("Datatype")]
        if len(types) > 1 and BACKEND_SPECIFIC in types:
            yield ModelError(
                f"{_place(element)} lists data types together with {BACKEND_SPECIFIC}",
                where=f"{where}:{element.find('Datatype').sourceline}",
                fix=f"keep only {BACKEND_SPECIFIC}, or remove it",
            )
    for op in root.iterfind("OpDefList/OpDef"):
        title = f"op {text_of(op, 'Name')!r}: parameter"
        yield from _repeated(op.iterfind("Parameter"), set(), title, where)
    ops_by_backend: dict[str, set[str]] = {}
    for table in root.iterfind("SupplementalOpDefList"):
        backend = table.get("Backend", "").strip()
        title = f"backend {backend}: supplement of op"
        yield from _repeated(
            table.iterfind("SupplementalOpDef"), ops_by_backend.setdefault(backend, set()), title, where
        )
        for row in table.iterfind("SupplementalOpDef"):
            for tag, side in TITLES.items():
                words = f"{title} {text_of(row, 'Name')!r}: {side}"
                yield from _repeated(row.iterfind(tag), set(), words, where)


def _repeated(children: Iterable[Element], seen: set[str], title: str, where: str) -> Iterator[ModelError]:
    for child in children:
        name = text_of(child, "Name")
        if name in seen:
            yield duplicate(title, name, f"{where}:{child.find('Name').sourceline}")
        seen.add(name)
