"""Data types of outputs of which a shape function gives extents only."""

from __future__ import annotations

from dataclasses import replace

from xdlc.ir.dtype import FLOAT32, UINT8, UINT16, UNDEFINED
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.udo.activations import kernel_dtype


def typed(specs: list[TensorSpec] | None, view: OpView, definition: OpDef | None) -> list[TensorSpec] | None:
    """Return outputs with the type of the first input if that is allowed, or else the first that is.

    Args:
        specs: Outputs; those of type undefined get one.
        view: The op.
        definition: Its definition.
    """
    if specs is None:
        return None
    first = kernel_dtype(next((spec.dtype for spec in view.inputs if spec is not None), FLOAT32))
    places = definition.outputs if definition is not None else ()
    found = []
    for index, spec in enumerate(specs):
        allowed = places[min(index, len(places) - 1)].dtypes if places else ()
        # integers of SNPE's DSPs stand for reals
        kinds = [FLOAT32 if dtype in (UINT8, UINT16) else kernel_dtype(dtype) for dtype in allowed]
        dtype = first if first in (*kinds, *allowed) or not kinds else kernel_dtype(allowed[0])
        found.append(replace(spec, dtype=dtype) if spec.dtype is UNDEFINED else spec)
    return found
