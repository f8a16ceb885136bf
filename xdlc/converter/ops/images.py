"""Images: sampled at given places, regions of them, and blocks of pixels."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.ops._compose import product
from xdlc.converter.values import Value, channel_last
from xdlc.ir.dtype import INT32

_MODES = {"bilinear": 0, "linear": 0, "nearest": 1}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@importer("GridSample", since=16, layout=CHANNEL_LAST)
def grid_sample(node: Node, b: Builder, x: Value, grid: Value) -> Value:
    """Map onto GridSample, which has two spatial axes and no cubic mode."""
    mode = node.attr("mode", "linear")
    padding, align = node.attr("padding_mode", "zeros"), node.flag("align_corners")
    if x.rank != 4:
        raise node.problem(f"the input has {x.rank - 2} spatial axes; QNN's GridSample supports 2")
    if mode not in _MODES:
        raise node.problem(f"xdlc does not support mode {mode!r}; QNN's GridSample has linear and nearest")
    if padding not in _PADDINGS or grid.rank != 4 or grid.shape[3] != 2:
        raise node.invalid(f"padding_mode {padding!r} does not fit a grid of shape {list(grid.shape)}")
    shape = (x.shape[0], *grid.shape[1:3], x.shape[1])
    params: dict[str, ir.Param] = {
        "align_corners": ir.b8(align),
        "mode": ir.u32(_MODES[mode]),
        "padding_mode": ir.u32(_PADDINGS[padding]),
    }
    out = b.emit("GridSample", [b.channel_last(x), b.source_order(grid)], shape, x.dtype, params)
    return Value(out, channel_last(4))


@importer("AffineGrid", since=20)
def affine_grid(node: Node, b: Builder, theta: Value) -> Value:
    """Write the grid as known positions times the transposed matrices."""
    size = node.static(1, "the size")
    if size is None or size.size != theta.shape[1] + 2 or theta.shape[2] != theta.shape[1] + 1:
        raise node.invalid(f"matrices of shape {list(theta.shape)} do not fit the size of the grid")
    dims = [int(dim) for dim in size[2:]]
    align = node.flag("align_corners")
    b.check_table(*dims)
    axes = [_positions(dim, align) for dim in dims]
    last_first = np.meshgrid(*axes, indexing="ij")[::-1]
    places = np.stack([*last_first, np.ones(dims)], axis=-1).reshape(1, -1, len(dims) + 1)
    known = b.const(places.astype(theta.dtype.numpy), f"{b.stem}_positions")
    grid = product(b, known, b.transpose(theta, (0, 2, 1)))
    return b.reshape(grid, (theta.shape[0], *dims, len(dims)))


def _positions(dim: int, align: bool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the normalized positions of an axis' elements, as ONNX defines them."""
    if align:
        return np.linspace(-1.0, 1.0, dim) if dim > 1 else np.asarray([-1.0])
    return (np.arange(dim) * 2.0 + 1.0) / dim - 1.0


@importer("RoiAlign", since=10, layout=CHANNEL_LAST)
def roi_align(node: Node, b: Builder) -> Value:
    """Map the mean of samples onto RoiAlign; QNN's ratio is image to features."""
    x, regions, batch = (node.required(index) for index in range(3))
    height, width = node.attr("output_height", 1), node.attr("output_width", 1)
    samples, scale = node.attr("sampling_ratio", 0), node.attr("spatial_scale", 1.0)
    aligned = node.attr("coordinate_transformation_mode", _DEFAULT[node.opset >= 16]) == "half_pixel"
    if x.rank != 4 or regions.rank != 2 or regions.shape[1] != 4 or scale <= 0:
        raise node.invalid(
            f"an input {list(x.shape)} does not fit regions {list(regions.shape)} and scale {scale:g}"
        )
    if node.attr("mode", "avg") != "avg":
        raise node.problem("xdlc does not support mode 'max'; QNN's RoiAlign computes the mean")
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


@importer("DepthToSpace", layout=CHANNEL_LAST)
def depth_to_space(node: Node, b: Builder, x: Value) -> Value:
    """Map onto DepthToSpace in either mode."""
    block = node.attr("blocksize")
    if x.rank != 4 or not block or x.shape[1] % (block * block):
        raise node.problem(f"blocksize {block} does not fit an input {list(x.shape)}")
    mode = {"DCR": 0, "CRD": 1}.get(node.attr("mode", "DCR"))
    if mode is None:
        raise node.invalid(f"mode must be DCR or CRD, but is {node.attr('mode')!r:.40}")
    n, c, h, w = x.shape
    params: dict[str, ir.Param] = {
        "block_size": ir.u32s([block, block]),
        "mode": ir.u32(mode),
    }
    shape = (n, h * block, w * block, c // (block * block))
    return Value(b.emit("DepthToSpace", [b.channel_last(x)], shape, x.dtype, params), channel_last(4))


@importer("SpaceToDepth", layout=CHANNEL_LAST)
def space_to_depth(node: Node, b: Builder, x: Value) -> Value:
    """Map onto SpaceToDepth."""
    block = node.attr("blocksize")
    if node.attr("mode", "DCR") != "DCR":
        raise node.problem(
            f"xdlc does not support mode {node.attr('mode')!r} here", "export the model with mode DCR"
        )
    if x.rank != 4 or not block or x.shape[2] % block or x.shape[3] % block:
        raise node.problem(f"blocksize {block} does not fit an input {list(x.shape)}")
    n, c, h, w = x.shape
    params = {"block_size": ir.u32s([block, block])}
    shape = (n, h // block, w // block, c * block * block)
    return Value(b.emit("SpaceToDepth", [b.channel_last(x)], shape, x.dtype, params), channel_last(4))
