"""Images: Resize, GridSample and RoiAlign."""

from __future__ import annotations

from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.shapes.images import picks
from xdlc.runtime.builder import Builder
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import lowering

# Numbers of the parameters: OpDef of Resize.
TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
INTERPOLATIONS = ("nearest", "linear", "cubic")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
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
    """Return how Resize ops map output positions, in ONNX's words."""
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
    """Lower to Resize, or to Gathers if Resize would pick other elements."""
    flags = (bool(op.param("align_corners", False)), bool(op.param("half_pixel_centers", False)))
    source, target = args.operand(op, 0), args.result(op)
    _check_ranks(source, target)
    dims = list(zip(source.shape, target.shape, strict=True))
    is_renamed = "nearest_mode" in op.params or "transformation_mode" in op.params
    if is_renamed or all(_picks_the_same(*pair, *flags) for pair in dims[1:-1]):
        corners = corners_of(op)
        nearest = "floor" if corners == "asymmetric" else "round_prefer_ceil"
        chosen = _choice(op, "nearest_mode", NEAREST) if "nearest_mode" in op.params else nearest
        _lower(op, b, "nearest", corners, chosen)
        return
    value = b.read(source)
    for axis, (held, wanted) in enumerate(dims):
        if held != wanted and axis not in (0, source.rank - 1):
            places = map(int, picks(held, wanted, *flags))
            value = b.node("Gather", [value, b.ints(*places)], axis=axis)
    b.write(target, value)


def _picks_the_same(n: int, m: int, align: bool, half: bool) -> bool:
    """Return whether onnxruntime's float32 positions pick the op's elements."""
    import numpy

    exact = picks(n, m, align, half)
    out, one, point = numpy.arange(m, dtype=numpy.float32), numpy.float32(1), numpy.float32(0.5)
    if align:
        places = numpy.floor(out * (n - one) / (max(m, 2) - one) + point)
    elif half:
        places = numpy.floor((out + point) / (m / numpy.float32(n)) - point + point)
    else:
        places = numpy.floor(out / (m / numpy.float32(n)))
    return bool(numpy.array_equal(places.clip(0, n - 1), exact))


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
