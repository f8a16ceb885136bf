"""Reads OpDef XML: the native operations, one file each, and what backends add to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from xdlc.errors import ModelError, StorageError, UsageError, nearest_names
from xdlc.ir.dtype import BY_NAME, DType
from xdlc.opdefs.model import (
    Collection,
    Constraint,
    OpDef,
    ParamDef,
    Supplement,
    SupplementOp,
    SupplementTable,
    SupplementTensor,
    TensorDef,
)

__all__ = [
    "BACKENDS",
    "Collection",
    "Constraint",
    "OpDef",
    "ParamDef",
    "Supplement",
    "SupplementOp",
    "SupplementTable",
    "SupplementTensor",
    "TensorDef",
    "all_types",
    "dtype_of",
    "find",
    "read_collection",
    "supplement",
    "validate_xml",
]

NATIVE_PACKAGE = "qti.aisw"
BACKENDS = ("cpu", "gpu", "htp", "hta")
MAX_XML_BYTES = 16 << 20

_DATA = Path(__file__).parent / "data"
_SCHEMA = Path(__file__).parent.parent / "schema" / "opdef.xsd"
_RANKS = {"SCALAR": 0, "1D": 1, "2D": 2, "3D": 3, "4D": 4}
_TRUE = ("true", "True", "1")


@cache
def all_types() -> tuple[str, ...]:
    """Return the types of all native operations, sorted."""
    return tuple(sorted(name[:-4] for name in os.listdir(_DATA / "ops") if name.endswith(".xml")))


def find(type: str, package: str = NATIVE_PACKAGE) -> OpDef | None:
    """Return the definition of a native operation, or None if it is not known."""
    if package != NATIVE_PACKAGE or type not in all_types():
        return None
    return _native(type)


@cache
def _native(type: str) -> OpDef:
    return _collection(_DATA / "ops" / f"{type}.xml", ElementTree.XMLParser()).opdefs[0]


@cache
def supplement(backend: str) -> Supplement:
    """Return what a backend adds.

    Raises:
        UsageError: If the backend is not known.
    """
    name = backend.lower()
    if name not in BACKENDS:
        raise UsageError(
            f"unknown backend {backend!r}",
            fix=nearest_names(backend, BACKENDS) or f"use one of {', '.join(BACKENDS)}",
        )
    path = _DATA / "backends" / f"{name}.xml"
    return Supplement(name, _collection(path, ElementTree.XMLParser()).supplements)


class _Builder(ElementTree.TreeBuilder):
    """Refuses document types, which could hold entities that grow without bound."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ValueError(f"document type {name!r} is not allowed")


def read_collection(path: str | os.PathLike[str]) -> Collection:
    """Read an OpDef XML file without checking it against the schema (see ``validate_xml``).

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it is no XML, has a document type, or lacks what the definitions need.
    """
    return _collection(path, ElementTree.XMLParser(target=_Builder()))


def _collection(path: str | os.PathLike[str], parser: ElementTree.XMLParser) -> Collection:
    where = os.fspath(path)
    content = _content(path)
    try:
        root = ElementTree.fromstring(content, parser)
    except (ElementTree.ParseError, ValueError) as error:
        raise ModelError(f"is not well-formed XML: {error}", where=where) from error
    try:
        package = root.get("PackageName", "")
        return Collection(
            package,
            root.get("Domain", ""),
            root.get("Version", ""),
            tuple(_opdef(element, package) for element in root.iterfind("OpDefList/OpDef")),
            tuple(_table(element) for element in root.iterfind("SupplementalOpDefList")),
        )
    except (KeyError, ValueError) as error:
        raise ModelError(
            f"breaks the OpDef schema: {error}", where=where, fix="check the file with validate_xml"
        ) from error


def validate_xml(path: str | os.PathLike[str]) -> list[ModelError]:
    """Check an OpDef XML file against ``opdef.xsd``; return what is wrong, with line numbers.

    Document types are refused, so that no entity is ever expanded or fetched.

    Raises:
        StorageError: If the file cannot be read.
    """
    from lxml import etree

    where = os.fspath(path)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        document: Any = etree.fromstring(_content(path), parser).getroottree()
    except etree.XMLSyntaxError as error:
        return [ModelError(f"is not well-formed XML: {error.msg}", where=f"{where}:{error.lineno or 1}")]
    if document.docinfo.doctype:
        return [ModelError("has a document type", where=f"{where}:1", fix="remove <!DOCTYPE ...>")]
    schema: Any = etree.XMLSchema(etree.parse(str(_SCHEMA)))
    if not schema.validate(document):
        return [ModelError(entry.message, where=f"{where}:{entry.line}") for entry in schema.error_log]
    return [
        ModelError(problem, where=f"{where}:{element.sourceline}", fix=fix)
        for tag in ("Input", "Output", "Parameter")
        for element in document.iterfind(f"OpDefList/OpDef/{tag}")
        for problem, fix in _incomplete(element)
    ]


