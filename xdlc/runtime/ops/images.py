"""Images: Resize, GridSample and RoiAlign."""

from __future__ import annotations

from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor
from xdlc.opdefs import args, sampling
from xdlc.runtime.builder import Builder
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import lowering

_NEAR = 64


def _choice(op: Op, name: str, names: tuple[str, ...]) -> str:
    number = int(op.param(name, 0))
    if not 0 <= number < len(names):
        raise ModelError(f"parameter {name!r} is {number}; valid values are 0 to {len(names) - 1}")
    return names[number]


def _lower(op: Op, b: Builder, mode: str, transformation: str, nearest: str = "floor", **attrs: Any) -> None:
    source, target = args.operand(op, 0), args.result(op)
    _check_ranks(source, target)
    order = channels_first(source.rank)
    sizes, shape = [target.shape[axis] for axis in order], [source.shape[axis] for axis in order]
    is_plane = not b.native and source.shape[-1] == 1  # of one channel, which no Transpose has to move
    value, whole = b.reshape(b.read(source), shape) if is_plane else b.read(source, order), list(sizes)
    is_guarded = not b.native and source.rank == 4 and mode != "nearest" and _follows_transpose(source)
    if is_guarded:
        value = b.reshape(value, [shape[0] * shape[1], 1, *shape[2:]])
        sizes = [sizes[0] * sizes[1], 1, *sizes[2:]]
    value = b.node(
        "Resize",
        [value, "", "", b.ints(*sizes)],
        mode=mode,
        coordinate_transformation_mode=transformation,
        nearest_mode=nearest if mode == "nearest" else None,
        **attrs,
    )
    value = b.reshape(value, whole) if is_guarded else value
    if is_plane:
        b.write(target, b.reshape(value, target.shape))
    else:
        b.write(target, value, order)


def _follows_transpose(tensor: Tensor) -> bool:
    """Return whether onnxruntime may move a near Transpose past a Resize.

    The Resize then has axes 1 and 3, which its kernels refuse; a Reshape stops the Transpose.
    """
    queue = [tensor]
    for each in queue:  # grows
        op = each.producer
        if op is not None and op.type == "Transpose":
            return True
        if op is not None and len(queue) < _NEAR:
            queue += [before for before in op.inputs if before is not None and not before.is_static]
    return False


def _check_ranks(source: Tensor, target: Tensor) -> None:
    if source.rank < 3 or source.rank != target.rank:
        raise ModelError(
            f"the op cannot resize {list(source.shape)} to {list(target.shape)}: ranks differ or are below 3"
        )


@lowering("Resize")
def resize(op: Op, b: Builder) -> None:
    """Lower to Resize with the modes of the parameters."""
    mode = _choice(op, "interpolation_mode", sampling.MODES)
    cubic = {"cubic_coeff_a": float(op.param("cubic_coeff", sampling.CUBIC))} if mode == "cubic" else {}
    _lower(
        op,
        b,
        mode,
        _choice(op, "transformation_mode", sampling.TRANSFORMS),
        _choice(op, "nearest_mode", sampling.ROUNDINGS),
        exclude_outside=int(bool(op.param("exclude_outside", False))),
        **cubic,
    )


def corners_of(op: Op) -> str:
    """Return how Resize ops map output positions, in ONNX's words."""
    if "transformation_mode" in op.params:  # left from a Resize that the vendor's writer renamed
        return _choice(op, "transformation_mode", sampling.TRANSFORMS)
    flags = (op.param(name, False) for name in ("align_corners", "half_pixel_centers"))
    return sampling.transform_of(*map(bool, flags))


@lowering("ResizeBilinear")
def resize_bilinear(op: Op, b: Builder) -> None:
    """Lower to a linear Resize."""
    _lower(op, b, "linear", corners_of(op), antialias=int(bool(op.param("antialias", False))))


@lowering("ResizeNearestNeighbor")
def resize_nearest(op: Op, b: Builder) -> None:
    """Lower to Resize, or to Gathers if Resize would pick other elements."""
    source, target = args.operand(op, 0), args.result(op)
    _check_ranks(source, target)
    transform = corners_of(op)
    dims = list(zip(source.shape, target.shape, strict=True))
    is_renamed = "nearest_mode" in op.params or "transformation_mode" in op.params
    if is_renamed or all(_picks_the_same(*pair, transform) for pair in dims[1:-1]):
        rounding = sampling.rounding_of(transform)
        if "nearest_mode" in op.params:
            rounding = _choice(op, "nearest_mode", sampling.ROUNDINGS)
        _lower(op, b, "nearest", transform, rounding)
        return
    value = b.read(source)
    for axis, (old, new) in enumerate(dims):
        if old != new and axis not in (0, source.rank - 1):
            places = map(int, sampling.picks(old, new, transform))
            value = b.node("Gather", [value, b.ints(*places)], axis=axis)
    b.write(target, value)


def _picks_the_same(n: int, m: int, transform: str) -> bool:
    """Return whether onnxruntime's float32 positions pick the op's elements."""
    places = sampling.positions(n, m, transform, dtype=numpy.float32)
    picks = sampling.rounded(places, n, sampling.rounding_of(transform))
    return numpy.array_equal(picks, sampling.picks(n, m, transform))


MODES = ("linear", "nearest")
PADDINGS = ("zeros", "border", "reflection")


@lowering("GridSample")
def grid_sample(op: Op, b: Builder) -> None:
    """Lower to GridSample."""
    source, grid = args.operand(op, 0), args.operand(op, 1)
    mode, padding = int(op.param("mode", 0)), int(op.param("padding_mode", 0))
    if mode >= len(MODES) or padding >= len(PADDINGS):
        raise ModelError(f"mode is {mode} and padding_mode is {padding}; valid values are 0 to 1 and 0 to 2")
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
        raise b.unsupported("the host needs equal ratios and numbers of samples for height and width")
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
