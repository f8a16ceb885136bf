"""Fourier transforms; the host executes the forms that are not here."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.functions.spectra import angles
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.ops._compose import picked
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import MULTIPLY


@importer("DFT", since=20)
def dft(node: Node, b: Builder, x: Value) -> Value:
    """Write the inverse transform of complex values as a matrix product.

    It is x[n] = sum(X[k] exp(2 pi j k n / N)) / N (ONNX operator documentation of DFT); N is ``dft_length``,
    to which the axis is cut or filled up with zeros.
    """
    stated_length = node.static(1, "the length of the transform")
    if x.dtype is not FLOAT32 or not node.flag("inverse") or node.flag("onesided") or x.shape[-1:] != (2,):
        raise node.problem("QNN supports only the inverse transform of complex single-precision values")
    axis = node.axis((node.ints(2, "axis", "the axis") or [-2])[0], x.rank)
    if axis == x.rank - 1:
        raise node.invalid("axis must not be the axis of real and imaginary parts")
    size = x.shape[axis] if stated_length is None else int(stated_length.reshape(-1)[0])
    if size < 1:
        raise node.invalid(f"a transform cannot have {size} elements")
    kept = min(size, x.shape[axis])
    b.check_table(2 * size, 2 * x.shape[axis])
    turns = angles(size, columns=x.shape[axis])
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


@importer("STFT", since=17)
def stft(node: Node, b: Builder, signal: Value) -> Value:
    """Write real frames times the transform's matrix, as HTP has no STFT."""
    window = node.input(2)
    step, length = node.static(1, "the frame step"), node.static(3, "the frame length")
    if signal.rank != 3 or signal.shape[2] not in (1, 2) or step is None:
        raise node.invalid(
            f"the node needs a frame step and a signal [batch, length, 1 or 2], not {list(signal.shape)}"
        )
    if signal.shape[2] == 2:
        raise node.problem("xdlc does not support complex signals")
    batch, dim, _ = signal.shape
    frame = dim if window is None else window.size
    frame = int(length.reshape(-1)[0]) if length is not None else frame
    stride = int(step.reshape(-1)[0])
    if (window is not None and window.shape != (frame,)) or stride < 1 or not 1 <= frame <= dim:
        raise node.invalid(f"frames of {frame} at every {stride} of {dim} elements do not fit the window")
    count = (dim - frame) // stride + 1
    b.check_table(count, frame)
    starts = np.arange(count)[:, None] * stride
    frames = picked(b, b.reshape(signal, (batch, dim)), 1, (starts + np.arange(frame)).reshape(-1))
    frames = b.reshape(frames, (batch * count, frame))
    matrix = _transform(frame, frame // 2 + 1 if node.flag("onesided", 1) else frame)
    if window is not None and window.is_static:
        matrix = matrix * window.numpy().astype(np.float64)
    elif window is not None:
        frames = b.binary(MULTIPLY, frames, window)
    weight = b.const(matrix.astype(signal.dtype.numpy), f"{b.stem}_transform")
    inputs = [b.source_order(frames), b.source_order(weight)]
    shape = (batch * count, len(matrix))
    out = b.emit("FullyConnected", inputs, shape, signal.dtype, {"keep_dims": ir.b8(False)})
    return b.reshape(Value(out, (0, 1)), (batch, count, len(matrix) // 2, 2))


def _transform(size: int, bins: int) -> Array:
    """Return rows [2 * bins, size] of exp(-2 pi j k n / size), real and imaginary."""
    angle = angles(size, rows=bins)
    return np.stack([np.cos(angle), -np.sin(angle)], axis=1).reshape(2 * bins, size)