def _incomplete(element: Any) -> Iterator[tuple[str, str]]:
    name = f"{element.tag} {_text(element, 'Name')!r}"
    for child, least, most in (("Mandatory", 1, 1), ("Shape", 1, 1), ("Datatype", 1, 99), ("Default", 0, 1)):
        count = len(element.findall(child))
        if not least <= count <= most:
            yield f"{name} has {count} {child} elements", f"give it {'one' if most == 1 else 'at least one'}"


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_XML_BYTES + 1)
    except OSError as error:
        raise StorageError(f"cannot be read: {error.strerror or error}", where=os.fspath(path)) from error
    if len(content) > MAX_XML_BYTES:
        raise ModelError(f"is larger than {MAX_XML_BYTES >> 20} MiB", where=os.fspath(path))
    return content


def _text(element: ElementTree.Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


def dtype_of(word: str) -> DType | None:
    """Return the type of a ``Datatype`` text, or None for BACKEND_SPECIFIC.

    Raises:
        ValueError: If there is no such type.

    Example:
        >>> dtype_of("QNN_DATATYPE_UFIXED_POINT_8"), dtype_of("FIXED_8"), dtype_of("INT_32")
        (ufixed8, ufixed8, int32)
    """
    if word == "BACKEND_SPECIFIC":
        return None
    name = word.removeprefix("QNN_DATATYPE_").replace("FIXED_POINT", "FIXED").replace("_", "").lower()
    name = f"u{name}" if name.startswith("fixed") else name
    if name not in BY_NAME:
        raise ValueError(f"unknown data type {word!r}")
    return BY_NAME[name]


def _dtypes(element: ElementTree.Element) -> tuple[DType, ...]:
    words = [(child.text or "").strip() for child in element.iterfind("Datatype")]
    if "BACKEND_SPECIFIC" in words:
        return ()
    found = (dtype_of(word) for word in words if word)
    return tuple(dtype for dtype in found if dtype is not None)


def _constraints(element: ElementTree.Element) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(child.get("id", ""), child.get("Type", ""), (child.text or "").strip())
        for child in element.iterfind("Constraint")
    )


def _shape(text: str) -> tuple[str, ...]:
    """Split ``[rank(in[0]), 2]`` into its extents; other texts tell none."""
    if not (text.startswith("[") and text.endswith("]")):
        return ()
    return tuple(part.strip() for part in text[1:-1].split(",")) if text != "[]" else ()


def _tensor(element: ElementTree.Element) -> TensorDef:
    return TensorDef(
        _text(element, "Name"),
        _text(element, "Mandatory") in _TRUE,
        _dtypes(element),
        _RANKS.get(_text(element, "Shape/Rank")),
        _shape(_text(element, "Shape/Text")),
        _text(element, "Shape/Layout"),
        _constraints(element),
        _text(element, "Default") or None,
        _text(element, "Repeated") in _TRUE,
        _text(element, "IsStaticTensor") in _TRUE,
    )


def _param(element: ElementTree.Element) -> ParamDef:
    base = _tensor(element)
    return ParamDef(
        base.name,
        base.mandatory,
        base.dtypes,
        base.rank,
        base.shape,
        base.layout,
        base.constraints,
        base.default,
        enumeration=tuple((child.text or "").strip() for child in element.iterfind("Enumeration/Enum")),
    )


def _opdef(element: ElementTree.Element, package: str) -> OpDef:
    description = _text(element, "Description/Content")
    params = [_param(child) for child in element.iterfind("Parameter")]
    return OpDef(
        _text(element, "Name"),
        package,
        tuple(_tensor(child) for child in element.iterfind("Input")),
        tuple(_tensor(child) for child in element.iterfind("Output")),
        {param.name: param for param in params},
        description,
        tuple(child.get("Source", "") for child in element.iterfind("Reference")),
        tuple((child.text or "").strip() for child in element.iterfind("SupportedBackend")),
        _text(element, "UseDefaultTranslation") in _TRUE,
        not description.startswith("Incomplete:"),
    )


def _table(element: ElementTree.Element) -> SupplementTable:
    ops: dict[str, tuple[SupplementOp, ...]] = {}
    for child in element.iterfind("SupplementalOpDef"):
        op = _supplement_op(child)
        ops[op.name] = (*ops.get(op.name, ()), op)
    return SupplementTable(
        element.get("Backend", ""),
        frozenset((child.text or "").strip() for child in element.iterfind("SupportedOps/OpName")),
        ops,
    )


def _supplement_op(element: ElementTree.Element) -> SupplementOp:
    def tensors(tag: str) -> dict[str, SupplementTensor]:
        found = [
            SupplementTensor(
                _text(child, "Name"),
                _dtypes(child),
                _constraints(child),
                _text(child, "OnlyDefaultSupported") in _TRUE,
            )
            for child in element.iterfind(tag)
        ]
        return {tensor.name: tensor for tensor in found}

    return SupplementOp(_text(element, "Name"), tensors("Input"), tensors("Output"), tensors("Parameter"))
