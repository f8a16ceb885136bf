"""Batch normalization of fixed point."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("Batchnorm")
def _two_columns(w: Writer, op: Op, source: Tensor) -> bool:
    """Write a row of two columns and one channel as two rows: HTP adds no bias to the second column."""
    shape = source.shape
    if not source.dtype.is_fixed or shape[-2:] != (2, 1) or shape[1:-2] not in ((), (1,)):
        return False
    rows, result = w.reshape(source, (shape[0], 2, 1, 1)), op.outputs[0]
    inputs = [rows, *op.inputs[1:]]
    normed = w.emit(op.type, inputs, rows.shape, op.params, result.dtype, result.encoding)
    w.finish(w.reshape(normed, shape))
    return True
