"""Template filters for C and C++: types, literals, defaults and readers."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

from xdlc.errors import ModelError
from xdlc.ir.dtype import DType
from xdlc.opdefs.xml_elements import spelling
from xdlc.udo.generator.naming import Quoted, c_string
from xdlc.udo.generator.template_context import (
    CPU,
    CoreView,
    Library,
    OperationView,
    PackageView,
    Place,
    core_of,
)

_NO_CODE = ("bfloat16", "undefined")


def literal(value: float, type: str) -> Quoted:
    """Return a number as a literal of a C++ type.

    Example:
        >>> print(literal(-1, "std::int32_t"), literal(0.1, "float"), literal(float("inf"), "double"))
        -1 0.1f std::numeric_limits<double>::infinity()
    """
    if type not in ("float", "double"):
        return Quoted(_integer(int(value)))
    if math.isnan(value):
        return Quoted(f"std::numeric_limits<{type}>::quiet_NaN()")
    if math.isinf(value):
        return Quoted(f"{'-' if value < 0 else ''}std::numeric_limits<{type}>::infinity()")
    return Quoted(f"{float(value)!r}{'f' if type == 'float' else ''}")


def _integer(value: int) -> str:
    if value == -(1 << 63):
        return "INT64_MIN"
    if value >= 1 << 63:
        return f"{value}ULL"
    if value >= 1 << 31:
        return f"{value}U" if value < 1 << 32 else f"{value}LL"
    return str(value) if value >= -(1 << 31) + 1 else f"{value}LL"


def default_number(place: Place) -> int | float:
    """Return the default of a scalar parameter; an enumerator as its number."""
    return int(place.initial) if isinstance(place.initial, bool) else place.initial


def default_value(place: Place) -> Quoted:
    """Return the default of a scalar or string parameter as an expression of C++."""
    if place.is_string:
        return c_string(str(place.initial))
    type = scalar(place)
    if place.enum:
        return Quoted(f"{type}::{place.values[int(place.initial)].id}")
    if type == "bool":
        return Quoted("true" if place.initial else "false")
    return literal(place.initial, type)


def default_tensor(place: Place) -> Quoted:
    """Return C++ statements that make a tensor parameter's default as ``tensor``."""
    dtype = place.types[CPU][0]
    element = element_of(dtype, place)
    dims = shape_of(place.initial)
    numbers = ", ".join(_element(value, dtype, element) for value in _flat(place.initial))
    shape = f"static const std::uint32_t dims[] = {{{', '.join(map(str, dims))}}};" if dims else ""
    name, code = c_string(place.name), type_code(dtype)
    return Quoted(
        f"alignas(64) static const {element} data[] = {{{numbers}}};\n"
        f"      {shape}\n"
        f"      static const udo::Tensor tensor = udo::constant({name}, {code}, "
        f"{len(dims)}, {'dims' if dims else 'nullptr'}, data);"
    )


def _element(value: Any, dtype: DType, type: str) -> str:
    if dtype.is_float and dtype.bits == 16:
        return f"{{{int.from_bytes(struct.pack('<e', value), 'little')}}}"
    if dtype.is_fixed:  # float values that have no scale yet are taken as they would be stored
        return _integer(round(value))
    return str(literal(int(value) if isinstance(value, bool) else value, type))


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of nested lists.

    Example:
        >>> shape_of([[1, 2, 3], [4, 5, 6]]), shape_of(1)
        ((2, 3), ())
    """
    return (len(value), *shape_of(value[0])) if isinstance(value, list) else ()


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def scalar_field(dtype: DType) -> str:
    """Return the member of ``Qnn_Scalar_t`` for values of a type.

    Example:
        >>> from xdlc.ir.dtype import BY_NAME
        >>> scalar_field(BY_NAME["float32"]), scalar_field(BY_NAME["uint32"]), scalar_field(BY_NAME["bool8"])
        ('floatValue', 'uint32Value', 'bool8Value')
    """
    if dtype.is_float:
        return "doubleValue" if dtype.bits == 64 else "floatValue"
    if dtype.kind == "bool":
        return "bool8Value"
    kind = "int" if dtype.is_signed else "uint"
    return f"{kind}{max(dtype.bits, 8)}Value"


def scalar_default(place: Place, core: CoreView) -> Quoted:
    """Return the default of a scalar parameter as a C literal; "" without a default.

    Infinity and what is not a number have no literal.
    """
    if place.default is None or not place.is_scalar:
        return Quoted("")
    dtype = place.types_on(core)[0]
    if dtype.kind == "string":
        return c_string(str(place.initial))
    if dtype.is_float:
        return Quoted(_real(float(place.initial), dtype))
    return Quoted(_whole(int(place.initial), dtype))


def _real(value: float, dtype: DType) -> str:
    if not math.isfinite(value):
        return ""
    return f"{value!r}f" if dtype.bits <= 32 else repr(value)


def _whole(value: int, dtype: DType) -> str:
    if value == -1 << (dtype.bits - 1):
        return f"INT{max(dtype.bits, 8)}_MIN" if dtype.bits >= 8 else str(value)
    return f"{value}{'ull' if value >= 1 << 63 else 'll' if abs(value) >> 31 else ''}"


def spelled(dtype: DType) -> str:
    """Return a data type as configurations spell it.

    Example:
        >>> from xdlc.ir.dtype import BOOL8, STRING, UFIXED8
        >>> spelled(UFIXED8), spelled(BOOL8), spelled(STRING)
        ('UFIXED_POINT_8', 'BOOL_8', 'STRING')
    """
    return spelling(dtype).removeprefix("QNN_DATATYPE_")


def type_code(dtype: DType) -> str:
    """Return the constant of a data type.

    Raises:
        ModelError: If the interface has none.
    """
    if dtype.name in _NO_CODE:
        raise ModelError(f"libraries do not support data type {dtype.name}", fix="use FLOAT_16 or FLOAT_32")
    return spelling(dtype)


def check_types(op: OperationView) -> None:
    """Check that libraries can have the data types of an operation.

    Raises:
        ModelError: If they cannot.
    """
    for place in op.places:
        for dtype in (dtype for types in place.types.values() for dtype in types):
            type_code(dtype)
        if CPU in place.types and definition_kind(place) == "tensor":
            element(place)


def _core_kind(name: str) -> str:
    """Return ``CPU``, ``GPU`` or ``DSP`` for the name of a core."""
    core = core_of(name)
    return name if core is None else core.kind


def core_bit(name: str) -> str:
    """Return the constant of a core's kind."""
    return f"{_core_kind(name).lower()}_core"


