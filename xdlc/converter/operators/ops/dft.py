"""Inverse DFT of complex values; the host executes all other forms."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32


@importer("DFT", since=20)
def dft(node: Node, b: Builder) -> Value:
    """Write the inverse transform of complex values as a product with its matrix.

    It is x[n] = sum(X[k] exp(2 pi j k n / N)) / N (ONNX operator documentation of DFT); N is ``dft_length``,
    to which the axis is cut or filled up with zeros.
    """
    x, stated_length = node.required(0), node.static(1, "the length of the transform")
    if x.dtype is not FLOAT32 or not node.flag("inverse") or node.flag("onesided") or x.shape[-1:] != (2,):
        raise node.problem("QNN supports only the inverse transform of complex single-precision values")
    axis = node.axis((node.ints(2, "axis", "the axis") or [-2])[0], x.rank)
    if axis == x.rank - 1:
        raise node.invalid("axis must not be the one of real and imaginary parts")
    size = x.shape[axis] if stated_length is None else int(stated_length.reshape(-1)[0])
    if size < 1:
        raise node.invalid(f"a transform of {size} elements")
    kept = min(size, x.shape[axis])
    b.check_table(2 * size, 2 * x.shape[axis])
    turns = np.outer(np.arange(size), np.arange(x.shape[axis])) % size * (2 * np.pi / size)
    cosine, sine = (
        function(turns) / size * (np.arange(x.shape[axis]) < kept) for function in (np.cos, np.sin)
    )
    matrix = np.stack(
        [np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1
    )  # [size, 2, length, 2]
    last = [*(at for at in range(x.rank - 1) if at != axis), axis, x.rank - 1]
    moved = b.transpose(x, last)
    rows = moved.size // (2 * x.shape[axis])
    flat = b.reshape(moved, (rows, 2 * x.shape[axis]))
    weight = b.const(matrix.reshape(2 * size, -1).astype(np.float32), f"{b.stem}_transform")
    inputs = [b.source_order(flat), b.source_order(weight)]
    out = b.emit("FullyConnected", inputs, (rows, 2 * size), x.dtype, {"keep_dims": ir.b8(False)})
    whole = b.reshape(Value(out, (0, 1)), (*moved.shape[:-2], size, 2))
    return b.transpose(whole, [last.index(at) for at in range(x.rank)])
