"""A plugin for a layer of Caffe with its own parameters; you need no caffe.proto.

    layer {
      name: "b" type: "BoundedScale" bottom: "x" top: "y"
      bounded_scale_param { scale: 2 bounds { low: 0 high: 6 } outside: WRAP axes: 1 axes: 2 }
    }

xconv-caffe-to-dlc -i net.prototxt -b net.caffemodel --plugin examples/plugins/bounded_scale.py
xdlc-net-run --container net.dlc --input_list list.txt --udo_package_path examples/plugins/bounded_scale.py
"""

import numpy as np

from xdlc.udo import Plugin
from xdlc.udo.plugin import Bool, Enum, Float, Ints, same_as


class BoundedScale(Plugin):
    """Products with a factor, and with the mean over axes removed, kept within bounds."""

    framework = "caffe"
    op_type = "BoundedScale"
    package = "OwnOps"
    inputs = ("x",)
    outputs = ("y",)
    params = {
        "scale": Float(default=1.0),
        "low": Float(source="bounds.low"),  # the end of a path is enough while it is unique: low, too
        "high": Float(source="bounded_scale_param.bounds.high"),
        "outside": Enum("CLAMP", "WRAP", default="CLAMP"),
        "axes": Ints(default=None),
        "center": Bool(default=True),
    }

    def infer_shape_and_type(self, op):
        """Return the shape of the input."""
        return same_as(op.inputs[0])

    def compute(self, inputs, params, outputs):
        """Compute the layer with numpy."""
        x, low, high = inputs[0] * np.float32(params["scale"]), params["low"], params["high"]
        if params["center"] and params.get("axes"):
            x = x - x.mean(tuple(params["axes"]), keepdims=True)
        wrapped = low + np.mod(x - low, high - low)
        return (wrapped if params["outside"] == "WRAP" else np.clip(x, low, high)).astype(np.float32)
