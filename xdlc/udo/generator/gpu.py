"""Types and names in kernels of the GPU and of DSPs."""

from __future__ import annotations

from xdlc.ir.dtype import DType
from xdlc.udo.generator.cpp import scalar_default
from xdlc.udo.generator.naming import Quoted, identifiers
from xdlc.udo.generator.template_context import CoreView, OperationView, Place

_SIZES = ("", "2", "3", "4", "8", "16")
_TAKEN = frozenset(
    f"{type}{size}"
    for type in (
        "char",
        "uchar",
        "short",
        "ushort",
        "int",
        "uint",
        "long",
        "ulong",
        "float",
        "double",
        "half",
    )
    for size in _SIZES
) | {
    "i",
    "elements",
    "size_t",
    "ptrdiff_t",
    "intptr_t",
    "uintptr_t",
    "event_t",
    "sampler_t",
    "uniform",
    "pipe",
}
"""Names in a kernel that are no longer free."""

_BY_KIND = {
    ("float", 64): "double",
    ("int", 8): "char",
    ("int", 16): "short",
    ("int", 32): "int",
    ("int", 64): "long",
    ("uint", 8): "uchar",
    ("uint", 16): "ushort",
    ("uint", 32): "uint",
    ("uint", 64): "ulong",
}


def kernel_places(op: OperationView) -> tuple[tuple[Place, str], ...]:
    """Return inputs, outputs and parameters, each with its name in the kernel."""
    names = identifiers([place.id for place in op.places], _TAKEN)
    return tuple(zip(op.places, names, strict=True))


def kernel_type(place: Place, core: CoreView) -> Quoted:
    """Return the type of a buffer: of the first where several are allowed."""
    const = "" if place.kind == "output" else "const "
    return Quoted(f"__global {const}{_element(place.types_on(core)[0])} *")


def is_number(place: Place, core: CoreView) -> bool:
    """Return whether a place is a parameter that reaches a kernel as a macro."""
    return place.is_scalar and place.kind == "param" and place.types_on(core)[0].kind != "string"


def number_type(place: Place, core: CoreView) -> Quoted:
    """Return the C++ type of a macro's value."""
    return Quoted("double" if member_getter(place, core) == "real" else "std::int64_t")


def number_member(place: Place, core: CoreView) -> str:
    """Return the member of ``udo::Param`` that has the value."""
    return member_getter(place, core)


def quantization(place: Place, core: CoreView) -> str:
    """Return how SNPE's DSP stores a tensor: ``TF`` for quantized values."""
    return "NONE" if place.types_on(core)[0].is_float else "TF"


def _element(dtype: DType) -> str:
    if dtype.is_float and dtype.bits <= 32:
        return "half"
    kind = {"sfixed": "int", "ufixed": "uint", "bool": "uint"}.get(dtype.kind, dtype.kind)
    return _BY_KIND.get((kind, max(dtype.bits, 8)), "uchar")


def member_type(place: Place, core: CoreView) -> Quoted:
    """Return the C++ type of a stored parameter; "" if it is not stored."""
    if not place.is_scalar:
        return Quoted("")
    getter = member_getter(place, core)
    return Quoted({"integer": "int64_t", "real": "double", "text": "char *const"}[getter])


def member_getter(place: Place, core: CoreView) -> str:
    """Return the method of ``Parameters`` that reads a scalar parameter."""
    dtype = place.types_on(core)[0]
    return "text" if dtype.kind == "string" else "real" if dtype.is_float else "integer"


def member_default(place: Place, core: CoreView) -> Quoted:
    """Return the value of an optional scalar parameter that is missing."""
    return scalar_default(place, core) or Quoted("nullptr" if member_getter(place, core) == "text" else "0")


FILTERS = {
    "kernel_places": kernel_places,
    "kernel_type": kernel_type,
    "number_member": number_member,
    "number_type": number_type,
    "quantization": quantization,
    "member_type": member_type,
    "member_getter": member_getter,
    "member_default": member_default,
}