def definition_kind(place: Place) -> str:
    """Return the enumerator of ``udo::Kind``."""
    if place.kind == "param" and place.is_string:
        return "text"
    return "scalar" if place.is_scalar else "tensor"


def is_demanded(place: Place) -> bool:
    """Return whether callers must pass it; parameters with defaults are optional."""
    return place.mandatory and (place.kind != "param" or place.default is None)


def unique_libraries(package: PackageView) -> list[tuple[str, Library]]:
    """Return the implementation libraries by kind of core; DSPs share one name."""
    found = {library.file: (core.kind, library) for core in package.cores for library in core.libraries}
    return list(found.values())


def library_literal(file: str, core: str) -> Quoted:
    """Return a library's name as C++; on the host with the suffix of the system."""
    if core == "DSP":
        return c_string(file)
    return Quoted(f"{c_string(file.removesuffix('.so'))} UDO_LIBRARY_SUFFIX")


_PLAIN = {"int": "std::int{}_t", "uint": "std::uint{}_t", "sfixed": "std::int{}_t", "ufixed": "std::uint{}_t"}


def element(place: Place) -> str:
    """Return the C++ type of elements on the CPU; "" if there are several.

    Activations that are floats or fixed point arrive as float; what is static, as it is.
    """
    found = {element_of(dtype, place) for dtype in place.types[CPU]}
    return found.pop() if len(found) == 1 else ""


def element_of(dtype: DType, place: Place) -> str:
    """Return the C++ type of elements of a data type at a place."""
    if place.static or place.kind == "param":
        if dtype.is_float:
            return {16: "udo::Half", 32: "float", 64: "double"}[dtype.bits]
    elif dtype.is_float or dtype.is_fixed:
        return "float" if dtype.bits < 64 else ""
    if dtype.kind == "bool":
        return "std::uint8_t"
    if dtype.kind not in _PLAIN:
        raise ModelError(
            f"{place.kind} {place.name!r} has data type {spelled(dtype)}, which tensors do not support",
            fix="use a parameter of rank SCALAR instead",
        )
    return _PLAIN[dtype.kind].format(max(dtype.bits, 8))


def scalar(place: Place) -> str:
    """Return the C++ type of a scalar parameter on the CPU."""
    if place.enum:
        return place.enum
    types = place.types[CPU]
    if place.is_string:
        return "const char*"
    if len(types) > 1:
        return "double" if any(dtype.is_float for dtype in types) else "std::int64_t"
    if types[0].is_float:
        return "double" if types[0].bits == 64 else "float"
    if types[0].kind == "bool":
        return "bool"
    return element_of(types[0], place)


def tensor_type(place: Place) -> Quoted:
    """Return the C++ class through which a kernel sees a tensor."""
    found = element(place)
    if place.kind == "output":
        return Quoted(f"udo::Output<{found}>" if found else "udo::AnyOutput")
    return Quoted(f"udo::Input<{found}>" if found else "udo::AnyInput")


def field_type(place: Place) -> Quoted:
    """Return the C++ type of a field for a place."""
    if place.is_scalar or (place.kind == "param" and place.is_string):
        type = scalar(place)
        open = place.default is None and not place.mandatory
        if not open or place.is_string:
            return Quoted(type)
        return Quoted(f"std::optional<{type}>")
    type = tensor_type(place)
    if place.repeated:
        return Quoted(f"udo::Span<{type}>")
    return Quoted(type if is_demanded(place) else f"const {type}*")


def needs_storage(place: Place) -> bool:
    """Return whether a field is a pointer to separately stored elements."""
    return place.repeated or (not place.is_scalar and not place.is_string and not is_demanded(place))


def reader(place: Place) -> Quoted:
    """Return the expression that reads a parameter; empty for a tensor."""
    name = c_string(place.name)
    if place.is_string:
        return Quoted(f"params.text({name})")
    if not place.is_scalar:
        return Quoted("")
    type = scalar(place)
    if place.enum:
        return Quoted(f"static_cast<{type}>(params.integer<std::uint32_t>({name}))")
    if type == "bool":
        return Quoted(f"params.boolean({name})")
    return Quoted(f"params.{'real' if type in ('float', 'double') else 'integer'}<{type}>({name})")


FILTERS: dict[str, Callable[..., Any]] = {
    "default_value": default_value,
    "default_tensor": default_tensor,
    "qnn_type": spelling,
    "scalar_default": scalar_default,
    "scalar_field": scalar_field,
    "reader": reader,
    "type_code": type_code,
    "core_bit": core_bit,
    "definition_kind": definition_kind,
    "is_demanded": is_demanded,
    "unique_libraries": unique_libraries,
    "library_literal": library_literal,
    "tensor_type": tensor_type,
    "field_type": field_type,
    "needs_storage": needs_storage,
}
