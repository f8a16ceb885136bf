"""Sampling of images: GridSample and RoiAlign."""

from __future__ import annotations

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import lowering

MODES = ("linear", "nearest")
PADDINGS = ("zeros", "border", "reflection")


@lowering("GridSample")
def grid_sample(op: Op, b: Builder) -> None:
    """Lower to GridSample."""
    source, grid = args.operand(op, 0), args.operand(op, 1)
    mode, padding = int(op.param("mode", 0)), int(op.param("padding_mode", 0))
    if mode >= len(MODES) or padding >= len(PADDINGS):
        raise ModelError(f"mode {mode} and padding_mode {padding}; valid values are 0 to 1 and 0 to 2")
    order = channels_first(source.rank)
    value = b.node(
        "GridSample",
        [b.read(source, order), b.read(grid)],
        align_corners=int(bool(op.param("align_corners", False))),
        mode=MODES[mode],
        padding_mode=PADDINGS[padding],
    )
    b.write(args.result(op), value, order)


@lowering("RoiAlign")
def roi_align(op: Op, b: Builder) -> None:
    """Lower to RoiAlign; both axes must have one ratio and one number of samples."""
    source, regions, batch = (args.operand(op, index) for index in range(3))
    target = args.result(op)
    ratios = numpy.asarray(args.required(op, "img_size_ratio")).reshape(-1)
    samples = {int(op.param(f"num_samples_{axis}", -1)) for axis in "yx"}
    if len(set(ratios.tolist())) != 1 or len(samples) != 1:
        raise b.unsupported("different ratios or numbers of samples for height and width")
    if not ratios[0] > 0:
        raise ModelError(f"parameter 'img_size_ratio' is {ratios[0]}, but must be above 0")
    order = channels_first(source.rank)
    value = b.node(
        "RoiAlign",
        [b.read(source, order), b.read(regions), b.read(batch, dtype=numpy.dtype(numpy.int64))],
        output_height=target.shape[1],
        output_width=target.shape[2],
        sampling_ratio=max(samples.pop(), 0),
        spatial_scale=float(numpy.float32(1) / ratios[0]),
        coordinate_transformation_mode="half_pixel" if op.param("aligned", False) else "output_half_pixel",
    )
    b.write(target, value, order)
