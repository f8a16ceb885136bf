"""Scalar parameters: their defaults as literals, and QNN's words for them."""

from __future__ import annotations

import math

from xdlc.ir.dtype import DType
from xdlc.opdefs.xml_elements import spelling
from xdlc.udo.generator.quoting import Quoted, c_string
from xdlc.udo.generator.template_context import CoreView, Place


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
    """Return the default of a scalar parameter as a literal of C, or nothing if it has none.

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


FILTERS = {"qnn_type": spelling, "scalar_default": scalar_default, "scalar_field": scalar_field}
