"""RoiAlign."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last
from xdlc.ir.dtype import INT32


@importer("RoiAlign", since=10, layout=CHANNEL_LAST)
def roi_align(node: Node, b: Builder) -> Value:
    """Map the mean of samples onto RoiAlign; QNN's ratio is image to features."""
    x, regions, batch = (node.required(index) for index in range(3))
    height, width = node.attr("output_height", 1), node.attr("output_width", 1)
    samples, scale = node.attr("sampling_ratio", 0), node.attr("spatial_scale", 1.0)
    aligned = node.attr("coordinate_transformation_mode", _DEFAULT[node.opset >= 16]) == "half_pixel"
    if x.rank != 4 or regions.rank != 2 or regions.shape[1] != 4 or scale <= 0:
        raise node.invalid(f"{list(x.shape)} with regions {list(regions.shape)} and scale {scale:g}")
    if node.attr("mode", "avg") != "avg":
        raise node.problem("mode 'max' is not supported; QNN's RoiAlign computes the mean")
    params: dict[str, ir.Param] = {
        "img_size_ratio": ir.static("", np.full(2, 1.0 / scale, np.float32)),
        "num_samples_y": ir.i32(samples or -1),
        "num_samples_x": ir.i32(samples or -1),
        "aligned": ir.b8(aligned),
        "allow_invalid_roi": ir.b8(True),
    }
    inputs = [b.channel_last(x), b.source_order(regions), b.source_order(b.cast(batch, INT32))]
    shape = (regions.shape[0], height, width, x.shape[1])
    return Value(b.emit("RoiAlign", inputs, shape, x.dtype, params), channel_last(4))


_DEFAULT = {False: "output_half_pixel", True: "half_pixel"}
