"""Numbers, defaults and scalar parameters as literals of C++."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

from xdlc.ir.dtype import DType
from xdlc.opdefs.xml_elements import spelling
from xdlc.udo.generator.cores import CPU
from xdlc.udo.generator.cpp import element_of, scalar, type_code
from xdlc.udo.generator.quoting import Quoted, c_string
from xdlc.udo.generator.template_context import CoreView, Place


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
    """Return the default of a scalar parameter, an enumerator as its number."""
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
        f"      static const xdlc_udo_tensor tensor = udo::constant({name}, {code}, "
        f"{len(dims)}, {'dims' if dims else 'nullptr'}, data, sizeof data);"
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
    """Return the member of ``Qnn_Scalar_t`` that holds a value of a type.

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
    """Return a scalar parameter's default as a literal of C; empty without one.

    Infinity and what is no number have no literal.
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


FILTERS: dict[str, Callable[..., Any]] = {
    "default_value": default_value,
    "default_tensor": default_tensor,
    "qnn_type": spelling,
    "scalar_default": scalar_default,
    "scalar_field": scalar_field,
}
