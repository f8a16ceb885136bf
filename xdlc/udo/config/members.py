"""Names and members of JSON configurations: one table for reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from xdlc.ir.dtype import BY_NAME, DType
from xdlc.json_fields import Fields, Node
from xdlc.opdefs import backends, xml_elements
from xdlc.opdefs.model import LAYOUTS, Constraint, DescriptionPart, Reference
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC, spelling

QNN = "QNN_DATATYPE_"
CORES = ("CPU", "GPU", "DSP")
ARCHS = tuple(name.removeprefix("DSP_").lower() for name in (*backends.OLD_DSPS, *backends.NEW_DSPS))

LAYOUT_WORDS = (*LAYOUTS, "UNDEFINED", BACKEND_SPECIFIC)
RANKS = {**xml_elements.RANKS, "ND": None}
CONSTRAINTS = ("Number", "Shape", "Value", "Datatype", "Description")

_RANK_NAMES = {rank: name for name, rank in RANKS.items()}


def type_name(dtype: DType) -> str:
    """Return the name of a data type in a JSON configuration.

    Example:
        >>> type_name(BY_NAME["float32"]), type_name(BY_NAME["ufixed8"]), type_name(BY_NAME["sfixed16"])
        ('FLOAT_32', 'FIXED_8', 'SFIXED_POINT_16')
    """
    return spelling(dtype).removeprefix(QNN).replace("UFIXED_POINT", "FIXED")


_DTYPES = [dtype for dtype in BY_NAME.values() if dtype.name != "undefined"]
_QNN_NAMES = {spelling(dtype): dtype for dtype in _DTYPES}
TYPES: dict[str, DType] = {
    **{type_name(dtype): dtype for dtype in _DTYPES},
    **{name.removeprefix(QNN): dtype for name, dtype in _QNN_NAMES.items()},
    **_QNN_NAMES,
}
"""Data types by all their names, those of JSON first."""

COMMON_TYPES = (
    *("FLOAT_16", "FLOAT_32", "FIXED_4", "FIXED_8", "FIXED_16", "UINT_8", "UINT_16", "UINT_32", "STRING"),
    *("INT_8", "INT_16", "INT_32", "BOOL_8"),
)
"""The names that messages offer."""
_TYPE_NAMES = (*COMMON_TYPES, *(name for name in TYPES if name not in COMMON_TYPES), BACKEND_SPECIFIC)


def backends_of(cores: list[str], archs: list[str]) -> tuple[str, ...]:
    """Return the backends of an op, as OpDef XML names them.

    Example:
        >>> backends_of(["CPU", "DSP"], ["v66", "v68"]), backends_of(["DSP"], [])
        (('CPU', 'DSP_V66', 'DSP_V68'), ('DSP',))
    """
    of_dsp = tuple(f"DSP_{arch.upper()}" for arch in archs) or ("DSP",)
    return tuple(name for core in cores for name in (of_dsp if core == "DSP" else (core,)))


def cores_of(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the cores and DSP architectures of backends; HTP is the DSP from v68 on.

    Example:
        >>> cores_of(("CPU", "DSP_V66", "AIC"))
        (['CPU', 'DSP'], ['v66'])
        >>> cores_of(("HTP",))[1][:3]
        ['v68', 'v69', 'v73']
    """
    cores: list[str] = []
    archs: list[str] = []
    for name in names:
        core = "DSP" if backends.is_dsp(name) else name
        if core in CORES and core not in cores:
            cores.append(core)
        own = backends.NEW_DSPS if name.startswith("HTP") and core == "DSP" else (name,)
        archs += [arch for arch in ARCHS if f"DSP_{arch.upper()}" in own and arch not in archs]
    return cores, archs


TAGS = {
    "name": "Name",
    "mandatory": "Mandatory",
    "dtypes": "Datatype",
    "rank": "Rank",
    "text": "Text",
    "layout": "Layout",
    "constraints": "Constraint",
    "default": "Default",
    "repeated": "Repeated",
    "is_static": "IsStaticTensor",
    "enumeration": "Enumeration",
    "description": "Description",
    "only_default": "OnlyDefaultSupported",
}
"""Attributes of inputs, outputs, parameters and rows of supplements, and their names in OpDef XML.

The names are the keys of places in ``opdefs.semantics.check_collection``.
"""


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
            problem = f"{name} of {fields.what} has types together with BACKEND_SPECIFIC"
            fields.report(name, problem, "remove BACKEND_SPECIFIC or the other types")
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
LAYOUT = Kind(lambda fields, name: fields.one_of(name, LAYOUT_WORDS), str)
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
