"""Inputs, outputs and parameters of a JSON configuration, read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdlc.errors import ModelError
from xdlc.ir.dtype import DType
from xdlc.json_fields import Fields, Node, Scope, choice, named, shown
from xdlc.opdefs.model import ParamDef, SupplementTable, SupplementTensor, TensorDef
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC
from xdlc.udo.config.defaults import WrongDefaultError, default_json, default_text
from xdlc.udo.config.members import (
    COMMON_TYPES,
    CORES,
    LAYOUT,
    LAYOUT_WORDS,
    TAGS,
    TENSOR,
    TYPES,
    cores_of,
    read_members,
    read_types,
    type_name,
    write_types,
)

ONE = "data_type"
EACH = "per_core_data_types"
EACH_OLD = "per_core_data_type"
SEVERAL = "xdlc_data_types"

_SHARED = tuple(name for name in TENSOR if name != "xdlc_enumeration")
_TENSOR = ("name", ONE, EACH, "tensor_layout", "static")
_OLD = (EACH_OLD, "quantization_mode")
FIELDS = {
    "inputs": (*_TENSOR, "repeated", "default", *_OLD, SEVERAL, *_SHARED),
    "outputs": (*_TENSOR, "repeated", *_OLD, SEVERAL, *_SHARED),
    "scalar_params": ("name", ONE, "default", "quantization_mode", SEVERAL, *TENSOR),
    "tensor_params": (*_TENSOR, "default", *_OLD, SEVERAL, *TENSOR),
}
STEMS = {"inputs": "in", "outputs": "out"}
_ATTRIBUTES = {
    "name": "name",
    EACH_OLD: "dtypes",
    EACH: "dtypes",
    SEVERAL: "dtypes",
    ONE: "dtypes",
    "tensor_layout": "layout",
    "static": "is_static",
    "repeated": "repeated",
    "default": "default",
    **{name: attribute for name, (attribute, _) in TENSOR.items()},
}
"""Attributes that the fields state."""


@dataclass(frozen=True, slots=True)
class Part:
    """An input, output or parameter with its places.

    Attributes:
        definition: Its definition; without data types where the cores differ.
        per_core: Its data type for each core, where they differ.
        what: Its title in messages.
        path: Its JSON path.
        paths: Paths of its fields, under their names in OpDef XML.
    """

    definition: TensorDef
    per_core: Mapping[str, DType]
    what: str
    path: str
    paths: Mapping[str, str]


def part_of(node: Node, role: str, index: int, op: str, scope: Scope) -> Part:
    """Return an entry of ``inputs``, ``outputs`` or one of the parameter lists.

    Args:
        role: Which of the four lists holds it.
        op: Title of the operator.
        scope: Collects problems.
    """
    title = shown(named(node, "name")) if named(node, "name") else index
    fields = Fields(node, f"{role[:-1]} {title} of {op}", scope, FIELDS[role])
    is_scalar = role == "scalar_params"
    members = read_members(fields, TENSOR)
    dtypes, per_core = _types_of(fields, is_scalar)
    if is_scalar and "xdlc_rank" not in fields:
        members["rank"] = 0
    if role in STEMS:
        del members["enumeration"]
    definition = (TensorDef if role in STEMS else ParamDef)(
        name=_name(fields, role, index),
        dtypes=dtypes,
        layout=LAYOUT.read(fields, "tensor_layout"),
        repeated=fields.flag("repeated"),
        is_static=_is_static(fields, role),
        **members,
    )
    default = _default(fields, replace(definition, dtypes=dtypes or tuple(per_core.values())))
    is_mandatory = definition.mandatory if "xdlc_mandatory" in fields else default is None
    definition = replace(definition, default=default, mandatory=is_mandatory)
    if fields.one_of("quantization_mode", ("TF",), "use TF, or remove the field"):
        text = f"quantization_mode of {fields.what} has no effect: use the options of xdlc quantize"
        fields.notice("quantization_mode", text)
    paths = {TAGS[name]: fields.path_of(key) for key, name in _ATTRIBUTES.items() if key in fields}
    return Part(definition, per_core, fields.what, fields.path, paths)


def _name(fields: Fields, role: str, index: int) -> str:
    name = fields.text("name")
    if not name and fields.ok and role in STEMS:
        return f"{STEMS[role]}[{index}]"
    if role not in STEMS:
        fields.need("name", '"..."')
    return name


def _is_static(fields: Fields, role: str) -> bool:
    static = fields.flag("static")
    if role == "inputs" or "static" not in fields:
        return static
    if static and role == "outputs":
        fields.report("static", f"{fields.what} is static, but outputs cannot be static", 'remove "static"')
    elif role == "tensor_params":
        fields.notice("static", f"static of {fields.what} has no effect: parameters are always static")
    return False


def _default(fields: Fields, definition: TensorDef) -> str | None:
    node = fields.node("default")
    if node is None:
        return None
    if node.value is None or node.value == "":
        fields.notice("default", f"xdlc ignores the default of {fields.what}, because it is empty")
        return None
    try:
        text = default_text(node, definition)
    except WrongDefaultError as wrong:
        fields.scope.report(wrong.node.path, *wrong.message(fields.what))
        return None
    if text.strip() != text:
        problem = f"default of {fields.what} begins or ends with a blank"
        fields.report(
            "default", problem, "remove the blank: xdlc stores definitions as XML, which drops blanks"
        )
    return text


def _types_of(fields: Fields, is_scalar: bool) -> tuple[tuple[DType, ...], dict[str, DType]]:
    """Return the data types common to all cores, or the types of each core."""
    name = EACH
    if EACH_OLD in fields and EACH not in fields:
        fields.notice(EACH_OLD, f"xdlc reads {EACH_OLD} of {fields.what} as {EACH}")
        name = EACH_OLD
    if ONE in fields and name in fields:
        fields.report(name, f"{fields.what} has both {ONE} and {name}", "remove one of the two")
        return (), {}
    common = _type(fields, ONE, fields.node(ONE))
    per_core = _per_core(fields, name)
    if SEVERAL in fields:
        return read_types(fields, SEVERAL), per_core
    if fields.lacks(ONE, EACH, EACH_OLD):
        others = "" if is_scalar else f" or {EACH}"
        problem = f"{fields.what} has no {ONE}{others}"
        fields.scope.report(fields.path, problem, f'add "{ONE}": "FLOAT_32"')
    return ((common,) if common else ()), per_core


def _per_core(fields: Fields, name: str) -> dict[str, DType]:
    of_core: dict[str, DType] = {}
    members = fields.members(name)
    if name in fields:
        fields.need(name, '{"CPU": "FLOAT_32"}')
    for core, node in members.items():
        if core not in CORES:
            problem = f"{name} of {fields.what} has unknown core {shown(core)}"
            fields.scope.report(node.path, problem, choice(core, CORES))
            continue
        dtype = _type(fields, f"{name}, {core},", node)
        if dtype is not None:
            of_core[core] = dtype
    return of_core if len(of_core) == len(members) else {}


def _type(fields: Fields, name: str, node: Node | None) -> DType | None:
    if node is None:
        return None
    word = node.value
    if not isinstance(word, str):
        fields.wrong(name, "a string", node, 'write it like "FLOAT_32"')
        return None
    if word not in TYPES:
        fix = f"use {EACH}" if word == BACKEND_SPECIFIC else choice(word, COMMON_TYPES)
        fields.scope.report(node.path, f"{name} of {fields.what} is unknown: {shown(word)}", fix)
    return TYPES.get(word)


@dataclass(frozen=True, slots=True)
class Types:
    """The sources of the data types of an operator's tensors.

    Attributes:
        op: The operator.
        cores: Its cores.
        tables: The supplements that name it.
        extended: Whether fields of xdlc's own are written.
    """

    op: str
    cores: list[str]
    tables: Sequence[SupplementTable]
    extended: bool

    def _rows(self, side: str, name: str, core: str) -> list[SupplementTensor]:
        """Return the rows of the tables of a core about an input, output or parameter."""
        tables = [table for table in self.tables if cores_of((table.backend,))[0] == [core]]
        ops = [op for table in tables for op in table.ops.get(self.op, ())]
        sides = ({"inputs": op.inputs, "outputs": op.outputs, "params": op.params}[side] for op in ops)
        return [tensors[name] for tensors in sides if name in tensors]

    def of(self, tensor: TensorDef, side: str) -> dict[str, Any]:
        """Return the fields with a tensor's data types.

        Args:
            side: ``inputs``, ``outputs`` or ``params``.

        Raises:
            ModelError: If a core has no type, and fields of xdlc's own are not written.
        """
        of_core: dict[str, DType] = {}
        for core in self.cores:
            stated = [row.dtypes[0] for row in self._rows(side, tensor.name, core) if row.dtypes]
            for dtype in (stated or tensor.dtypes)[:1]:
                of_core[core] = dtype
        several = self.extended and len(tensor.dtypes) != 1
        members: dict[str, Any] = {}
        if len(of_core) == len(self.cores):
            names = {core: type_name(dtype) for core, dtype in of_core.items()}
            same = len(set(names.values())) == 1
            is_scalar = isinstance(tensor, ParamDef) and tensor.is_scalar
            if is_scalar or (same and tensor.dtypes):
                members[ONE] = next(iter(names.values()))
            else:
                members[EACH] = names
        elif not several:
            missing = next(core for core in self.cores if core not in of_core)
            raise ModelError(
                f"{side[:-1]} {tensor.name!r} of operator {self.op!r} has no data type for {missing}",
                fix="state a data type in the definition or supplement, or use xdlc's own fields",
            )
        if several and (tensor.dtypes or EACH not in members):
            members[SEVERAL] = write_types(tensor.dtypes)
        return members


def written_part(tensor: TensorDef, side: str, types: Types) -> dict[str, Any]:
    """Return an input, output or parameter as JSON.

    Args:
        side: ``inputs``, ``outputs`` or ``params``.
        types: The sources of its data types.

    Raises:
        ModelError: If a core has no data type, and fields of xdlc's own are not written.
    """
    entry: dict[str, Any] = {"name": tensor.name, **types.of(tensor, side)}
    if tensor.is_static:
        entry["static"] = True
    if tensor.layout in LAYOUT_WORDS and (types.extended or tensor.layout != BACKEND_SPECIFIC):
        entry["tensor_layout"] = tensor.layout
    if tensor.repeated:
        entry["repeated"] = True
    if tensor.default is not None:
        entry["default"] = default_json(tensor, types.extended)
    return entry | (_extension(tensor) if types.extended else {})


def _extension(tensor: TensorDef) -> dict[str, Any]:
    is_scalar = isinstance(tensor, ParamDef) and tensor.is_scalar
    omitted = {
        "xdlc_rank": tensor.rank is None or is_scalar,
        "xdlc_mandatory": tensor.mandatory == (tensor.default is None),
    }
    values = {name: (getattr(tensor, attribute, ()), kind) for name, (attribute, kind) in TENSOR.items()}
    return {name: kind.write(v) for name, (v, kind) in values.items() if not omitted.get(name, not v)}
