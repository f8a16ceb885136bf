"""Layers of data movement: joins, slices, shapes, resizing."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.snpe.registry import Layer, layer
from xdlc.ir import Param, Tensor
from xdlc.ir.dtype import FLOAT32, INT32

RESIZES = {0: "bilinear"}


def _axis(node: Layer, rank: int) -> int:
    axis = node.whole("axis")
    if not -rank <= axis < rank:
        raise node.problem(f"attribute 'axis' is {axis}, but the input has rank {rank}")
    return axis % rank


@layer("Const")
def const(node: Layer) -> None:
    """Make the output a static tensor."""
    value = node.weight("value") if "value" in node.weights else next(iter(node.weights.values()), None)
    if value is None or value.data is None or value.size != node.output.size:
        raise node.problem("the layer has no value of the shape of its output")
    target = node.output
    target.data, target.role = value.data.reshape(target.shape), value.role
    target.dtype, target.encoding = value.dtype, value.encoding


@layer("Concat")
def concat(node: Layer) -> None:
    """Translate to Concat."""
    axis = _axis(node, node.source.rank)
    node.emit("Concat", node.inputs, {"axis": ir.u32(axis)})


@layer("Slice")
def split(node: Layer) -> None:
    """Translate to Split; ``slice_points`` lists the starts of outputs but the first."""
    axis = _axis(node, node.source.rank)
    points = node.ints("slice_points", len(node.outputs) - 1)
    node.emit("Split", [node.source], {"axis": ir.u32(axis), "split_index": node.naturals(points, "points")})


@layer("StridedSlice")
def strided_slice(node: Layer) -> None:
    """Translate to StridedSlice."""
    import numpy

    rank = node.source.rank
    ranges = zip(*(node.ints(name, rank) for name in ("begin", "end", "strides")), strict=True)
    params: dict[str, Param] = {"ranges": ir.static("", numpy.asarray(list(ranges), numpy.int32))}
    masks = {
        "begin_mask": "begin_mask",
        "end_mask": "end_mask",
        "shrink_axis_mask": "shrink_axes",
        "new_axis_mask": "new_axes_mask",
    }
    for attribute, param in masks.items():
        mask = node.natural(attribute, 0)
        if mask.value:
            params[param] = mask
    node.emit("StridedSlice", [node.source], params)


@layer("Reshape")
def reshape(node: Layer) -> None:
    """Translate to Reshape: the shape is the output's."""
    node.emit("Reshape", [node.source])


@layer("Scaling")
def scaling(node: Layer) -> None:
    """Translate to ResizeBilinear: the size is the output's."""
    node.choice("resize_mode", RESIZES)
    if node.flag("maintain_aspect_ratio"):
        raise node.problem("xdlc does not support resizing that keeps the aspect ratio")
    params: dict[str, Param] = {
        "align_corners": ir.b8(node.flag("align_corners")),
        "half_pixel_centers": ir.b8(node.flag("half_pixel_centers")),
    }
    node.emit("ResizeBilinear", [node.source], params)


@layer("ArgMax")
def arg_max(node: Layer) -> None:
    """Translate to Argmax, and Cast to float, the type of positions in SNPE 1."""
    kind = str(node.attr("op", "ARGMAX"))
    if kind != "ARGMAX":
        raise node.problem(f"attribute 'op' is {kind!r}; xdlc supports only 'ARGMAX'")
    axis = _axis(node, node.source.rank)
    params: dict[str, Param] = {
        "axis": ir.u32(axis),
        "keep_dims": ir.b8(node.flag("keep_dims")),
    }
    positions = Tensor(node.graph.unique_name(f"{node.op.name}_positions"), node.output.shape, INT32)
    node.emit("Argmax", [node.source], params, [positions])
    node.output.dtype, node.output.encoding = FLOAT32, None
    node.emit("Cast", [positions])
