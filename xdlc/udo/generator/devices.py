"""Limits of accelerators on operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdlc.ir.dtype import UINT8, UINT16, DType
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.udo.generator.cores import CPU, DSP, DSP_LEGACY, Core, cores_of

Allowed = Callable[[OpDef, TensorDef, str, Core], Sequence[DType]]
"""Data types of a place of an operation, of which it is input, output or param, on a core."""

MAX_RANK = 4
"""Of tensors on the HTP."""

_FOUR_AXES = ("NHWC", "NCHW", "NHCW")
_TAKEN = {
    DSP_LEGACY: {"ufixed8", "uint8", "float32"},
    DSP: {"ufixed8", "uint8", "ufixed16", "uint16", "float16", "float32"},
}
"""Data types of activations."""


def refusal(opdef: OpDef, core: Core) -> str:
    """Return why no library of a core can have an operation; empty if one can."""
    repeated = [tensor.name for tensor in (*opdef.inputs, *opdef.outputs) if tensor.repeated]
    if repeated and core.group in (DSP, DSP_LEGACY):
        return f"{repeated[0]!r} is repeated, and DSPs take a fixed number of inputs and outputs"
    return ""


def op_notices(opdef: OpDef, backends: Sequence[str], allowed: Allowed) -> Iterator[str]:
    """Yield what users should know of an operation on the accelerators that it names, but for its name."""
    for name in backends:
        if name.upper() in ("DSP", "HTP", "HTP_FP16"):
            versions = " and ".join(core.arch for core in cores_of(name))
            yield (
                f": {name} has no version, and is taken as {versions}; name those of your "
                "phones, like DSP_V73, or dsp_arch_types"
            )
    groups: dict[str, Core] = {}
    for core in sorted(core for name in backends for core in cores_of(name)):
        groups.setdefault(core.group, core)
    for core in groups.values():
        if not refusal(opdef, core):  # the notices of definitions report it
            yield from (f" on {core.name}: {text}" for text in _core_notices(opdef, core, allowed))
    if CPU in groups and groups.keys() & {DSP, DSP_LEGACY}:
        yield from _plain_integers(opdef, groups[CPU], allowed)


def _plain_integers(opdef: OpDef, core: Core, allowed: Allowed) -> Iterator[str]:
    """Yield a notice if the CPU's types of activations are what SNPE calls quantized ones on a DSP."""
    sides = (("input", opdef.inputs), ("output", opdef.outputs))
    names = [
        tensor.name
        for kind, tensors in sides
        for tensor in tensors
        if not tensor.is_static
        and all(dtype in (UINT8, UINT16) for dtype in allowed(opdef, tensor, kind, core))
    ]
    if names:
        yield (
            f" on {core.name}: {', '.join(names)} are plain integers there; where the DSP's "
            "integers are quantized values, give the CPU FLOAT_32, with per_core_data_types or a supplement"
        )


def _core_notices(opdef: OpDef, core: Core, allowed: Allowed) -> Iterator[str]:
    if core.group not in _TAKEN:
        return
    for kind, tensors in (("input", opdef.inputs), ("output", opdef.outputs)):
        for tensor in tensors:
            if not tensor.is_static:
                yield from _types(kind, tensor, core, allowed(opdef, tensor, kind, core))
    if core.group != DSP:
        return
    tensors = (*opdef.inputs, *opdef.outputs)
    free = [tensor.name for tensor in tensors if tensor.rank is None and tensor.layout not in _FOUR_AXES]
    if free:
        yield f"tensors have {MAX_RANK} axes at most, also those of any rank: {', '.join(free)}"
    for param in opdef.params.values():
        text = any(dtype.kind == "string" for dtype in allowed(opdef, param, "param", core))
        if not param.mandatory and (text or not param.is_scalar or param.default is None):
            what = "a string" if text else "a tensor" if not param.is_scalar else "without a default"
            yield f"parameter {param.name!r} is {what}, and must be in each model"


def _types(kind: str, tensor: TensorDef, core: Core, dtypes: Sequence[DType]) -> Iterator[str]:
    other = [dtype.name for dtype in dtypes if dtype.name not in _TAKEN[core.group]]
    if other:
        taken = ", ".join(sorted(_TAKEN[core.group] - {"uint8", "uint16"}))
        yield f"{kind} {tensor.name!r} is {' or '.join(other)}, and activations there are {taken}"
