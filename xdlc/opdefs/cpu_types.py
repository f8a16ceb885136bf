"""Definitions as kernels of a CPU see them, which get reals for what is quantized."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdlc.errors import ModelError
from xdlc.ir.dtype import UINT8, UINT16, DType
from xdlc.opdefs.backends import is_dsp
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, TensorDef
from xdlc.opdefs.resolving import resolve
from xdlc.opdefs.supplement_rules import Rows, offered, side_of

CPU = "CPU"


def activation_types(
    dtypes: tuple[DType, ...], *, stated: bool, backends: Iterable[str]
) -> tuple[DType, ...]:
    """Return the types that a place takes on a CPU.

    ``UINT_8`` and ``UINT_16`` are bytes and words.  They are SNPE's names of quantized activations, which a
    CPU gets as reals, where they stand beside a type of reals for a CPU and a DSP alike.

    Args:
        dtypes: Types of the definition, on the CPU if it tells them apart.
        stated: Whether it states them for the CPU by themselves.
        backends: All that the op runs on.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> activation_types((FLOAT32, UINT8), stated=False, backends=["CPU", "DSP"])
        (float32,)
        >>> activation_types((FLOAT32, UINT8), stated=False, backends=["CPU"])
        (float32, uint8)
    """
    if stated or not any(map(is_dsp, backends)) or not any(map(is_real, dtypes)):
        return dtypes
    return tuple(dtype for dtype in dtypes if dtype not in (UINT8, UINT16))


def is_real(dtype: DType) -> bool:
    """Return whether a type is one of floats, or of integers that stand for reals."""
    return dtype.is_float or dtype.is_fixed


def on_cpu(opdef: OpDef, collection: Collection) -> OpDef | None:
    """Return a definition as it is on a CPU; None if it is not for one, or leaves something open."""
    try:
        found = resolve(opdef, collection, CPU)
    except ModelError:
        return None
    rows = Rows(collection).speaking(opdef.name, CPU)
    backends = offered(collection)[opdef.name]

    def side(name: str, tensors: Sequence[TensorDef]) -> tuple[TensorDef, ...]:
        return tuple(
            tensor
            if tensor.is_static
            else replace(
                tensor,
                dtypes=activation_types(
                    tensor.dtypes, stated=_is_stated(tensor.name, name, rows), backends=backends
                ),
            )
            for tensor in tensors
        )

    return replace(found, inputs=side("input", found.inputs), outputs=side("output", found.outputs))


def _is_stated(tensor: str, side: str, rows: Sequence[SupplementOp]) -> bool:
    return any(side_of(row, side)[tensor].dtypes for row in rows if tensor in side_of(row, side))
