"""Conversion of OpDef XML elements to definitions, for ElementTree and lxml alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from xdlc.errors import nearest_names
from xdlc.ir.dtype import BY_NAME, DType
from xdlc.opdefs.model import (
    Collection,
    Constraint,
    DescriptionPart,
    OpDef,
    ParamDef,
    Reference,
    SupplementOp,
    SupplementTable,
    SupplementTensor,
    TensorDef,
)

Element = Any
"""An ``xml.etree.ElementTree.Element``, or lxml's, which has the same methods, and its line."""
Key = tuple[str | int, ...]
"""Place of a part of a collection: see ``keys``."""

BACKEND_SPECIFIC = "BACKEND_SPECIFIC"
MAX_NAME = 200
"""Most characters of a name: generated files are called by it."""
VERSION = "1.0"
"""Version of packages that state none."""
RANKS = {"SCALAR": 0, "1D": 1, "2D": 2, "3D": 3, "4D": 4}
SIDES = {"Input": "input", "Output": "output", "Parameter": "param"}
TITLES = {"Input": "input", "Output": "output", "Parameter": "parameter"}
_TRUE = ("true", "True", "1")


def dtype_of(word: str) -> DType | None:
    """Return the type of a ``Datatype`` text, or None for BACKEND_SPECIFIC.

    Raises:
        ValueError: If there is no such type.

    Example:
        >>> dtype_of("QNN_DATATYPE_UFIXED_POINT_8"), dtype_of("FIXED_8"), dtype_of("INT_32")
        (ufixed8, ufixed8, int32)
    """
    if word == BACKEND_SPECIFIC:
        return None
    name = word.removeprefix("QNN_DATATYPE_").replace("FIXED_POINT", "FIXED").replace("_", "").lower()
    name = f"u{name}" if name.startswith("fixed") else name
    if name not in BY_NAME:
        raise ValueError(f"unknown data type {word!r}")
    return BY_NAME[name]


def spelling(dtype: DType) -> str:
    """Return QNN's spelling of a data type.

    Example:
        >>> spelling(BY_NAME["ufixed8"]), spelling(BY_NAME["bool8"])
        ('QNN_DATATYPE_UFIXED_POINT_8', 'QNN_DATATYPE_BOOL_8')
    """
    stem = dtype.name.rstrip("0123456789")
    family = stem.upper().replace("FIXED", "FIXED_POINT")
    bits = dtype.name[len(stem) :]
    return f"QNN_DATATYPE_{family}" + (f"_{bits}" if bits else "")


def collection(root: Element) -> Collection:
    """Return the collection of an ``OpDefCollection``.

    Raises:
        ValueError: If a data type is unknown.
    """
    package, version = root.get("PackageName", ""), root.get("Version", "")
    return Collection(
        package,
        root.get("Domain", ""),
        version if version.strip() else VERSION,
        tuple(_opdef(element, package) for element in root.iterfind("OpDefList/OpDef")),
        tuple(_table(element) for element in root.iterfind("SupplementalOpDefList")),
    )


def keys(root: Element) -> Iterator[tuple[Key, Element]]:
    """Yield the place of each part of a collection, with its element.

    ====================================== ==================================================
    Place                                  Element
    ====================================== ==================================================
    ``()``                                 the collection
    ``("op", i)``                          its i-th op
    ``("op", i, "input", j)``              an input of it; ``"output"`` likewise
    ``("op", i, "param", name)``           a parameter of it
    ``("table", t)``                       the t-th supplement
    ``("table", t, "supported", name)``    an op that it supports
    ``("table", t, "op", name)``           an op that it supplements
    ``(..., "input", name)``               an input of that; ``"output"``, ``"param"`` likewise
    any of these, then a tag               the first child element of that tag
    ... ``"Constraint"``, an id            the last constraint of that id
    ... ``"Enumeration"``, a name          the last enumerator of that name
    ... ``"SupportedBackend"``, a name     the last mention of that backend
    any of these, then an attribute        that attribute, where it has a line of its own
    ====================================== ==================================================
    """
    yield (), root
    for i, op in enumerate(root.iterfind("OpDefList/OpDef")):
        yield from _with_children(("op", i), op)
        for tag, side in SIDES.items():
            for j, child in enumerate(op.iterfind(tag)):
                place = text_of(child, "Name") if side == "param" else j
                yield from _with_children(("op", i, side, place), child)
    for t, table in enumerate(root.iterfind("SupplementalOpDefList")):
        yield ("table", t), table
        for child in table.iterfind("SupportedOps/OpName"):
            yield ("table", t, "supported", text_of(child)), child
        for op in table.iterfind("SupplementalOpDef"):
            key = ("table", t, "op", text_of(op, "Name"))
            yield from _with_children(key, op)
            for tag, side in SIDES.items():
                for child in op.iterfind(tag):
                    yield from _with_children((*key, side, text_of(child, "Name")), child)


