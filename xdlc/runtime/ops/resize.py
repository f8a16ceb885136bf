"""Resizing of images to the output's size."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor
from xdlc.opdefs import args, resize_places
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
    _check_ranks(source, target)
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


def _check_ranks(source: Tensor, target: Tensor) -> None:
    if source.rank < 3 or source.rank != target.rank:
        raise ModelError(f"cannot resize {list(source.shape)} to {list(target.shape)}")


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
    """Lower to Gathers of the elements that the op picks; to a Resize if it is one that was renamed."""
    if "nearest_mode" in op.params or "transformation_mode" in op.params:
        corners = corners_of(op)
        nearest = "floor" if corners == "asymmetric" else "round_prefer_ceil"
        chosen = _choice(op, "nearest_mode", NEAREST) if "nearest_mode" in op.params else nearest
        _lower(op, b, "nearest", corners, chosen)
        return
    source, target = args.operand(op, 0), args.result(op)
    _check_ranks(source, target)
    value = b.read(source)
    flags = (bool(op.param("align_corners", False)), bool(op.param("half_pixel_centers", False)))
    for axis, (held, wanted) in enumerate(zip(source.shape, target.shape, strict=True)):
        if held != wanted and axis not in (0, source.rank - 1):
            places = map(int, resize_places.picks(held, wanted, *flags))
            value = b.node("Gather", [value, b.ints(*places)], axis=axis)
    b.write(target, value)
