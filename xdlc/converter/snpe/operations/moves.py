"""Layers that move, choose or repeat elements."""

from __future__ import annotations

from xdlc.converter.snpe.inverse import Operation, ints, operation, u32
from xdlc.ir import b8, f32, i32, string
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.graph import NATIVE_PACKAGE

BILINEAR = 0
# Parameter of StridedSlice: attribute of the layer.
MASKS = {
    "begin_mask": "begin_mask",
    "end_mask": "end_mask",
    "shrink_axes": "shrink_axis_mask",
    "new_axes_mask": "new_axis_mask",
}


def _axis(node: Operation) -> int:
    """Return parameter ``axis``, which is the last one by default."""
    axis = int(node.op.param("axis", node.source.rank - 1))
    if not 0 <= axis < node.source.rank:
        raise node.problem(f"has axis {axis}, but the rank is {node.source.rank}")
    return axis


@operation("Concat")
def concat(node: Operation) -> None:
    """Make a layer Concat."""
    node.emit("Concat", node.op.inputs, {"axis": u32(_axis(node))})


@operation("Split")
def split(node: Operation) -> None:
    """Make a layer Slice, which lists where each output after the first begins."""
    points = [int(point) for point in node.table("split_index")]
    if len(points) != len(node.op.outputs) - 1:
        raise node.problem(f"has {len(points)} points for {len(node.op.outputs)} outputs")
    node.emit("Slice", [node.source], {"axis": i32(_axis(node)), "slice_points": ints(points)})


@operation("StridedSlice")
def strided_slice(node: Operation) -> None:
    """Make a layer StridedSlice."""
    ranges = node.table("ranges")
    columns = {
        name: ints([row[index] for row in ranges]) for index, name in enumerate(("begin", "end", "strides"))
    }
    masks = {attribute: i32(int(node.op.param(param, 0))) for param, attribute in MASKS.items()}
    node.emit("StridedSlice", [node.source], {**columns, **masks})


@operation("Reshape")
def reshape(node: Operation) -> None:
    """Make a layer Reshape: the output's shape says it all."""
    node.plain(*node.op.params)
    node.emit("Reshape", [node.source], {})


@operation("ResizeBilinear")
def resize(node: Operation) -> None:
    """Make a layer Scaling: the output's extents say how far."""
    node.plain("antialias")
    params = {
        "align_corners": b8(bool(node.op.param("align_corners", False))),
        "half_pixel_centers": b8(bool(node.op.param("half_pixel_centers", False))),
        "maintain_aspect_ratio": b8(False),
        "pad": f32(0.0),
        "resize_mode": u32(BILINEAR),
    }
    node.emit("Scaling", [node.source], params)


@operation("Argmax")
def arg_max(node: Operation) -> None:
    """Make a layer ArgMax of Argmax and the Cast behind it: the layer gives positions as real numbers."""
    cast = node.reader(node.output)
    if (
        cast is None
        or (cast.type, cast.package) != ("Cast", NATIVE_PACKAGE)
        or cast.outputs[0].dtype is not FLOAT32
    ):
        raise node.problem("gives integers; the layer gives real numbers, which one Cast must make of them")
    node.merged.append(cast)
    params = {
        "axis": u32(_axis(node)),
        "keep_dims": b8(bool(node.op.param("keep_dims", False))),
        "op": string("ARGMAX"),
    }
    node.emit("ArgMax", [node.source], params, outputs=cast.outputs)