def _with_children(key: Key, element: Element) -> Iterator[tuple[Key, Element]]:
    yield key, element
    for child in reversed(element):  # of several with one tag, the first stays
        yield (*key, child.tag), child
        if child.tag == "Shape":
            for part in child:
                yield (*key, part.tag), part
    for child in element:
        if child.tag == "Constraint":
            yield (*key, child.tag, child.get("id", "").strip()), child
        elif child.tag == "SupportedBackend":
            yield (*key, child.tag, text_of(child)), child
        elif child.tag == "Enumeration":
            for part in child:
                yield (*key, child.tag, text_of(part)), part


def text_of(element: Element, tag: str | None = None) -> str:
    """Return the stripped text of an element or of its child, or ""."""
    text = element.text if tag is None else element.findtext(tag)
    return (text or "").strip()


def _flag(element: Element, tag: str) -> bool:
    return text_of(element, tag) in _TRUE


def _dtypes(element: Element) -> tuple[DType, ...]:
    words = [text_of(child) for child in element.iterfind("Datatype")]
    if BACKEND_SPECIFIC in words:
        return ()
    found = (dtype_of(word) for word in words if word)
    return tuple(dict.fromkeys(dtype for dtype in found if dtype is not None))


def _constraints(element: Element) -> tuple[Constraint, ...]:
    """Return the constraints without the empty elements of templates."""
    found = (
        Constraint(child.get("id", "").strip(), child.get("Type", ""), text_of(child))
        for child in element.iterfind("Constraint")
    )
    return tuple(rule for rule in found if rule.id or rule.type or rule.text)


def _description(element: Element) -> tuple[DescriptionPart, ...]:
    """Return the parts of a description; bare text becomes ``Content``."""
    parts: list[DescriptionPart] = []
    for held in element.iterfind("Description"):
        parts.append(DescriptionPart((held.text or "").strip()))
        for part in held:
            parts.append(DescriptionPart(part.text or "", part.tag == "Code"))
            parts.append(DescriptionPart((part.tail or "").strip()))
    return tuple(part for part in parts if part.text.strip())


def _references(element: Element) -> tuple[Reference, ...]:
    found = (
        Reference(child.get("Source", ""), child.get("Url", ""), text_of(child))
        for child in element.iterfind("Reference")
    )
    return tuple(one for one in found if one.source or one.url or one.text)


def _fields(element: Element) -> dict[str, Any]:
    """Return the fields common to inputs, outputs and parameters."""
    return {
        "name": text_of(element, "Name"),
        "mandatory": _flag(element, "Mandatory"),
        "dtypes": _dtypes(element),
        "rank": RANKS.get(text_of(element, "Shape/Rank")),
        "text": text_of(element, "Shape/Text"),
        "layout": text_of(element, "Shape/Layout"),
        "constraints": _constraints(element),
        "default": text_of(element, "Default") or None,
        "description": _description(element),
    }


def _tensor(element: Element) -> TensorDef:
    repeated, is_static = _flag(element, "Repeated"), _flag(element, "IsStaticTensor")
    return TensorDef(**_fields(element), repeated=repeated, is_static=is_static)


def _param(element: Element) -> ParamDef:
    names = tuple(text_of(child) for child in element.iterfind("Enumeration/Enum"))
    return ParamDef(**_fields(element), enumeration=names if any(names) else ())


def _opdef(element: Element, package: str) -> OpDef:
    params = [_param(child) for child in element.iterfind("Parameter")]
    backends = (text_of(child) for child in element.iterfind("SupportedBackend"))
    return OpDef(
        text_of(element, "Name"),
        package,
        tuple(_tensor(child) for child in element.iterfind("Input")),
        tuple(_tensor(child) for child in element.iterfind("Output")),
        {param.name: param for param in params},
        _description(element),
        _references(element),
        tuple(backend for backend in backends if backend),
        _flag(element, "UseDefaultTranslation"),
    )


def _table(element: Element) -> SupplementTable:
    ops: dict[str, tuple[SupplementOp, ...]] = {}
    for child in element.iterfind("SupplementalOpDef"):
        op = _supplement_op(child)
        ops[op.name] = (*ops.get(op.name, ()), op)
    supported = (text_of(child) for child in element.iterfind("SupportedOps/OpName"))
    return SupplementTable(element.get("Backend", "").strip(), frozenset(filter(None, supported)), ops)


def _supplement_op(element: Element) -> SupplementOp:
    def tensors(tag: str) -> dict[str, SupplementTensor]:
        found = [_supplement_tensor(child) for child in element.iterfind(tag)]
        return {tensor.name: tensor for tensor in found}

    return SupplementOp(text_of(element, "Name"), tensors("Input"), tensors("Output"), tensors("Parameter"))


def _supplement_tensor(element: Element) -> SupplementTensor:
    return SupplementTensor(
        text_of(element, "Name"),
        _dtypes(element),
        _constraints(element),
        _flag(element, "OnlyDefaultSupported"),
        text_of(element, "Shape/Layout"),
        text_of(element, "Shape/Text"),
    )


def near(name: str, known: Iterable[str]) -> str:
    """Return the known names closest to a name, or "", at a bounded cost."""
    if len(name) > MAX_NAME:
        return ""
    return nearest_names(name, (one for one in islice(known, 1000) if len(one) <= MAX_NAME))
