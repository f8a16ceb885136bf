"""Writer of OpDef XML: reading it returns an equal value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from xdlc.errors import ModelError
from xdlc.ir.dtype import DType
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
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC, RANKS, spelling

_RANK_WORDS = {rank: word for word, rank in RANKS.items()}
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"


def write_collection(collection: Collection) -> str:
    """Return a collection as OpDef XML.

    Data types are spelled as QNN does; what is empty or false is omitted where it is optional.

    Raises:
        ModelError: If a text holds a character that XML cannot, or the schema does not have a rank.

    Example:
        >>> print(write_collection(Collection("Pkg", "example", "1.0", (), ())))
        <?xml version="1.0" encoding="UTF-8"?>
        <OpDefCollection
            xmlns:xs="http://www.w3.org/2001/XMLSchema-instance" xs:noNamespaceSchemaLocation="OpDef.xsd"
            PackageName="Pkg" Domain="example" Version="1.0">
        </OpDefCollection>
        <BLANKLINE>
    """
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<OpDefCollection",
            f'    xmlns:xs="{_INSTANCE}" xs:noNamespaceSchemaLocation="OpDef.xsd"',
            f"    PackageName={_quoted(collection.package)} Domain={_quoted(collection.domain)}"
            f" Version={_quoted(collection.version)}>",
            *_indent(_lists(collection)),
            "</OpDefCollection>",
            "",
        ]
    )


def _lists(collection: Collection) -> Iterator[str]:
    if collection.opdefs:
        yield from _element("OpDefList", (line for op in collection.opdefs for line in _opdef(op)))
    for table in collection.supplements:
        yield from _element("SupplementalOpDefList", _table(table), Backend=table.backend)


def _opdef(op: OpDef) -> Iterator[str]:
    def children() -> Iterator[str]:
        yield _leaf("Name", op.name)
        yield from _description(op.description)
        yield from map(_reference, op.references)
        for tensor in op.inputs:
            yield from _tensor("Input", tensor)
        for tensor in op.outputs:
            yield from _tensor("Output", tensor)
        for param in op.params.values():
            yield from _tensor("Parameter", param)
        if op.use_default_translation:
            yield _leaf("UseDefaultTranslation", "true")
        for backend in op.backends:
            yield _leaf("SupportedBackend", backend)

    return _element("OpDef", children())


def _tensor(tag: str, tensor: TensorDef) -> Iterator[str]:
    def children() -> Iterator[str]:
        yield _leaf("Name", tensor.name)
        yield from _description(tensor.description)
        yield _leaf("Mandatory", "true" if tensor.mandatory else "false")
        yield from map(_constraint, tensor.constraints)
        yield from _dtypes(tensor.dtypes, BACKEND_SPECIFIC)
        yield from _element("Shape", _shape(_rank(tensor), tensor.layout, tensor.text))
        if tensor.default is not None:
            yield _leaf("Default", tensor.default)
        if tensor.repeated:
            yield _leaf("Repeated", "true")
        if tensor.is_static:
            yield _leaf("IsStaticTensor", "true")
        if isinstance(tensor, ParamDef) and tensor.enumeration:
            yield from _element("Enumeration", (_leaf("Enum", name) for name in tensor.enumeration))

    return _element(tag, children())


def _rank(tensor: TensorDef) -> str:
    if tensor.rank is None:
        return "ND"
    if tensor.rank not in _RANK_WORDS:
        raise ModelError(
            f"{tensor.name!r} has rank {tensor.rank}, expected one of {', '.join(_RANK_WORDS.values())}, ND",
            fix="use ND and a constraint on the rank",
        )
    return _RANK_WORDS[tensor.rank]


def _table(table: SupplementTable) -> Iterator[str]:
    if table.supported:
        yield from _element("SupportedOps", (_leaf("OpName", name) for name in sorted(table.supported)))
    for alternatives in table.ops.values():
        for op in alternatives:
            yield from _element("SupplementalOpDef", _supplement(op))


def _supplement(op: SupplementOp) -> Iterator[str]:
    yield _leaf("Name", op.name)
    for tag, tensors in (("Input", op.inputs), ("Output", op.outputs), ("Parameter", op.params)):
        for tensor in tensors.values():
            yield from _element(tag, _supplement_tensor(tensor))


def _supplement_tensor(tensor: SupplementTensor) -> Iterator[str]:
    yield _leaf("Name", tensor.name)
    yield from map(_constraint, tensor.constraints)
    yield from _dtypes(tensor.dtypes, None)
    if tensor.layout or tensor.text:
        yield from _element("Shape", _shape(None, tensor.layout, tensor.text))
    if tensor.only_default:
        yield _leaf("OnlyDefaultSupported", "true")


def _shape(rank: str | None, layout: str, text: str) -> Iterator[str]:
    if rank is not None:
        yield _leaf("Rank", rank)
    if layout:
        yield _leaf("Layout", layout)
    if text:
        yield _leaf("Text", text)


def _dtypes(dtypes: Iterable[DType], fallback: str | None) -> Iterator[str]:
    words = [spelling(dtype) for dtype in dtypes] or ([fallback] if fallback else [])
    return (_leaf("Datatype", word) for word in words)


def _constraint(rule: Constraint) -> str:
    return _leaf("Constraint", rule.text, id=rule.id, Type=rule.type)


def _reference(reference: Reference) -> str:
    return _leaf("Reference", reference.text, Source=reference.source, Url=reference.url)


def _description(parts: Iterable[DescriptionPart]) -> Iterator[str]:
    lines = [_leaf("Code" if part.is_code else "Content", part.text) for part in parts]
    return _element("Description", lines) if lines else iter(())


def _element(tag: str, children: Iterable[str], **attributes: str) -> Iterator[str]:
    yield f"<{tag}{_attributes(attributes)}>"
    yield from _indent(children)
    yield f"</{tag}>"


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _leaf(tag: str, text: str, **attributes: str) -> str:
    return f"<{tag}{_attributes(attributes)}>{_escaped(text)}</{tag}>"


def _attributes(values: dict[str, str]) -> str:
    return "".join(f" {name}={_quoted(value)}" for name, value in values.items() if value)


def _quoted(text: str) -> str:
    escaped = _escaped(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
    return f'"{escaped}"'


def _escaped(text: str) -> str:
    if illegal := _ILLEGAL.search(text):
        raise ModelError(
            f"{text[:40]!r} holds character U+{ord(illegal[0]):04X}, which XML cannot",
            fix="remove the character",
        )
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")
