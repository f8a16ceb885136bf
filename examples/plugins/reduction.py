"""A plugin for Caffe's Reduction: everything from an axis on becomes one number.

xconv-caffe-to-dlc -i net.prototxt -b net.caffemodel --plugin examples/plugins/reduction.py:Reduction
xconv-onnx-to-dlc -i model.onnx --plugin examples/plugins/reduction.py:Reduction
xdlc-net-run --container model.dlc --input_list list.txt --udo_package_path kernel_meta
xdlc-net-run --container model.dlc --input_list list.txt --udo_package_path examples/plugins/reduction.py
"""

from pathlib import Path

import numpy as np

from xdlc.udo import Plugin
from xdlc.udo.plugin import Enum, Float, Int, axis_of, compile_c, with_shape


class Reduction(Plugin):
    """Sums, sums of magnitudes or squares, or means of everything from an axis on, times a factor.

    Layers of Caffe are taken before xdlc imports them itself, and so are nodes of the type in ONNX models.
    """

    framework = ("caffe", "onnx")
    op_type = "Reduction"
    package = "CaffeOps"
    inputs = ("data",)
    outputs = ("result",)
    params = {
        "axis": Int(default=0),
        "operation": Enum(
            "SUM",
            "ASUM",
            "SUMSQ",
            "MEAN",
            default="SUM",
            numbers={1: "SUM", 2: "ASUM", 3: "SUMSQ", 4: "MEAN"},  # as caffe.proto counts them
        ),
        "coeff": Float(default=1.0),
    }

    def parse_params(self, node):
        """Read ``reduction_param`` of a layer; what it does not state gets the defaults above."""
        param = node.attributes  # "axis" finds reduction_param.axis, and ONNX's attribute axis
        return {name: param[name] for name in ("operation", "axis", "coeff") if name in param}

    def infer_shape_and_type(self, op):
        """Return the dimensions before the axis; a single number is a tensor of one element."""
        data = op.inputs[0]
        axis = axis_of(op.params["axis"], len(data.shape))
        return with_shape(data, data.shape[:axis] or (1,))

    def build_kernel(self, op):
        """Compile the C kernel for inputs whose shape is known."""
        shape = op.inputs[0].shape
        if None in shape:
            return None
        params = op.params
        return compile_c(
            op,
            Path(__file__).with_name("reduction.c"),
            entry="reduction",
            arguments="i, s, f",
            values=(axis_of(params["axis"], len(shape)), params["operation"], params["coeff"]),
        )

    def compute(self, inputs, params, outputs):
        """Do the same with numpy."""
        data = inputs[0]
        rows = data.reshape((*outputs[0].shape, -1)).astype(np.float64)
        result = {
            "SUM": lambda: rows.sum(-1),
            "ASUM": lambda: np.abs(rows).sum(-1),
            "SUMSQ": lambda: (rows * rows).sum(-1),
            "MEAN": lambda: rows.mean(-1),
        }[params["operation"]]()
        return (result * params["coeff"]).astype(np.float32)
