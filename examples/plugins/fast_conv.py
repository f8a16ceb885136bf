"""A plugin that overrides Conv for one shape only; xdlc converts all other convolutions.

    xconv-onnx-to-dlc -i model.onnx --plugin examples/plugins/fast_conv.py:FastConv

It needs no parse_params, because the parameters are ONNX's own.  Its kernel reads activations in NC1HWC0 and
weights in FRACTAL_Z, as the matrix units of some accelerators do.
"""

from pathlib import Path

import numpy as np

from xdlc.udo import Plugin
from xdlc.udo.plugin import compile_c, with_shape
from xdlc.udo.plugin.formats import find_format


class FastConv(Plugin):
    """Convolutions of 1 x 20 x 8 x 8 to 24 channels by 3 x 3, padded to stay 8 x 8."""

    framework = "onnx"
    op_type = "Conv"
    package = "Fast"
    name = "FastConv"
    formats = (["NC1HWC0"], ["NC1HWC0"])
    weight_formats = {"W": "FRACTAL_Z", "B": "NC1HWC0"}

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

    def build_kernel(self, op):
        """Compile the C kernel."""
        return compile_c(
            op,
            Path(__file__).with_name("fast_conv.c"),
            entry="fast_conv",
            arguments="(i,i)",
            values=[tuple(op.inputs[1].shape[2:])],
        )

    def compute(self, inputs, params, outputs):
        """Do the same with numpy: inputs and weights come in their formats, and so does the result go."""
        x, w = inputs[:2]
        weight = find_format("FRACTAL_Z").unpack(w, tuple(params["W_shape"]))
        n, c1, height, width, c0 = x.shape
        channels = x.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, height, width)[:, : weight.shape[1]]
        padded = np.pad(channels.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        result = np.einsum("nchwij,ocij->nohw", windows, weight).astype(np.float32)
        packed = find_format("NC1HWC0").pack(result)
        return packed if len(inputs) < 3 or inputs[2] is None else packed + inputs[2]
