"""Names of data types, cores, architectures and layouts in JSON configurations."""

from __future__ import annotations

from collections.abc import Iterable

from xdlc.ir.dtype import BY_NAME, DType
from xdlc.opdefs import backends

CORES = ("CPU", "GPU", "DSP")
ARCHS = tuple(name.removeprefix("DSP_").lower() for name in (*backends.OLD_DSPS, *backends.NEW_DSPS))
LAYOUTS = ("NHWC", "NCHW", "NHCW", "UNDEFINED", "BACKEND_SPECIFIC")

_WORDS = {"float": "FLOAT", "int": "INT", "uint": "UINT", "ufixed": "FIXED", "sfixed": "SFIXED_POINT"}
_ODD = {"bfloat16": "BFLOAT_16", "bool8": "BOOL_8", "string": "STRING"}


def type_name(dtype: DType) -> str:
    """Return the name of a data type in a JSON configuration.

    Example:
        >>> type_name(BY_NAME["float32"]), type_name(BY_NAME["ufixed8"]), type_name(BY_NAME["sfixed16"])
        ('FLOAT_32', 'FIXED_8', 'SFIXED_POINT_16')
    """
    return _ODD.get(dtype.name) or f"{_WORDS[dtype.kind]}_{dtype.bits}"


def _types() -> dict[str, DType]:
    named = {type_name(dtype): dtype for name, dtype in BY_NAME.items() if name != "undefined"}
    named |= {f"UFIXED_POINT_{dtype.bits}": dtype for dtype in BY_NAME.values() if dtype.kind == "ufixed"}
    return named | {f"QNN_DATATYPE_{name}": dtype for name, dtype in named.items() if name[:6] != "FIXED_"}


TYPES: dict[str, DType] = _types()
"""Data types by all their names, those of JSON first."""

COMMON_TYPES = (
    *("FLOAT_16", "FLOAT_32", "FIXED_4", "FIXED_8", "FIXED_16", "UINT_8", "UINT_16", "UINT_32", "STRING"),
    *("INT_8", "INT_16", "INT_32", "BOOL_8"),
)
"""The names that messages offer."""


def backends_of(cores: list[str], archs: list[str]) -> tuple[str, ...]:
    """Return the backends of an op, as OpDef XML names them.

    Example:
        >>> backends_of(["CPU", "DSP"], ["v66", "v68"]), backends_of(["DSP"], [])
        (('CPU', 'DSP_V66', 'DSP_V68'), ('DSP',))
    """
    of_dsp = tuple(f"DSP_{arch.upper()}" for arch in archs) or ("DSP",)
    return tuple(name for core in cores for name in (of_dsp if core == "DSP" else (core,)))


def cores_of(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the cores and DSP architectures of backends; HTP is the DSP from v68 on.

    Example:
        >>> cores_of(("CPU", "DSP_V66", "AIC"))
        (['CPU', 'DSP'], ['v66'])
        >>> cores_of(("HTP",))[1][:3]
        ['v68', 'v69', 'v73']
    """
    cores: list[str] = []
    archs: list[str] = []
    for name in names:
        core = "DSP" if backends.is_dsp(name) else name
        if core in CORES and core not in cores:
            cores.append(core)
        own = backends.NEW_DSPS if name.startswith("HTP") and core == "DSP" else (name,)
        archs += [arch for arch in ARCHS if f"DSP_{arch.upper()}" in own and arch not in archs]
    return cores, archs
