"""Operators of a framework that plugins override: their declarations and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import BY_NAME, FLOAT32, from_numpy
from xdlc.opdefs.model import TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.onnx_evaluator import RefusedError, alone, infer_shapes
from xdlc.udo.plugin.declared_tensors import Input, Output, tensor_def
from xdlc.udo.plugin.kinds import REQUIRED, Float, Floats, Int, Ints, Kind, Str, Strs, Tensor

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
        type: The operator.
        domain: Its domain.
    """

    inputs: tuple[TensorDef, ...]
    outputs: tuple[TensorDef, ...]
    params: dict[str, Kind]
    unformed: tuple[str, ...]
    type: str
    domain: str


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
        tuple(tensor_def(Input(**_fields(schema, entry)), Input) for entry in schema.inputs),
        tuple(tensor_def(Output(**_fields(schema, entry)), Output) for entry in schema.outputs),
        {name: kind for name, kind in kinds.items() if kind is not None},
        tuple(name for name, kind in kinds.items() if kind is None),
        type,
        full_domain,
    )


def _fields(schema: Any, entry: Any) -> dict[str, Any]:
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
    """Return the kind of an attribute; None if it is not supported."""
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


MAX_ELEMENTS = 1024


def builtin_outputs(builtin: Builtin, op: OpView, count: int) -> tuple[TensorSpec, ...] | None:
    """Return the outputs of an op that overrides ONNX; None if ONNX lacks them.

    Args:
        op: The op; its inputs have the source's order of axes.
        count: How many outputs there are.
    """
    import onnx

    names = ["" if spec is None else f"in{place}" for place, spec in enumerate(op.inputs)]
    results = [f"out{place}" for place in range(count)]
    inputs = {name: spec for name, spec in zip(names, op.inputs, strict=True) if spec is not None}
    params = {name: op.params[name] for name in builtin.params if op.params.get(name) is not None}
    try:
        node = onnx.helper.make_node(
            builtin.type, names, results, domain=builtin.domain, **_attributes(params)
        )
        types = {name: (_dtype(spec), spec.shape) for name, spec in inputs.items()}
        values = {name: data for name, spec in inputs.items() if (data := _elements(spec)) is not None}
        version = onnx.defs.get_schema(builtin.type, builtin.domain).since_version
        graph = infer_shapes(alone(node, version, types, values), strict=True).graph
    except (RefusedError, onnx.defs.SchemaError, ValueError, TypeError):
        return None
    found = {entry.name: entry.type for entry in graph.output}
    specs = [_spec(found.get(name)) for name in results]
    known = tuple(spec for spec in specs if spec is not None)
    return known if len(known) == count else None


def _attributes(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in the form that ``make_node`` accepts."""
    import onnx

    return {
        name: onnx.numpy_helper.from_array(value) if hasattr(value, "dtype") and value.shape else value
        for name, value in params.items()
        if not (isinstance(value, list) and not value)
    }


def _dtype(spec: TensorSpec) -> Any:
    return (FLOAT32 if spec.dtype.is_fixed else spec.dtype).numpy


def _elements(spec: TensorSpec) -> Any:
    """Return the data of an input that may decide a shape."""
    is_small = spec.data is not None and spec.dtype.is_integer and spec.data.nbytes <= 8 * MAX_ELEMENTS
    return spec.data if is_small else None


def _spec(type: Any) -> TensorSpec | None:
    """Return an inferred output of known rank; a scalar has one element."""
    import onnx

    if type is None or not type.HasField("tensor_type") or not type.tensor_type.HasField("shape"):
        return None
    extents = tuple(
        dim.dim_value if dim.HasField("dim_value") else None for dim in type.tensor_type.shape.dim
    )
    dtype = from_numpy(onnx.helper.tensor_dtype_to_np_dtype(type.tensor_type.elem_type))
    return TensorSpec(extents or (1,), dtype)
