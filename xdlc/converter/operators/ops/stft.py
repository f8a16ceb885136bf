"""STFT."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import picked
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import MULTIPLY


@importer("STFT", since=17)
def stft(node: Node, b: Builder) -> Value:
    """Write real frames times the transform's matrix, as HTP has no STFT."""
    signal, window = node.required(0), node.input(2)
    step, length = node.static(1, "the frame step"), node.static(3, "the frame length")
    if signal.rank != 3 or signal.shape[2] not in (1, 2) or step is None:
        raise node.invalid(
            f"requires a signal [batch, length, 1 or 2] and a frame step, found {list(signal.shape)}"
        )
    if signal.shape[2] == 2:
        raise node.problem("complex signals are not supported")
    batch, dim, _ = signal.shape
    frame = dim if window is None else window.size
    frame = int(length.reshape(-1)[0]) if length is not None else frame
    stride = int(step.reshape(-1)[0])
    if (window is not None and window.shape != (frame,)) or stride < 1 or not 1 <= frame <= dim:
        raise node.invalid(f"frames of {frame} at every {stride} of {dim} elements do not fit its window")
    count = (dim - frame) // stride + 1
    b.check_table(count, frame)
    b.check_table(frame, frame)
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
    angle = -2 * np.pi / size * (np.outer(np.arange(bins), np.arange(size)) % size)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).reshape(2 * bins, size)
