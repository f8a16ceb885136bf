"""Declarations of the operators that a framework has itself, for plugins that override them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import BY_NAME
from xdlc.udo.plugin.kinds import REQUIRED, Float, Floats, Int, Ints, Kind, Str, Strs, Tensor
from xdlc.udo.plugin.ports import Input, Output

ONNX = "onnx"
_TYPES = {"float": "float32", "double": "float64", "bool": "bool8"}


@dataclass(frozen=True, slots=True)
class Builtin:
    """What a framework tells of an operator of its own.

    Attributes:
        inputs: Inputs by position.
        outputs: Outputs by position.
        params: Kinds of its attributes by name.
        unformed: Attributes that have no form as parameters, like graphs.
        type: The operator.
        domain: Its domain.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    params: dict[str, Kind]
    unformed: tuple[str, ...]
    type: str
    domain: str


def find_builtin(framework: str, type: str, domain: str | None) -> Builtin | None:
    """Return what a framework tells of an operator; None if it has none of that type.

    Args:
        framework: Name of the framework; only ONNX tells of its operators.
        type: Operator.
        domain: Its domain; None for the framework's own.
    """
    if framework != ONNX:
        return None
    import onnx

    wanted = domain or ""
    if not onnx.defs.has(type, wanted):
        return None
    schema = onnx.defs.get_schema(type, wanted)
    kinds = {name: _kind(attribute) for name, attribute in sorted(schema.attributes.items())}
    return Builtin(
        tuple(Input(**_port(schema, entry)) for entry in schema.inputs),
        tuple(Output(**_port(schema, entry)) for entry in schema.outputs),
        {name: kind for name, kind in kinds.items() if kind is not None},
        tuple(name for name, kind in kinds.items() if kind is None),
        type,
        wanted,
    )


def _port(schema: Any, entry: Any) -> dict[str, Any]:
    options = type(entry.option)
    return {
        "name": entry.name,
        "dtypes": tuple(_dtypes(schema, entry)),
        "optional": entry.option == options.Optional,
        "repeated": entry.option == options.Variadic,
    }


def _dtypes(schema: Any, entry: Any) -> Iterator[str]:
    """Yield the types of an input that tensors of a model can have."""
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    for text in sorted(allowed.get(entry.type_str, [entry.type_str])):
        name = text.removeprefix("tensor(").rstrip(")")
        name = _TYPES.get(name, name)
        if text.startswith("tensor(") and name in BY_NAME and BY_NAME[name].kind != "string":
            yield name


def _kind(attribute: Any) -> Kind | None:
    """Return the kind of an attribute; None if it has no form."""
    import onnx

    kinds: dict[str, type[Kind]] = {
        "INT": Int,
        "FLOAT": Float,
        "STRING": Str,
        "INTS": Ints,
        "FLOATS": Floats,
        "STRINGS": Strs,
        "TENSOR": Tensor,
    }
    found = kinds.get(attribute.type.name)
    if found is None:
        return None
    default: Any = REQUIRED if attribute.required else None
    if attribute.default_value.name:
        value = onnx.helper.get_attribute_value(attribute.default_value)
        default = _text(value)
    return found(default)


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_text(item) for item in value] if isinstance(value, (list, tuple)) else value
