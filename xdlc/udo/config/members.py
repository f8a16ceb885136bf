"""Members of a JSON configuration that are read and written by one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from xdlc.ir.dtype import DType
from xdlc.json_fields import Fields, Node
from xdlc.opdefs.model import Constraint, DescriptionPart, Reference
from xdlc.udo.config.names import COMMON_TYPES, LAYOUTS, TYPES, type_name

BACKEND_SPECIFIC = "BACKEND_SPECIFIC"
RANKS = {"SCALAR": 0, "1D": 1, "2D": 2, "3D": 3, "4D": 4, "ND": None}
CONSTRAINTS = ("Number", "Shape", "Value", "Datatype", "Description")

_RANK_NAMES = {rank: name for name, rank in RANKS.items()}
_TYPE_NAMES = (*COMMON_TYPES, *(name for name in TYPES if name not in COMMON_TYPES), BACKEND_SPECIFIC)


class Kind(NamedTuple):
    """A type of member.

    Attributes:
        read: Returns the value of a member by its name.
        write: Returns the JSON of a value.
    """

    read: Callable[[Fields, str], Any]
    write: Callable[[Any], Any]


Members = Mapping[str, tuple[str, Kind]]
"""Members by name, each with the attribute that holds it."""


def read_members(fields: Fields, members: Members) -> dict[str, Any]:
    """Return attributes from the members of an object."""
    return {attribute: kind.read(fields, name) for name, (attribute, kind) in members.items()}


def written(value: Any, members: Members) -> dict[str, Any]:
    """Return an object with the attributes of a value that are not empty."""
    held = {name: (getattr(value, attribute), kind) for name, (attribute, kind) in members.items()}
    return {name: kind.write(item) for name, (item, kind) in held.items() if item}


def _records(title: str, make: Callable[..., Any], members: Members) -> Kind:
    """Return the kind of an array of objects."""

    def read(fields: Fields, name: str) -> tuple[Any, ...]:
        what = f"{title} of {fields.what}"
        nodes = (Fields(node, what, fields.scope, tuple(members)) for node in fields.items(name))
        return tuple(make(**read_members(one, members)) for one in nodes)

    return Kind(read, lambda values: [written(value, members) for value in values])


def read_types(fields: Fields, name: str) -> tuple[DType, ...]:
    """Return several data types; none for ``["BACKEND_SPECIFIC"]``."""
    words = fields.words(name, _TYPE_NAMES)
    if name in fields:
        fields.need(name, '["FLOAT_32"]')
    if BACKEND_SPECIFIC in words:
        if len(words) > 1:
            problem = f"{name} of {fields.what} has types beside BACKEND_SPECIFIC"
            fields.report(name, problem, "remove the one or the others")
        return ()
    return tuple(dict.fromkeys(TYPES[word] for word in words))


def write_types(dtypes: Iterable[DType]) -> list[str]:
    """Return the names of data types."""
    return [type_name(dtype) for dtype in dtypes] or [BACKEND_SPECIFIC]


def _read_rank(fields: Fields, name: str) -> int | None:
    return RANKS[fields.one_of(name, RANKS) or "ND"]


def _read_description(fields: Fields, name: str) -> tuple[DescriptionPart, ...]:
    """Return a description: a string, or strings and ``content`` or ``code`` objects."""
    node = fields.node(name)
    if node is None:
        return ()
    if isinstance(node.value, str):
        return (DescriptionPart(node.value),) if node.value.strip() else ()
    return tuple(_description_part(item, f"{name} of {fields.what}", fields) for item in fields.items(name))


def _description_part(node: Node, what: str, parent: Fields) -> DescriptionPart:
    if isinstance(node.value, str):
        return DescriptionPart(node.value)
    fields = Fields(node, f"an element of {what}", parent.scope, ("content", "code"))
    if fields.ok and ("content" in fields) == ("code" in fields):
        parent.scope.report(
            node.path, f"{fields.what} needs either content or code", 'write {"content": "..."}'
        )
    name = "code" if "code" in fields else "content"
    return DescriptionPart(fields.text(name), name == "code")


def _write_description(parts: Iterable[DescriptionPart]) -> list[Any]:
    return [{"code": part.text} if part.is_code else part.text for part in parts]


TEXT = Kind(Fields.text, str)
FLAG = Kind(Fields.flag, bool)
LAYOUT = Kind(lambda fields, name: fields.one_of(name, LAYOUTS), str)
DESCRIPTION = Kind(_read_description, _write_description)
REFERENCES = _records(
    "a reference", Reference, {"source": ("source", TEXT), "url": ("url", TEXT), "text": ("text", TEXT)}
)
CONSTRAINT_LIST = _records(
    "a constraint",
    Constraint,
    {
        "id": ("id", TEXT),
        "type": ("type", Kind(lambda fields, name: fields.one_of(name, CONSTRAINTS), str)),
        "text": ("text", TEXT),
    },
)
SUPPLEMENT: Members = {
    "name": ("name", TEXT),
    "data_types": ("dtypes", Kind(read_types, write_types)),
    "tensor_layout": ("layout", LAYOUT),
    "shape": ("text", TEXT),
    "constraints": ("constraints", CONSTRAINT_LIST),
    "only_default": ("only_default", FLAG),
}
"""Fields of a row of a supplement."""
TENSOR: Members = {
    "xdlc_rank": ("rank", Kind(_read_rank, _RANK_NAMES.__getitem__)),
    "xdlc_shape": ("text", Kind(lambda fields, name: fields.text(name).strip(), str)),
    "xdlc_mandatory": ("mandatory", FLAG),
    "xdlc_enumeration": ("enumeration", Kind(Fields.strings, list)),
    "xdlc_constraints": ("constraints", CONSTRAINT_LIST),
    "xdlc_description": ("description", DESCRIPTION),
}
"""Fields of an input, output or parameter that only xdlc reads."""
