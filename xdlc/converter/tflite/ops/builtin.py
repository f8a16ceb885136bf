"""Handlers of builtin operators whose rules are LiteRT's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xdlc.converter.functions import elementwise as formulas
from xdlc.converter.functions import normalization, products, scatter, slicing, windows
from xdlc.converter.functions.quantization import rounded
from xdlc.converter.functions.reduce import window_reduced
from xdlc.converter.functions.shapes import ints, permuted, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.flex import renamed
from xdlc.converter.tflite.ops.renamed import PADDING, pool_sizes, sizes
from xdlc.converter.tflite.quantized import is_stored
from xdlc.converter.tflite.registry import handler, stated_dims
from xdlc.converter.tflite.tensors import PACKED, reals
from xdlc.converter.values import Value

_FORMULAS: dict[str, Callable[..., Value]] = {
    "DILATE": lambda g, x, steps, fill: slicing.spread(g, x, ints(steps, "the dilations"), fill),
    "DYNAMIC_UPDATE_SLICE": slicing.updated,
    "HARD_SWISH": lambda g, x: g("HardSwish", [x]),
    "L2_NORMALIZATION": lambda g, x: normalization.l2_normalized(g, x, [-1], 1e-12),
    "PRELU": lambda g, x, slope: g("PRelu", [x, slope]),
    "RELU_0_TO_1": lambda g, x: formulas.clipped(g, x, 0, 1),
    "RELU_N1_TO_1": lambda g, x: formulas.clipped(g, x, -1, 1),
}


@handler(*_FORMULAS)
def _formula(node: Node, g: Operators, *values: Value) -> Value:
    return _FORMULAS[node.type](g, *values)


@handler("SOFTMAX")
def _softmax(node: Node, g: Operators, x: Value) -> Value:
    return normalization.softmax(g, x, beta=node.attr("beta"))


@handler("QUANTIZE", "DEQUANTIZE")
def _recode(node: Node, g: Operators) -> Value:
    # The registry applies other encodings than those of 2 and 4 bits.
    value = node.required(0)
    if not (value.dtype.is_float and value.dtype.bits == 32):
        value = g("Cast", [value], to=1)
    info = node.message.outputs[0]
    bits, given = PACKED.get(info.dtype.name), info.quantization
    if bits is None or given is None or given.scales.size > 1:
        return value
    least = -(1 << bits - 1) if info.dtype.name.startswith("int") else 0
    scale, zero = given.scales.reshape(()), given.zero_points.reshape(())
    ends = [float((end - zero) * scale) for end in (least, least + (1 << bits) - 1)]
    held = np.int8 if least else np.uint8
    return rounded(g, formulas.clipped(g, value, *ends), scale, zero.astype(held))


_GELU_APART = 1e-3
"""Least step of an encoding to which both forms of Gelu, 5e-4 apart, are rounded alike, or one step apart."""


@handler("GELU")
def _gelu(node: Node, g: Operators) -> Value:
    result = node.message.outputs[0]
    rounds = is_stored(result) and result.quantization.scales[0] > _GELU_APART  # QNN has the exact form
    form = "tanh" if node.attr("approximate") and not rounds else "none"
    return g("Gelu", [node.required(0)], approximate=form)


@handler("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE")
def _transpose_conv(node: Node, g: Operators) -> Value:
    shape, weight, x = node.required(0), node.required(1), node.required(2)
    axes = "hw" if node.type == "TRANSPOSE_CONV" else "dhw"
    if len(axes) == 2:
        weight = permuted(g, weight, (1, 2, 0, 3))  # [O, H, W, I]
    stated = stated_dims(node)
    output_shape = shape.numpy().reshape(-1).tolist() if shape.is_static else stated
    if output_shape is None or len(output_shape) != len(axes) + 2:
        raise node.problem("the output shape (input 0) must be constant, but is computed")
    batches = (x.shape[0], node.message.inputs[2].shape[0])  # now, and in the file
    if output_shape[0] not in batches or output_shape[-1] != weight.shape[-2]:
        raise node.invalid(
            f"output shape {output_shape} does not fit {list(x.shape)} and weights of "
            f"{weight.shape[-2]} channels"
        )
    return windows.conv_transpose(
        g,
        x,
        weight,
        node.input(3),
        sizes=[int(size) for size in output_shape[1:-1]],
        strides=sizes("stride_%s", axes)(node)[1:-1],
        padding=PADDING(node),
        dilations=[node.attr(f"dilation_{axis}factor", 1) for axis in axes],
    )


@handler("L2_POOL_2D")
def _l2_pool(node: Node, g: Operators, x: Value) -> Value:
    kernel, strides = (read(node)[1:-1] for read in (pool_sizes, sizes("stride_%s")))
    return windows.l2_pool(g, x, kernel=kernel, strides=strides, padding=PADDING(node))


@handler("FULLY_CONNECTED", ignores=("quant_spec",))
def _fully_connected(node: Node, g: Operators) -> Value:
    if node.attr("weights_format"):
        raise node.problem("xdlc does not support shuffled weights", "convert the model with default weights")
    keep = bool(node.attr("keep_num_dims"))
    return products.fully_connected(g, node.required(0), node.required(1), node.input(2), keep_dims=keep)


# ------------------------------------------------------------------ shapes

_WINDOWS = {1: "Add", 2: "Mul", 3: "Min", 4: "Max", 5: "And", 6: "Or"}
_SCATTER = renamed("ScatterNd").function


@handler("RESHAPE")
def _reshape(node: Node, g: Operators) -> Value:
    x, shape = node.required(0), node.input(1)
    option = node.attr("new_shape")
    if shape is None:
        shape = vector(g, option if option is not None else stated_dims(node) or ())
    if shape.is_static:
        dims = ints(shape, "the shape")
        if dims == [0] and not x.is_dynamic and x.size == 1:  # as old files have scalars
            dims = []
        product = math.prod(size for size in dims if size != -1)
        if not x.is_dynamic and (x.size % max(product, 1) if -1 in dims else x.size != product):
            raise node.invalid(
                f"an input {list(x.shape)} and the constant shape {dims} differ in the number of elements"
            )
        return g("Reshape", [x, vector(g, dims)], allowzero=int(not x.is_dynamic))
    stated = stated_dims(node)
    if stated is not None and not x.is_dynamic and math.prod(stated) == x.size:
        return reshape(g, x, stated)
    return g("Reshape", [x, positions(g, shape)], allowzero=int(not x.is_dynamic))


@handler("SCATTER_ND")
def _scatter_nd(node: Node, g: Operators, indices: Value, updates: Value, shape: Value) -> Any:
    quantization = node.message.outputs[0].quantization
    is_encoded = quantization is not None and quantization.scales.size == 1
    if is_encoded and indices.is_static and indices.rank and indices.size:
        places = indices.numpy().reshape(-1, indices.shape[-1])
        if len(np.unique(places, axis=0)) == len(places):  # LiteRT's kernel fills with the integer 0
            zero = reals(np.zeros((), np.int8), quantization).item()
            base = scatter.full(g, ints(shape, "the shape"), zero, updates.dtype)
            return scatter.scatter_nd(g, base, indices, updates)
    return _SCATTER(node, g)


@handler("REDUCE_WINDOW")
def _reduce_window(node: Node, g: Operators, x: Value, start: Value, *sizes: Value) -> Value:
    function = node.attr("reduce_function")
    if function not in _WINDOWS or len(sizes) != 3:
        raise node.problem(f"xdlc does not support the reduction {function} of windows")
    kernel, strides, dilations = (ints(value, "the window") for value in sizes)
    return window_reduced(g, _WINDOWS[function], x, start, kernel, strides, dilations)
