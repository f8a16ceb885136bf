"""Handlers of custom operators, suppressed boxes, spectra and random numbers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.nhwc import detection, images, spectra, windows
from xdlc.converter.nhwc.gathering import gather
from xdlc.converter.nhwc.shapes import cast, dims, ints, known, number, permuted, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.random_inputs import draw_outside
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import dtype_of, handler
from xdlc.converter.values import SequenceValue, Value
from xdlc.ir.dtype import FLOAT32

_OPTIONS = "custom_options"
_PADDINGS = {1: "SAME", 2: "VALID"}


@handler("DISPATCH_OP", "NPU_OP", wraps=False)
def _compiled(node: Node, g: Operators) -> Value:
    raise node.problem(
        "contains a part compiled for a certain chip, which is not supported",
        "convert the .tflite file before compilation",
    )


# ------------------------------------------------------------------ detections


@handler(
    "TFLite_Detection_PostProcess",
    ignores=("_output_quantized", "_support_output_type_float_in_quantized_op"),
)
def _detections(node: Node, g: Operators, codes: Value, scores: Value, anchors: Value) -> Sequence[Value]:
    most, classes = int(node.attr("max_detections", 0)), int(node.attr("num_classes", 0))
    shape = dims(scores)
    if len(shape) != 3 or dims(codes) != (1, shape[1], 4) or dims(anchors) != (shape[1], 4) or shape[0] != 1:
        raise node.invalid(f"boxes {list(codes.shape)}, scores {list(shape)}, anchors {list(anchors.shape)}")
    first = shape[2] - classes  # 1 if the background is a class
    if first not in (0, 1) or classes < 1 or not 0 < most <= 1 << 16:
        raise node.invalid(f"{shape[2]} scores for {classes} classes, {most} detections")
    if first:
        limits = [vector(g, [number]) for number in (1, shape[2], 2)]
        scores = g("Slice", [scores, *limits])
    overlap = float(node.attr("nms_iou_threshold", 0.0))
    # The canonical operator drops scores that equal the threshold.
    threshold = float(np.nextafter(np.float32(node.attr("nms_score_threshold", 0.0)), np.float32(-np.inf)))
    boxes = _corners(node, g, codes, anchors)
    per_anchor, per_class = (
        int(node.attr(name, default))
        for name, default in (("max_classes_per_detection", 0), ("detections_per_class", 100))
    )
    if node.attr("use_regular_nms", False):
        table = reshape(g, boxes, (1, shape[1], 1, 4))
        found, best, kinds, count = detection.combined(
            g, table, scores, per_class, most, overlap, threshold, clips=False
        )
        return [found, kinds, best, cast(g, count, FLOAT32)]
    if not 0 < per_anchor <= 64:
        raise node.invalid(f"{per_anchor} classes per detection")
    return _fast(g, boxes, reshape(g, scores, (shape[1], classes)), most, per_anchor, overlap, threshold)


def _corners(node: Node, g: Operators, codes: Value, anchors: Value) -> Value:
    """Return boxes [n, 4] y1, x1, y2, x2 of codes y, x, h, w relative to anchors."""
    scales = [float(node.attr(f"{axis}_scale", 1.0)) for axis in "yxhw"]
    if 0 in scales:
        raise node.invalid("a scale of boxes is 0")
    count = codes.shape[1]
    codes = g("Div", [reshape(g, codes, (count, 4)), g.builder.const(np.asarray(scales, np.float32))])
    places, sizes = g.apply("Split", [codes, vector(g, [2, 2])], {"axis": 1}, 2)
    at, of = g.apply("Split", [anchors, vector(g, [2, 2])], {"axis": 1}, 2)
    centre = g("Add", [g("Mul", [places, of]), at])
    half = g("Mul", [g("Mul", [g("Exp", [sizes]), of]), number(g, of, 0.5)])
    return g("Concat", [g("Sub", [centre, half]), g("Add", [centre, half])], axis=1)


def _fast(
    g: Operators, boxes: Value, scores: Value, most: int, per_anchor: int, overlap: float, threshold: float
) -> list[Value]:
    """Return detections with suppression across classes.

    Each has the ``per_anchor`` best classes of its anchor.
    """
    kept = min(per_anchor, scores.shape[1])
    best, kinds = g.apply("TopK", [scores, vector(g, [kept])], {"axis": 1}, 2)
    leading = g("Slice", [best, vector(g, [0]), vector(g, [1]), vector(g, [1])])
    chosen = detection.suppressed(g, boxes, reshape(g, leading, (scores.shape[0],)), most, overlap, threshold)
    chosen, count = detection.padded_choice(g, chosen, most)
    is_found = g("Less", [g.builder.const(np.arange(most, dtype=np.int32)), count])
    is_found = g("Unsqueeze", [is_found, vector(g, [1])])

    def of_chosen(table: Value) -> Value:
        rows = gather(g, table, positions(g, chosen), 0)
        return g("Where", [is_found, rows, number(g, rows, 0)])

    def spread(table: Value) -> Value:
        pads = vector(g, [0, 0, 0, per_anchor - kept])
        found = g("Pad", [table, pads]) if per_anchor > kept else table
        return reshape(g, found, (1, most * per_anchor))

    corners = g("Tile", [of_chosen(boxes), vector(g, [1, kept])])
    if per_anchor > kept:
        corners = g("Pad", [corners, vector(g, [0, 0, 0, 4 * (per_anchor - kept)])])
    return [
        reshape(g, corners, (1, most * per_anchor, 4)),
        spread(of_chosen(cast(g, kinds, FLOAT32))),
        spread(of_chosen(best)),
        reshape(g, cast(g, count, FLOAT32), (1,)),
    ]


# ------------------------------------------------------------------ MediaPipe


def _numbers(node: Node, names: str) -> dict[str, Any]:
    """Return the options of an operator that are a C structure of int32 members.

    Args:
        names: Names of the first members.

    Raises:
        ModelError: If the structure is too short, or holds an unknown padding or a size below 1.
    """
    data, wanted = node.attr(_OPTIONS, b""), names.split()
    if not isinstance(data, bytes) or len(data) < 4 * len(wanted):
        raise node.invalid(f"its options are not {len(wanted)} numbers")
    found: dict[str, Any] = dict(zip(wanted, struct.unpack_from(f"<{len(wanted)}i", data), strict=True))
    if found["padding"] not in _PADDINGS or min(found.values()) < 1:
        raise node.invalid(f"its options are {found}")
    return found | {"padding": _PADDINGS[found["padding"]]}


@handler("Convolution2DTransposeBias")
def _transpose_conv(node: Node, g: Operators, x: Value, weight: Value, bias: Value) -> Value:
    params = _numbers(node, "padding stride_w stride_h")
    strides, (height, width) = [params["stride_h"], params["stride_w"]], dims(x, (1, 2))
    kernel = dims(weight, (1, 2))  # [O, H, W, I]
    sizes = [size * step for size, step in zip((height, width), strides, strict=True)]
    if params["padding"] == "VALID":
        sizes = [size + max(0, k - step) for size, k, step in zip(sizes, kernel, strides, strict=True)]
    weight = permuted(g, weight, (1, 2, 0, 3))
    return windows.conv_transpose(g, x, weight, bias, sizes=sizes, strides=strides, padding=params["padding"])


_POOL = "padding stride_w stride_h filter_w filter_h"


@handler("MaxPoolingWithArgmax2D")
def _pool_with_places(node: Node, g: Operators) -> list[Value]:
    x, params = node.required(0), _numbers(node, _POOL)
    kernel, strides = ([params[f"{kind}_{axis}"] for axis in "hw"] for kind in ("filter", "stride"))
    _, height, width, channels = dims(x)
    most, places = windows.max_pool_with_places(
        g, x, kernel=kernel, strides=strides, padding=params["padding"]
    )
    begin = [
        before for before, _ in windows.amounts(params["padding"], [height, width], kernel, strides, [1, 1])
    ]
    # Places count within the window: those of its first cell are subtracted.
    rows = g("Div", [places, number(g, places, width * channels)])
    columns = g("Mod", [g("Div", [places, number(g, places, channels)]), number(g, places, width)])
    starts = [
        np.arange(size, dtype=np.int64) * step - before
        for size, step, before in zip(dims(most, (1, 2)), strides, begin, strict=True)
    ]
    row = g("Sub", [rows, g.builder.const(starts[0].reshape(1, -1, 1, 1))])
    column = g("Sub", [columns, g.builder.const(starts[1].reshape(1, 1, -1, 1))])
    found = g("Add", [g("Mul", [row, number(g, row, kernel[1])]), column])
    return [most, cast(g, found, dtype_of(node, 1))]


@handler("MaxUnpooling2D", "LiteRtMaxUnpooling2D")
def _unpool(node: Node, g: Operators, x: Value, places: Value) -> Value:
    params = _numbers(node, _POOL)
    kernel, strides = ([params[f"{kind}_{axis}"] for axis in "hw"] for kind in ("filter", "stride"))
    batch, height, width, channels = dims(x)
    if any(size > step for size, step in zip(kernel, strides, strict=True)) or strides[0] * strides[1] > 64:
        raise node.problem(f"unpooling of windows {kernel} with strides {strides} is not supported")
    if places.dtype.is_float:
        places = g("Floor", [places])
    zero = number(g, x, 0)
    parts = []
    for row in range(strides[0]):
        for column in range(strides[1]):
            is_in = row < kernel[0] and column < kernel[1]
            here = g("Equal", [places, number(g, places, row * kernel[1] + column if is_in else -1)])
            parts.append(g("Where", [here, x, zero]))
    joined = g("Concat", parts, axis=3) if len(parts) > 1 else parts[0]
    if strides[0] == strides[1]:
        unpooled = images.depth_to_space(g, joined, strides[0]) if strides[0] > 1 else joined
    else:
        cells = reshape(g, joined, (batch, height, width, *strides, channels))
        unpooled = permuted(g, cells, (0, 1, 3, 2, 4, 5))
        unpooled = reshape(g, unpooled, (batch, height * strides[0], width * strides[1], channels))
    if params["padding"] == "SAME" or kernel == strides:
        return unpooled
    ends = [(n - 1) * step + size for n, step, size in zip((height, width), strides, kernel, strict=True)]
    return g("Slice", [unpooled, vector(g, [0, 0]), vector(g, ends), vector(g, [1, 2])])


@handler("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def _suppressed(node: Node, g: Operators, boxes: Value, scores: Value, *given: Value) -> list[Value]:
    limits = [float(known(value, "a limit").reshape(-1)[0]) for value in given]
    count, overlap, threshold = int(limits[0]), limits[1], limits[2]
    # LiteRT drops boxes at the limit too, others only those above it: at 0 it keeps the best box alone.
    overlap = float(np.nextafter(np.float32(overlap), np.float32(-1))) if overlap > 0 else -1.0
    if node.type.endswith("V5") and limits[3] > 0 and count:
        return list(detection.softly_suppressed(g, boxes, scores, count, overlap, threshold, limits[3]))
    most = min(count, 1) if overlap < 0 else count
    chosen = detection.suppressed(g, boxes, scores, most, max(overlap, 0.0), threshold)
    padded, valid = detection.padded_choice(g, chosen, count)
    if node.type.endswith("V4"):
        return [padded, valid]
    is_valid = g("Less", [g.builder.const(np.arange(count, dtype=np.int32)), valid])
    found = g("Where", [is_valid, g("Gather", [scores, padded], axis=0), number(g, scores, 0)])
    return [padded, found, valid]


@handler("RFFT2D")
def _transform(node: Node, g: Operators, x: Value, sizes: Value) -> Any:
    return [SequenceValue(tuple(spectra.forward(g, x, ints(sizes, "the lengths"))))]


@handler("REAL", "IMAG", "COMPLEX_ABS", wraps=False)
def _parts(node: Node, g: Operators) -> Value:
    x: Any = node.required(0)
    if not isinstance(x, SequenceValue) or len(x.elements) != 2:
        raise node.invalid("its input is not complex")
    found = spectra.Complex(*x.elements)
    if node.type == "COMPLEX_ABS":
        return spectra.magnitude(g, found)
    return found.real if node.type == "REAL" else found.imag


@handler("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL")
def _random(node: Node, g: Operators, *operands: Value) -> Value:
    seeds = [int(node.attr(name, 0)) for name in ("seed", "seed2")]
    seed = {"seed": float(seeds[0] ^ seeds[1])} if any(seeds) else {}
    if not g.random_inputs:
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} draws other random numbers than TensorFlow Lite: {draw_outside()}"
        )
    if node.type == "MULTINOMIAL":
        (count,) = ints(operands[1], "the number of samples")
        return cast(g, g("Multinomial", [operands[0]], sample_size=count, dtype=6, **seed), dtype_of(node))
    type = "RandomUniform" if node.type == "RANDOM_UNIFORM" else "RandomNormal"
    return g(type, [], shape=ints(operands[0], "the shape"), dtype=1, **seed)
