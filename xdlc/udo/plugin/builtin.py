"""Declarations of the operators of a framework that plugins override."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import BY_NAME
from xdlc.opdefs.model import TensorDef
from xdlc.udo.plugin.kinds import REQUIRED, Float, Floats, Int, Ints, Kind, Str, Strs, Tensor
from xdlc.udo.plugin.tensors import Input

ONNX = "onnx"
_TYPES = {"float": "float32", "double": "float64", "bool": "bool8"}


@dataclass(frozen=True, slots=True)
class Builtin:
    """Declaration of an operator of a framework.

    Attributes:
        inputs: Inputs by position.
        outputs: Outputs by position.
        params: Kinds of its attributes by name.
        unformed: Attributes that have no form as parameters, like graphs.
    """

    inputs: tuple[TensorDef, ...]
    outputs: tuple[TensorDef, ...]
    params: dict[str, Kind]
    unformed: tuple[str, ...]


def find_builtin(framework: str, type: str, domain: str | None) -> Builtin | None:
    """Return the declaration of an operator of the framework, or None.

    Args:
        framework: Name of the framework; only ONNX has declarations.
        type: Operator.
        domain: Its domain; None for the framework's own.
    """
    if framework != ONNX:
        return None
    import onnx

    full_domain = domain or ""
    if not onnx.defs.has(type, full_domain):
        return None
    schema = onnx.defs.get_schema(type, full_domain)
    kinds = {name: _kind(attribute) for name, attribute in sorted(schema.attributes.items())}
    return Builtin(
        tuple(_tensor(schema, entry) for entry in schema.inputs),
        tuple(_tensor(schema, entry) for entry in schema.outputs),
        {name: kind for name, kind in kinds.items() if kind is not None},
        tuple(name for name, kind in kinds.items() if kind is None),
    )


def _tensor(schema: Any, entry: Any) -> TensorDef:
    options = type(entry.option)
    return Input(
        entry.name,
        tuple(_dtypes(schema, entry)),
        optional=entry.option == options.Optional,
        repeated=entry.option == options.Variadic,
    )


def _dtypes(schema: Any, entry: Any) -> Iterator[str]:
    """Yield the types of an input that tensors of a model can have."""
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    for text in sorted(allowed.get(entry.type_str, [entry.type_str])):
        name = text.removeprefix("tensor(").rstrip(")")
        name = _TYPES.get(name, name)
        if text.startswith("tensor(") and name in BY_NAME and BY_NAME[name].kind != "string":
            yield name


def _kind(attribute: Any) -> Kind | None:
    """Return the kind of an attribute; None if it is not supported."""
    import onnx

    kinds: dict[str, Callable[..., Kind]] = {
        "INT": Int,
        "FLOAT": Float,
        "STRING": Str,
        "INTS": Ints,
        "FLOATS": Floats,
        "STRINGS": Strs,
        "TENSOR": Tensor,
    }
    kind = kinds.get(attribute.type.name)
    if kind is None:
        return None
    default: Any = REQUIRED if attribute.required else None
    if attribute.default_value.name:
        value = onnx.helper.get_attribute_value(attribute.default_value)
        default = _text(value)
    return kind(default)


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_text(item) for item in value] if isinstance(value, (list, tuple)) else value
