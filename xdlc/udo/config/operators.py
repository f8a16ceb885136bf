"""Reads one operator of a JSON configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdlc.opdefs.model import OpDef, ParamDef, SupplementOp, SupplementTensor
from xdlc.udo.config import extension
from xdlc.udo.config.fields import Fields, named
from xdlc.udo.config.json_text import Node
from xdlc.udo.config.names import ARCHS, CORES, backends_of
from xdlc.udo.config.scope import Scope, shown
from xdlc.udo.config.tensors import Part, part_of

ROLES = ("inputs", "outputs", "scalar_params", "tensor_params")
PARAMS = ROLES[2:]
FIELDS = ("type", *ROLES, "core_types", "dsp_arch_types", "quantization_mode", *extension.OPERATOR)

_TAGS = {
    "type": "Name",
    "core_types": "SupportedBackend",
    "xdlc_backends": "SupportedBackend",
    "xdlc_use_default_translation": "UseDefaultTranslation",
}


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator with its places.

    Attributes:
        definition: What it is.
        supplements: What each core adds, by core; only cores that add something.
        line: Line that it begins on.
        lines: Lines of its fields, under the names that they have in OpDef XML.
        parts: Its inputs, outputs and parameters, by role.
    """

    definition: OpDef
    supplements: Mapping[str, SupplementOp]
    line: int
    lines: Mapping[str, int]
    parts: Mapping[str, tuple[Part, ...]]


def operator_of(node: Node, index: int, package: str, scope: Scope) -> Operator:
    """Return an entry of ``Operators``.

    Args:
        node: The entry.
        index: Its position.
        package: Name of its package.
        scope: Where problems go.
    """
    title = f"operator {index} of package {shown(package)}"
    if named(node, "type"):
        title = f"operator {shown(named(node, 'type'))}"
    fields = Fields(node, title, scope, FIELDS)
    name = _type(fields)
    parts = {role: _parts(fields, role) for role in ROLES}
    cores = _cores(fields)
    _check_cores(parts, cores, scope)
    if "quantization_mode" in fields:
        line = fields.line_of("quantization_mode")
        scope.notice(
            line, f"quantization_mode of {fields.what} changes nothing: the quantizer's options decide"
        )
    definition = OpDef(
        name,
        package,
        tuple(part.definition for part in parts["inputs"]),
        tuple(part.definition for part in parts["outputs"]),
        _ordered(_params(parts, fields.what, scope), fields),
        extension.description(fields),
        extension.references(fields),
        _backends(fields, cores),
        fields.flag("xdlc_use_default_translation"),
    )
    added = {core: _supplement(name, core, parts) for core in cores}
    supplements = {core: op for core, op in added.items() if op.inputs or op.outputs or op.params}
    lines = {tag: fields.line_of(name) for name, tag in _TAGS.items() if name in fields}
    return Operator(definition, supplements, fields.line, lines, parts)


def _type(fields: Fields) -> str:
    node = fields.need("type", '"MyOp"')
    name = fields.text("type")
    if node is None or not isinstance(node.value, str):
        return ""
    line = fields.line_of("type")
    if not name:
        fix = "write the type that the operator has in the model"
        fields.scope.report(line, f"type of {fields.what} is empty", fix)
    elif "::" in name:
        plain = name.rpartition("::")[2]
        fix = f'write "type": "{plain}": an operator is found in any domain of the model'
        fields.scope.report(line, f"type of {fields.what} has a domain: {shown(name)}", fix)
    return name


def _parts(fields: Fields, role: str) -> tuple[Part, ...]:
    nodes = fields.items(role)
    node = fields.node(role)
    if role not in PARAMS and (fields.lacks(role) or (node is not None and node.value == ())):
        problem = f"{fields.what} has no {role}"
        fields.scope.report(fields.line_of(role), problem, f"describe one {role[:-1]} at least")
    return tuple(part_of(node, role, i, fields.what, fields.scope) for i, node in enumerate(nodes))


def _params(parts: Mapping[str, tuple[Part, ...]], what: str, scope: Scope) -> dict[str, ParamDef]:
    found: dict[str, ParamDef] = {}
    lines: dict[str, int] = {}
    for part in (part for role in PARAMS for part in parts[role]):
        param = part.definition
        if param.name in found:
            problem = f"{what} has two parameters {shown(param.name)}; first on line {lines[param.name]}"
            scope.report(part.lines.get("Name", part.line), problem, "rename one of them")
        elif isinstance(param, ParamDef) and param.name:
            found[param.name] = param
            lines[param.name] = part.lines.get("Name", part.line)
    return found


def _ordered(params: dict[str, ParamDef], fields: Fields) -> dict[str, ParamDef]:
    """Return parameters in the order that is told, or else scalars before tensors."""
    if not params:
        for node in fields.items("xdlc_order")[:1]:
            problem = f"xdlc_order of {fields.what} orders parameters, and there are none"
            fields.scope.report(node.line, problem, "remove the field")
        return params
    order = fields.words("xdlc_order", tuple(params))
    return {name: params[name] for name in (*order, *(name for name in params if name not in order))}


def _cores(fields: Fields) -> list[str]:
    node = fields.need("core_types", '["CPU"]')
    cores = fields.words("core_types", CORES)
    if node is not None and node.value == ():
        fields.scope.report(node.line, f"core_types of {fields.what} is empty", 'write "core_types": ["CPU"]')
    return cores


def _backends(fields: Fields, cores: list[str]) -> tuple[str, ...]:
    archs = _archs(fields, cores)
    if "xdlc_backends" in fields:
        return extension.strings(fields, "xdlc_backends")
    return backends_of(cores, archs)


def _archs(fields: Fields, cores: list[str]) -> list[str]:
    archs = fields.words("dsp_arch_types", ARCHS, f"use one of {', '.join(ARCHS)}")
    line = fields.line_of("dsp_arch_types")
    if archs and cores and "DSP" not in cores:
        text = f"dsp_arch_types of {fields.what} is left out: core_types has no DSP"
        fields.scope.notice(line, text)
        return []
    if fields.node("dsp_arch_types") is not None and not archs and "DSP" in cores:
        fields.scope.notice(line, f"dsp_arch_types of {fields.what} is empty: read as any architecture")
    return archs


def _check_cores(parts: Mapping[str, tuple[Part, ...]], cores: list[str], scope: Scope) -> None:
    """Check that types given for each core are there for the cores that the operator has."""
    for part in (part for role in ROLES for part in parts[role]):
        if not part.per_core or not cores:
            continue
        line = part.lines.get("Datatype", part.line)
        missing = [core for core in cores if core not in part.per_core]
        extra = [core for core in part.per_core if core not in cores]
        if missing:
            problem = f"per_core_data_types of {part.what} has no {' and no '.join(missing)}"
            fix = f'add "{missing[0]}": "FLOAT_32", or remove {missing[0]} from core_types'
            scope.report(line, problem, fix)
        if extra:
            text = f"per_core_data_types of {part.what} for {', '.join(extra)} is left out: not in core_types"
            scope.notice(line, text)


def _supplement(name: str, core: str, parts: Mapping[str, tuple[Part, ...]]) -> SupplementOp:
    def tensors(*roles: str) -> dict[str, SupplementTensor]:
        found = [part for role in roles for part in parts[role] if core in part.per_core]
        names = [part.definition.name for part in found]
        types = [(part.per_core[core],) for part in found]
        return {name: SupplementTensor(name, dtypes) for name, dtypes in zip(names, types, strict=True)}

    return SupplementOp(name, tensors("inputs"), tensors("outputs"), tensors(*PARAMS))
