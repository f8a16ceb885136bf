"""Handlers of custom operators, and of variables' handles."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from xdlc.converter.functions import blocks, windows
from xdlc.converter.functions.shapes import dims, number, permuted, reshape, vector
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import dtype_of, handler
from xdlc.converter.values import Value

_OPTIONS = "custom_options"
_PADDINGS = {1: "SAME", 2: "VALID"}


@handler("DISPATCH_OP", "NPU_OP", wraps=False)
def _compiled(node: Node, g: Operators) -> Value:
    raise node.problem(
        "the operator contains code compiled for a chip, which xdlc does not support",
        "convert the .tflite file before compilation",
    )


@handler("VAR_HANDLE", "ASSIGN_VARIABLE", "CALL_ONCE", ignores=("container", "shared_name"), wraps=False)
def _variable(node: Node, _g: Operators) -> Value:
    raise node.problem(
        "xdlc does not support a variable's handle as an input of a sub-graph or resource operator",
        "pass the variable's value, or read and assign it in the main graph only",
    )


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
        raise node.invalid(f"the options of the operator have fewer than {len(wanted)} numbers")
    found: dict[str, Any] = dict(zip(wanted, struct.unpack_from(f"<{len(wanted)}i", data), strict=True))
    if found["padding"] not in _PADDINGS or min(found.values()) < 1:
        raise node.invalid(f"the options of the operator are not valid: {found}")
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
    cell = Term(g, places) / channels
    starts = [
        np.arange(size, dtype=np.int64) * step - before
        for size, step, before in zip(dims(most, (1, 2)), strides, begin, strict=True)
    ]
    rows = Term(g, places) / (width * channels) - g.builder.const(starts[0].reshape(1, -1, 1, 1))
    columns = cell("Mod", width) - g.builder.const(starts[1].reshape(1, 1, -1, 1))
    return [most, (rows * kernel[1] + columns).to(dtype_of(node, 1)).value]


@handler("MaxUnpooling2D", "LiteRtMaxUnpooling2D")
def _unpool(node: Node, g: Operators, x: Value, places: Value) -> Value:
    params = _numbers(node, _POOL)
    kernel, strides = ([params[f"{kind}_{axis}"] for axis in "hw"] for kind in ("filter", "stride"))
    batch, height, width, channels = dims(x)
    if any(size > step for size, step in zip(kernel, strides, strict=True)) or strides[0] * strides[1] > 64:
        raise node.problem(f"xdlc does not support unpooling of windows {kernel} with strides {strides}")
    if places.dtype.is_float:
        places = g("Floor", [places])
    parts, zero = [], number(g, x, 0)
    for row in range(strides[0]):
        for column in range(strides[1]):
            is_in = row < kernel[0] and column < kernel[1]
            here = Term(g, places).same(row * kernel[1] + column if is_in else -1)
            parts.append(here.where(x, zero).value)
    joined = g("Concat", parts, axis=3) if len(parts) > 1 else parts[0]
    if strides[0] == strides[1]:
        unpooled = blocks.depth_to_space(g, joined, strides[0]) if strides[0] > 1 else joined
    else:
        cells = reshape(g, joined, (batch, height, width, *strides, channels))
        unpooled = permuted(g, cells, (0, 1, 3, 2, 4, 5))
        unpooled = reshape(g, unpooled, (batch, height * strides[0], width * strides[1], channels))
    if params["padding"] == "SAME" or kernel == strides:
        return unpooled
    ends = [(n - 1) * step + size for n, step, size in zip((height, width), strides, kernel, strict=True)]
    return g("Slice", [unpooled, [0, 0], vector(g, ends), [1, 2]])
