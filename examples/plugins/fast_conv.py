"""A plugin that overrides Conv for one shape only; xdlc converts all other convolutions.

    xconv-onnx-to-dlc -i model.onnx --plugin examples/plugins/fast_conv.py:FastConv

It needs no parse_params, because the parameters are ONNX's own.  Tensors of a DLC have no packed formats, so
the kernel packs them itself, as the matrix units of some accelerators read them: activations in blocks of 16
channels (NC1HWC0), weights in squares of 16 x 16 (FRACTAL_Z).
"""

import numpy as np

from xdlc.udo import Plugin
from xdlc.udo.plugin import with_shape

SIZE = 16


def nc1hwc0(array):
    """Return N, C, H, W as N, C1, H, W, C0; padding is zero."""
    blocks = -(-array.shape[1] // SIZE)
    n, c, h, w = array.shape
    padded = np.zeros((n, blocks * SIZE, h, w), array.dtype)
    padded[:, :c] = array
    return padded.reshape(n, blocks, SIZE, h, w).transpose(0, 1, 3, 4, 2)


def fractal_z(weight):
    """Return N, C, H, W as C1, H, W, N1, N0, C0; padding is zero."""
    n, c, h, w = weight.shape
    squares, blocks = -(-n // SIZE), -(-c // SIZE)
    padded = np.zeros((squares * SIZE, blocks * SIZE, h, w), weight.dtype)
    padded[:n, :c] = weight
    return padded.reshape(squares, SIZE, blocks, SIZE, h, w).transpose(2, 4, 5, 0, 1, 3)


class FastConv(Plugin):
    """Convolutions of 1 x 20 x 8 x 8 to 24 channels by 3 x 3, padded to stay 8 x 8."""

    framework = "onnx"
    op_type = "Conv"
    package = "Fast"
    name = "FastConv"

    def accepts(self, node):
        """Take the one shape."""
        x, w = node.inputs[:2]
        return (
            x.shape == (1, 20, 8, 8)
            and w.shape == (24, 20, 3, 3)
            and w.data is not None
            and list(node.attributes.get("pads", ())) == [1, 1, 1, 1]
            and set(node.attributes.get("strides", [1])) == {1}
        )

    def infer_shape_and_type(self, op):
        """Keep height and width."""
        x, w = op.inputs[:2]
        return with_shape(x, (x.shape[0], w.shape[0], *x.shape[2:]))

    def compute(self, inputs, params, outputs):
        """Multiply blocks of channels with squares of weights."""
        x, w = inputs[:2]
        blocks = nc1hwc0(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64))
        windows = np.lib.stride_tricks.sliding_window_view(blocks, (3, 3), (2, 3))
        packed = np.einsum("nchwkij,cijsok->nsohw", windows, fractal_z(w))
        n, channels = outputs[0].shape[:2]
        result = packed.reshape(n, -1, *packed.shape[3:])[:, :channels].astype(np.float32)
        return result if len(inputs) < 3 or inputs[2] is None else result + inputs[2][:, None, None]
