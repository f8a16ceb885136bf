"""The plugin of fast_conv.py for Caffe: it overrides Convolution for one shape only.

    xconv-caffe-to-dlc -i net.prototxt -b net.caffemodel --plugin examples/plugins/fast_convolution.py

It declares parameters, because a layer of Caffe has no parameters that a plugin inherits.
"""

from fast_conv import FastConv

from xdlc.udo.plugin import Bool, Input, Int, Ints


class FastConvolution(FastConv):
    """Convolutions of 1 x 20 x 8 x 8 to 24 channels by 3 x 3, padded to stay 8 x 8."""

    framework = "caffe"
    op_type = "Convolution"
    name = "FastConvolution"
    inputs = ("X", Input("W", static=True), Input("B", static=True, optional=True))
    outputs = ("Y",)
    params = {
        "num_output": Int(),
        "kernel_size": Ints(),
        "pad": Ints(),
        "stride": Ints(default=[1]),
        "bias_term": Bool(default=True),
    }

    def accepts(self, node):
        """Take the one shape, where the layer states nothing else than the parameters above."""
        x, w = node.inputs[:2]
        return (
            {name.rpartition(".")[2] for name in node.attributes if name not in node.optional}
            <= {*self.params}
            and (x.shape, w.shape) == ((1, 20, 8, 8), (24, 20, 3, 3))
            and node.attributes.get("pad") in (1, [1, 1])
            and node.attributes.get("stride", 1) in (1, [1, 1])
        )
