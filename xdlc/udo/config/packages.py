"""Packages and operators of a JSON configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdlc.json_fields import Fields, Node, Scope, kind_of, named, shown
from xdlc.opdefs.collections import UNSTATED
from xdlc.opdefs.model import Collection, OpDef, ParamDef, SupplementOp, SupplementTable, SupplementTensor
from xdlc.opdefs.xml_elements import Key
from xdlc.udo.config.json_text import parse
from xdlc.udo.config.members import (
    ARCHS,
    CORES,
    DESCRIPTION,
    REFERENCES,
    SUPPLEMENT,
    backends_of,
    read_members,
)
from xdlc.udo.config.tensors import STEMS, Part, part_of

ROLES = ("inputs", "outputs", "scalar_params", "tensor_params")
PARAMS = ROLES[2:]
_KEYS = {"inputs": "input", "outputs": "output", "scalar_params": "param", "tensor_params": "param"}
_OLD = {
    "UDO_PACKAGE_PATH": "the generator's options name the folder",
    "SNPE_UDO_ROOT": "packages need no header of the SDK",
    "quantization_mode": "the quantizer's options decide",
}
_OWN = ("Operators", "UDO_PACKAGE_NAME", *_OLD)
_PACKAGE = (*_OWN, "xdlc_domain", "xdlc_version", "xdlc_supplements")
_OPERATOR = (
    *("type", *ROLES, "core_types", "dsp_arch_types", "quantization_mode", "xdlc_description"),
    *("xdlc_references", "xdlc_use_default_translation", "xdlc_backends", "xdlc_order"),
)
_TAGS = {
    "type": "Name",
    "core_types": "SupportedBackend",
    "xdlc_backends": "SupportedBackend",
    "xdlc_use_default_translation": "UseDefaultTranslation",
}


@dataclass(frozen=True, slots=True)
class Package:
    """A package of a configuration with its places.

    Attributes:
        collection: The package.
        places: Places of its parts, by the keys of ``opdefs.semantics.check_collection``.
    """

    collection: Collection
    places: Mapping[Key, str]


@dataclass(frozen=True, slots=True)
class _Operator:
    definition: OpDef
    path: str
    paths: Mapping[str, str]
    parts: Mapping[str, tuple[Part, ...]]
    cores: Sequence[str]

    def supplement(self, core: str) -> SupplementOp | None:
        """Return the data types of a core; None if they are the common ones."""

        def rows(*roles: str) -> dict[str, SupplementTensor]:
            parts = [part for role in roles for part in self.parts[role] if core in part.per_core]
            names = [part.definition.name for part in parts]
            return {
                name: SupplementTensor(name, (part.per_core[core],))
                for name, part in zip(names, parts, strict=True)
            }

        op = SupplementOp(self.definition.name, rows("inputs"), rows("outputs"), rows(*PARAMS))
        return op if core in self.cores and (op.inputs or op.outputs or op.params) else None

    def places(self, key: Key, by_name: bool) -> Iterator[tuple[Key, str]]:
        """Yield the paths of the op, its parts and their fields, by key."""
        yield key, self.path
        for role, parts in self.parts.items():
            for j, part in enumerate(parts):
                place = part.definition.name if by_name or role in PARAMS else j
                yield (*key, _KEYS[role], place), part.path
                yield from (((*key, _KEYS[role], place, tag), path) for tag, path in part.paths.items())


def read_packages(content: bytes, where: str) -> tuple[list[Package], list[str]]:
    """Return the packages of a JSON configuration, and notices.

    Args:
        where: Name of the file, for messages.

    Raises:
        ModelError: If it is not JSON, or breaks a rule of the form; a ProblemList of several.
    """
    scope = Scope(where)
    root = parse(content, where, scope.notices)
    with scope.collected():
        packages = _packages(root, scope)
    return packages, scope.notices


def _packages(root: Node, scope: Scope) -> list[Package]:
    example = 'write {"UdoPackage_0": {"Operators": [...], ...}}'
    if not isinstance(root.value, Mapping):
        problem = f"a configuration must be an object, but is {kind_of(root.value)}"
        scope.report(root.path, problem, example)
        return []
    packages: list[Package] = []
    for key, node in root.members():
        if key in ("UDO_PACKAGE_PATH", "SNPE_UDO_ROOT") and isinstance(node.value, str):
            scope.notice(node.path, f"{key} has no effect: {_OLD[key]}")
        elif key in _OWN and not isinstance(node.value, Mapping):
            scope.report(node.path, f"{key} must be inside a package", example)
        else:
            packages.append(_package(node, key, scope))
    if not packages and not scope.problems:
        scope.report(root.path, "a configuration has no package", example)
    return packages


def _package(node: Node, key: str, scope: Scope) -> Package:
    fields = Fields(node, f"package {shown(key)}", scope, _PACKAGE)
    fields.need("UDO_PACKAGE_NAME", '"MyPackage"')
    fields.need("Operators", '[{"type": "MyOp", ...}]')
    name = fields.text("UDO_PACKAGE_NAME")
    for old, reason in _OLD.items():
        if old in fields:
            fields.text(old)
            fields.notice(old, f"{old} of {fields.what} has no effect: {reason}")
    operators = [_operator(item, i, name or key, scope) for i, item in enumerate(fields.items("Operators"))]
    rows = fields.items("xdlc_supplements")
    has_tables = "xdlc_supplements" in fields
    tables = tuple(_table(row, scope) for row in rows) if has_tables else _core_tables(operators)
    collection = Collection(
        name,
        fields.text("xdlc_domain"),
        fields.text("xdlc_version") or UNSTATED[1],
        tuple(operator.definition for operator in operators),
        tables,
    )
    paths: dict[Key, str] = {(): fields.path_of("UDO_PACKAGE_NAME")}
    for i, operator in enumerate(operators):
        paths |= operator.places(("op", i), by_name=False)
        paths |= {("op", i, tag): path for tag, path in operator.paths.items()}
    named_ops = {operator.definition.name: operator for operator in reversed(operators)}
    for t, table in enumerate(tables):
        paths["table", t] = rows[t].path if has_tables else fields.path
        for name in () if has_tables else table.ops:
            paths |= named_ops[name].places(("table", t, "op", name), by_name=True)
    return Package(collection, {part: scope.place(path) for part, path in paths.items()})


def _core_tables(operators: list[_Operator]) -> tuple[SupplementTable, ...]:
    """Return a table for each core with types of its own."""
    rows = {core: [operator.supplement(core) for operator in operators] for core in CORES}
    return tuple(
        SupplementTable(core, frozenset(), {row.name: (row,) for row in each if row is not None})
        for core, each in rows.items()
        if any(each)
    )


def _table(node: Node, scope: Scope) -> SupplementTable:
    title = f"supplement for {shown(named(node, 'backend'))}"
    fields = Fields(node, title, scope, ("backend", "supported", "Operators"))
    fields.need("backend", '"HTP"')
    ops: dict[str, tuple[SupplementOp, ...]] = {}
    for item in fields.items("Operators"):
        op = _supplement(item, title, scope)
        if op.name in ops:
            scope.report(item.path, f"{title} has operator {shown(op.name)} twice", "remove one operator")
        ops[op.name] = (op,)
    return SupplementTable(fields.text("backend"), frozenset(fields.strings("supported")), ops)


def _supplement(node: Node, table: str, scope: Scope) -> SupplementOp:
    sides = ("inputs", "outputs", "params")
    title = f"operator {shown(named(node, 'type'))} of {table}"
    fields = Fields(node, title, scope, ("type", *sides))
    fields.need("type", '"MyOp"')
    inputs, outputs, params = (_rows(fields, side) for side in sides)
    return SupplementOp(fields.text("type"), inputs, outputs, params)


def _rows(op: Fields, side: str) -> dict[str, SupplementTensor]:
    rows: dict[str, SupplementTensor] = {}
    for node in op.items(side):
        title = f"{side[:-1]} {shown(named(node, 'name'))} of {op.what}"
        fields = Fields(node, title, op.scope, tuple(SUPPLEMENT))
        fields.need("name", '"in[0]"')
        tensor = SupplementTensor(**read_members(fields, SUPPLEMENT))
        if tensor.name in rows:
            op.scope.report(node.path, f"{fields.what} is listed twice", "remove one entry")
        rows[tensor.name] = tensor
    return rows


def _operator(node: Node, index: int, package: str, scope: Scope) -> _Operator:
    title = f"operator {index} of package {shown(package)}"
    if named(node, "type"):
        title = f"operator {shown(named(node, 'type'))}"
    fields = Fields(node, title, scope, _OPERATOR)
    name = _type(fields, index)
    parts = {role: _parts(fields, role) for role in ROLES}
    fields.need("core_types", '["CPU"]')
    cores = fields.words("core_types", CORES)
    _check_cores(parts, cores, scope)
    if "quantization_mode" in fields:
        text = f"quantization_mode of {fields.what} has no effect: {_OLD['quantization_mode']}"
        fields.notice("quantization_mode", text)
    archs = _archs(fields, cores)
    definition = OpDef(
        name,
        package,
        tuple(part.definition for part in parts["inputs"]),
        tuple(part.definition for part in parts["outputs"]),
        _ordered(_params(parts, fields.what, scope), fields),
        DESCRIPTION.read(fields, "xdlc_description"),
        REFERENCES.read(fields, "xdlc_references"),
        fields.strings("xdlc_backends") if "xdlc_backends" in fields else backends_of(cores, archs),
        fields.flag("xdlc_use_default_translation"),
    )
    paths = {tag: fields.path_of(name) for name, tag in _TAGS.items() if name in fields}
    return _Operator(definition, fields.path, paths, parts, cores)


def _type(fields: Fields, index: int) -> str:
    node = fields.node("type")
    if node is not None and node.value == "":  # as the vendor's template has it
        name = f"Operator_{index}"
        fields.notice(
            "type", f"type of {fields.what} is empty: xdlc uses {name}; write the type of the model"
        )
        return name
    fields.need("type", '"MyOp", the type that the operator has in the model')
    name = fields.text("type")
    if "::" in name:
        plain = name.rpartition("::")[2]
        fix = f'write "type": "{plain}": xdlc finds an operator in any domain of the model'
        fields.report("type", f"type of {fields.what} has a domain: {shown(name)}", fix)
    return name


def _parts(fields: Fields, role: str) -> tuple[Part, ...]:
    nodes = fields.items(role)
    if role in STEMS:
        fields.need(role, '[{"name": ..., "data_type": "FLOAT_32"}]')
    return tuple(part_of(node, role, i, fields.what, fields.scope) for i, node in enumerate(nodes))


def _params(parts: Mapping[str, tuple[Part, ...]], what: str, scope: Scope) -> dict[str, ParamDef]:
    params: dict[str, ParamDef] = {}
    paths: dict[str, str] = {}
    for part in (part for role in PARAMS for part in parts[role]):
        param, path = part.definition, part.paths.get("Name", part.path)
        if param.name in params:
            problem = f"{what} has two parameters {shown(param.name)}; first at {paths[param.name]}"
            scope.report(path, problem, "rename one parameter")
        elif isinstance(param, ParamDef) and param.name:
            params[param.name] = param
            paths[param.name] = path
    return params


def _ordered(params: dict[str, ParamDef], fields: Fields) -> dict[str, ParamDef]:
    """Return parameters in configuration order, or else scalars before tensors."""
    if not params:
        for node in fields.items("xdlc_order")[:1]:
            problem = f"xdlc_order of {fields.what} orders parameters, but the operator has none"
            fields.scope.report(node.path, problem, "remove the field")
        return params
    order = fields.words("xdlc_order", tuple(params))
    return {name: params[name] for name in (*order, *(name for name in params if name not in order))}


def _archs(fields: Fields, cores: list[str]) -> list[str]:
    name = "dsp_arch_types"
    archs = fields.words(name, ARCHS, f"use one of {', '.join(ARCHS)}")
    if archs and cores and "DSP" not in cores:
        fields.notice(name, f"xdlc ignores {name} of {fields.what}: core_types has no DSP")
        return []
    if name in fields and not archs and "DSP" in cores:
        fields.notice(name, f"{name} of {fields.what} is empty, so xdlc allows all architectures")
    return archs


def _check_cores(parts: Mapping[str, tuple[Part, ...]], cores: list[str], scope: Scope) -> None:
    """Check that types for each core fit the cores of the operator."""
    for part in (part for role in ROLES for part in parts[role]):
        if not part.per_core or not cores:
            continue
        path = part.paths.get("Datatype", part.path)
        missing = [core for core in cores if core not in part.per_core]
        extra = [core for core in part.per_core if core not in cores]
        if missing:
            problem = f"per_core_data_types of {part.what} has no {' and no '.join(missing)}"
            fix = f'add "{missing[0]}": "FLOAT_32", or remove {missing[0]} from core_types'
            scope.report(path, problem, fix)
        if extra:
            names = ", ".join(extra)
            text = f"xdlc ignores per_core_data_types of {part.what} for {names}, which core_types lacks"
            scope.notice(path, text)
