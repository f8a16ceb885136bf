"""Reads OpDef XML of users and strangers: nothing is taken that breaks the schema or a rule.

Document types are refused before anything of them is looked at, so that no entity is ever expanded
or fetched; size, depth and number of elements are bounded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Any
from xml.parsers import expat

from xdlc.errors import ModelError, raise_all
from xdlc.opdefs import xml_elements
from xdlc.opdefs.loader import MAX_XML_BYTES, read_content
from xdlc.opdefs.model import Collection
from xdlc.opdefs.schema_check import MAX_PROBLEMS, place_of, schema_problems
from xdlc.opdefs.semantics import check_collection, duplicate
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC, TITLES, Element, Key, text_of
from xdlc.opdefs.xml_lines import AttributeLines, attribute_lines, settle

MAX_ELEMENTS = 50_000
"""Most elements of a file, some thousand ops: telling of a fault takes time with the number of siblings."""
MAX_DEPTH = 16
_UNDEFINED = expat.errors.codes[expat.errors.XML_ERROR_UNDEFINED_ENTITY]
_INVALID = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]
_OPEN_ELEMENT = [expat.errors.codes[text] for text in ("mismatched tag", "no element found")]


def validate_xml(path: str | os.PathLike[str]) -> list[ModelError]:
    """Return what is wrong with an OpDef XML file, each with its line; what breaks the schema goes first.

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

    Args:
        data: The XML.
        where: What it comes from, for messages.

    Raises:
        ModelError: If it breaks the schema or a rule; a ProblemList of them if it does more than once.
    """
    found, problems = _read(data, where)
    raise_all(problems, where=where)
    if found is None:
        raise ModelError("cannot be read", where=where)
    return found


def schema_problems_of(path: str | os.PathLike[str]) -> list[ModelError]:
    """Return what breaks the schema only; definitions of native ops keep other rules than those of users."""
    where = os.fspath(path)
    root, attributes, problems = _parse(read_content(path), where)
    return problems if root is None else schema_problems(root, where, attributes)


def collection_lines(data: bytes, where: str) -> dict[Key, str]:
    """Return ``file:line`` of each part of OpDef XML that ``parse_collection`` has read."""
    root, attributes, problems = _parse(data, where)
    raise_all(problems)
    return {} if root is None else _lines(root, where, attributes)


def _lines(root: Element, where: str, attributes: AttributeLines) -> dict[Key, str]:
    found: dict[Key, str] = {(name,): f"{where}:{root.sourceline}" for name in root.attrib}
    for key, element in xml_elements.keys(root):
        found[key] = f"{where}:{element.sourceline}"
        for name, line in attributes.get(element, {}).items():
            found[*key, name] = f"{where}:{line}"
    return found


def _read(data: bytes, where: str) -> tuple[Collection | None, list[ModelError]]:
    root, attributes, problems = _parse(data, where)
    if root is None:
        return None, problems
    if problems := schema_problems(root, where, attributes):
        return None, problems
    found = xml_elements.collection(root)
    problems = list(islice(_unheld(root, where), MAX_PROBLEMS))
    return found, problems or check_collection(found, _lines(root, where, attributes))


def _unheld(root: Element, where: str) -> Iterator[ModelError]:
    """Yield what a collection cannot hold: names twice, and types beside BACKEND_SPECIFIC."""
    for element in root.iterfind("OpDefList/OpDef/*"):
        types = [text_of(child) for child in element.iterfind("Datatype")]
        if len(types) > 1 and BACKEND_SPECIFIC in types:
            yield ModelError(
                f"{place_of(element)} lists data types beside {BACKEND_SPECIFIC}",
                where=f"{where}:{element.find('Datatype').sourceline}",
                fix=f"leave {BACKEND_SPECIFIC} alone, or remove it",
            )
    for op in root.iterfind("OpDefList/OpDef"):
        title = f"op {text_of(op, 'Name')!r}: parameter"
        yield from _twice(op.iterfind("Parameter"), set(), title, where)
    held: dict[str, set[str]] = {}
    for table in root.iterfind("SupplementalOpDefList"):
        backend = table.get("Backend", "").strip()
        title = f"backend {backend}: supplement of op"
        yield from _twice(table.iterfind("SupplementalOpDef"), held.setdefault(backend, set()), title, where)
        for row in table.iterfind("SupplementalOpDef"):
            for tag, side in TITLES.items():
                words = f"{title} {text_of(row, 'Name')!r}: {side}"
                yield from _twice(row.iterfind(tag), set(), words, where)


def _twice(children: Iterable[Element], seen: set[str], title: str, where: str) -> Iterator[ModelError]:
    for child in children:
        name = text_of(child, "Name")
        if name in seen:
            yield duplicate(title, name, f"{where}:{child.find('Name').sourceline}")
        seen.add(name)


def _parse(data: bytes, where: str) -> tuple[Element | None, AttributeLines, list[ModelError]]:
    from lxml import etree

    if len(data) > MAX_XML_BYTES:
        return (
            None,
            {},
            [
                ModelError(
                    f"is larger than {MAX_XML_BYTES >> 20} MiB", where=where, fix="name a file of definitions"
                )
            ],
        )
    try:
        lines, attributes = _guard(data, where)
        parser: Any = etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )
        root = etree.fromstring(data, parser)
        return root, settle(root, lines, attributes), []
    except ModelError as error:
        return None, {}, [error]
    except etree.XMLSyntaxError as error:
        return None, {}, [_malformed(error.msg or "", f"{where}:{error.lineno or 1}")]
    except (ValueError, LookupError) as error:  # an encoding that is not known, or not what it says
        return None, {}, [_malformed(str(error), f"{where}:1", "save the file as UTF-8")]


def _malformed(reason: str, where: str, fix: str = "correct it there or just before") -> ModelError:
    return ModelError(f"is not well-formed XML: {reason}", where=where, fix=fix)


def _guard(data: bytes, where: str) -> tuple[list[int], dict[int, dict[str, int]]]:
    """Look once over the document before it is built; return lines of elements, and of their attributes.

    Raises:
        ModelError: At a document type or a bound that is passed.
    """
    parser = expat.ParserCreate()
    opened: list[tuple[str, int]] = []
    lines: list[int] = []
    attributes: dict[int, dict[str, int]] = {}

    def refuse(problem: str, fix: str) -> None:
        raise ModelError(problem, where=f"{where}:{parser.CurrentLineNumber}", fix=fix)

    def doctype(name: str, *_: object) -> None:
        refuse(f"document type {name!r} is not allowed", "remove <!DOCTYPE ...> and its entities")

    def start(name: str, given: Sized) -> None:
        line = parser.CurrentLineNumber
        if given and (found := attribute_lines(data, parser.CurrentByteIndex, line)):
            attributes[len(lines)] = found
        lines.append(line)
        opened.append((name, line))
        if len(opened) > MAX_DEPTH:
            refuse(f"elements nest deeper than {MAX_DEPTH}: <{name[:40]}>", "nest as OpDef.xsd says")
        if len(lines) > MAX_ELEMENTS:
            refuse(f"has more than {MAX_ELEMENTS} elements", "split the package into several files")

    def end(_: str) -> None:
        opened.pop()

    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = f"{expat.ErrorString(error.code)} in column {error.offset + 1}"
        if opened and error.code in _OPEN_ELEMENT:
            reason = f"<{opened[-1][0]}> of line {opened[-1][1]} is not closed"
        fix = _mend(error.code, data[max(0, parser.ErrorByteIndex - 1) : parser.ErrorByteIndex + 1])
        raise _malformed(reason, f"{where}:{error.lineno}", fix) from error
    return lines, attributes


def _mend(code: int, around: bytes) -> str:
    """Return what to do about a fault of XML; ``around`` is the byte before it and the one at it."""
    if code == _UNDEFINED:
        return "write the character itself: XML knows &amp; &lt; &gt; &quot; &apos; alone"
    for mark, name in ((b"&", "&amp;"), (b"<", "&lt;")):
        if code == _INVALID and mark in around:
            return f"write {mark.decode()} as {name}"
    return "correct it there or just before"
