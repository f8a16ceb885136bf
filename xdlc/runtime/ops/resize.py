"""Resizing of images to the output's size."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import lowering

# Numbers of the parameters: OpDef of Resize.
TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
INTERPOLATIONS = ("nearest", "linear", "cubic")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _choice(op: Op, name: str, names: tuple[str, ...]) -> str:
    number = int(op.param(name, 0))
    if not 0 <= number < len(names):
        raise ModelError(f"parameter {name!r} is {number}, known are 0 to {len(names) - 1}")
    return names[number]


def _lower(op: Op, b: Builder, mode: str, transformation: str, nearest: str = "floor", **attrs: Any) -> None:
    source, target = args.operand(op, 0), args.result(op)
    if source.rank < 3 or source.rank != target.rank:
        raise ModelError(f"cannot resize {list(source.shape)} to {list(target.shape)}")
    order = channels_first(source.rank)
    sizes = b.ints(*(target.shape[axis] for axis in order))
    value = b.node(
        "Resize",
        [b.read(source, order), "", "", sizes],
        mode=mode,
        coordinate_transformation_mode=transformation,
        nearest_mode=nearest if mode == "nearest" else None,
        **attrs,
    )
    b.write(target, value, order)


@lowering("Resize")
def resize(op: Op, b: Builder) -> None:
    """Lower to Resize with the modes of the parameters."""
    mode = _choice(op, "interpolation_mode", INTERPOLATIONS)
    cubic = {"cubic_coeff_a": float(op.param("cubic_coeff", -0.75))} if mode == "cubic" else {}
    _lower(
        op,
        b,
        mode,
        _choice(op, "transformation_mode", TRANSFORMATIONS),
        _choice(op, "nearest_mode", NEAREST),
        exclude_outside=int(bool(op.param("exclude_outside", False))),
        **cubic,
    )


def corners_of(op: Op) -> str:
    """Return how ResizeBilinear and ResizeNearestNeighbor map places of the output, in ONNX's words."""
    if "transformation_mode" in op.params:  # left from a Resize that the vendor's writer renamed
        return _choice(op, "transformation_mode", TRANSFORMATIONS)
    if op.param("align_corners", False):
        return "align_corners"
    return "half_pixel" if op.param("half_pixel_centers", False) else "asymmetric"


@lowering("ResizeBilinear")
def resize_bilinear(op: Op, b: Builder) -> None:
    """Lower to a linear Resize."""
    _lower(op, b, "linear", corners_of(op), antialias=int(bool(op.param("antialias", False))))


@lowering("ResizeNearestNeighbor")
def resize_nearest(op: Op, b: Builder) -> None:
    """Lower to a nearest Resize: rounded with aligned corners, else the element that holds the point."""
    corners = corners_of(op)
    if "nearest_mode" in op.params:
        nearest = _choice(op, "nearest_mode", NEAREST)
    else:
        nearest = "floor" if corners == "asymmetric" else "round_prefer_ceil"
    _lower(op, b, "nearest", corners, nearest)
