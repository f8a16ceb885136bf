"""Dense layers, embeddings, merged inputs, and layers without effect at inference."""

from __future__ import annotations

from xdlc.converter.functions.normalization import l2_normalized
from xdlc.converter.functions.products import dense as product
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import axis_of, cast, dims, permuted
from xdlc.converter.keras.ops.activations import activated
from xdlc.converter.keras.registry import (
    as_float,
    batched,
    handler,
    inputs,
    moved,
    number_of,
    only_input,
    required_weight,
    weight,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32, INT64

_NOTHING = """
Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D GaussianNoise GaussianDropout AlphaDropout
ActivityRegularization Identity StochasticDepth
"""
_AUGMENTING = """
Flip Rotation Zoom Translation Contrast Brightness Hue Saturation Sharpness Shear Grayscale ColorJitter
ColorDegeneration Posterization Invert Erasing Perspective GaussianBlur ElasticTransform
"""
_OPTIONS = """
rate noise_shape stddev l1 l2 data_format mode factor fill_mode fill_value interpolation value_range
height_factor width_factor lower upper scale x_factor y_factor brightness_factor contrast_factor
saturation_factor hue_factor kernel_size sigma alpha bounding_box_format mask drop_path_rate
"""


@handler(*_NOTHING.split(), *(f"Random{name}" for name in _AUGMENTING.split()), ignores=_OPTIONS.split())
def nothing(node: Node, g: Operators) -> Value:
    """Return the input: the layer has an effect only in training."""
    x = only_input(node)
    if node.attr("training") is True:
        g.context.diagnostics.notices.append(
            f"layer {node.own_name!r} runs with training=True, which is random in Keras. In the DLC "
            "the layer returns its input"
        )
    return g("Identity", [as_float(g, x) if node.type.startswith("Random") else x])


@handler("Dense", ignores=("units", "mask"))
def dense(node: Node, g: Operators) -> Value:
    """Apply a product with a matrix, and an activation."""
    x, kernel = as_float(g, only_input(node)), required_weight(node, "kernel", 2)
    bias = weight(node, "bias")
    node.attr("use_bias")
    if x.shape[-1] != kernel.shape[0]:
        raise node.invalid(f"an input of {x.shape[-1]} features does not fit weights {list(kernel.shape)}")
    if x.rank == 2:
        made = product(g, x, permuted(g, kernel, (1, 0)), bias)
    else:
        made = g("MatMul", [x, kernel])
        made = made if bias is None else g("Add", [made, bias])
    return activated(node, g, made)


@handler("LayerScale", ignores=("init_values", "projection_dim"))
def layer_scale(node: Node, g: Operators) -> Value:
    """Multiply by a weight for each channel (keras.applications.ConvNeXt)."""
    return g("Mul", [as_float(g, only_input(node)), required_weight(node, "gamma")])


@handler("CustomScaleLayer")
def scaled_sum(node: Node, g: Operators) -> Value:
    """Add a scaled tensor to another (keras.applications.InceptionResNetV2)."""
    first, second = (as_float(g, value) for value in inputs(node))
    return g("Add", [first, g("Mul", [second, number_of(node, "scale")])])


@handler("EinsumDense", ignores=("output_shape", "bias_axes"))
def einsum_dense(node: Node, g: Operators) -> Value:
    """Apply an einsum with weights, and an activation."""
    equation = str(node.attr("equation")).replace(" ", "")
    made = g("Einsum", [as_float(g, only_input(node)), required_weight(node, "kernel")], equation=equation)
    bias = weight(node, "bias")
    return activated(node, g, made if bias is None else g("Add", [made, bias]))


@handler("Embedding", ignores=("input_dim", "output_dim", "mask_zero", "sparse"))
def embedding(node: Node, g: Operators) -> Value:
    """Look up rows of a table."""
    indices, table = only_input(node), required_weight(node, "embeddings", 2)
    if indices.dtype not in (INT32, INT64):
        indices = cast(g, indices, INT32)
    return g("Gather", [table, indices], axis=0)


@handler("Embedding", domain="mask", ignores=("input_dim", "output_dim", "mask_zero", "weights"))
def embedding_mask(node: Node, g: Operators) -> Value:
    """Return which indices are not 0."""
    indices = only_input(node)
    return g("Not", [g("Equal", [indices, 0])])


@handler("Masking")
def masking(node: Node, g: Operators) -> Value:
    """Set the steps to 0 all of whose elements have the mask's value."""
    x = as_float(g, only_input(node))
    return g("Mul", [x, _differing(node, g, x, keep=True)])


@handler("Masking", domain="mask")
def masking_mask(node: Node, g: Operators) -> Value:
    """Return which steps have an element of another value than the mask's."""
    found = _differing(node, g, as_float(g, only_input(node)), keep=False)
    return g("Greater", [found, 0])


def _differing(node: Node, g: Operators, x: Value, *, keep: bool) -> Value:
    """Return 1 for steps with an element other than the mask's value, else 0."""
    differs = g("Not", [g("Equal", [x, number_of(node, "mask_value", 0.0)])])
    return reduced(g, "Max", as_float(g, differs), [x.rank - 1], keep=keep)


@handler("TimeDistributed")
def time_distributed(node: Node, g: Operators) -> Value:
    """Move the steps of sequences into the batch, or back out of it."""
    x = only_input(node)
    if node.attr("part") == "folded":
        return g("Reshape", [x, [-1, *dims(x, range(2, x.rank))]])
    (steps,) = dims(node.required(1), [1])
    return g("Reshape", [x, [-1, steps, *dims(x, range(1, x.rank))]])


_CHAINS = {"Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Maximum": "Max", "Minimum": "Min"}


def _of_one_type(node: Node, g: Operators) -> list[Value]:
    values = inputs(node)
    if any(value.dtype is not values[0].dtype for value in values):
        return [as_float(g, value) for value in values]
    return values


@handler(*_CHAINS, "Average", ignores=("mask",))
def merged(node: Node, g: Operators) -> Value:
    """Combine tensors element-wise; lower ranks gain axes after the batch."""
    values = _of_one_type(node, g)
    rank = max(value.rank for value in values)
    values = [
        g("Unsqueeze", [value, range(1, 1 + rank - value.rank)]) if value.rank < rank else value
        for value in values
    ]
    total = values[0]
    for value in values[1:]:
        total = g(_CHAINS.get(node.type, "Add"), [total, value])
    if node.type != "Average":
        return total
    return g("Mul", [as_float(g, total), 1 / len(values)])


@handler("Concatenate", ignores=("mask",))
def concatenate(node: Node, g: Operators) -> Value:
    """Put tensors side by side."""
    values = _of_one_type(node, g)
    axis = axis_of(int(node.attr("axis", -1)), values[0].rank)
    return g("Concat", values, axis=axis) if len(values) > 1 else values[0]


@handler("Dot", ignores=("mask",))
def dot(node: Node, g: Operators) -> Value:
    """Sum products along an axis of each of two tensors, example by example."""
    x, y = (as_float(g, value) for value in inputs(node))
    given = node.attr("axes")
    pair = given if isinstance(given, list) else [given, given]
    if len(pair) != 2 or not all(type(axis) is int for axis in pair):
        raise node.invalid(f"the axes are not valid: {given!r:.40}")
    first, second = axis_of(pair[0], x.rank), axis_of(pair[1], y.rank)
    if node.attr("normalize", False):
        x, y = l2_normalized(g, x, [first], 1e-24), l2_normalized(g, y, [second], 1e-24)
    x, _ = moved(g, x, [first], [x.rank - 1])
    y, _ = moved(g, y, [second], [1])
    left, right = dims(x, range(1, x.rank - 1)), dims(y, range(2, y.rank))
    size = x.shape[-1]
    made = g("MatMul", [batched(g, x, [-1, size]), batched(g, y, [size, -1])])
    return batched(g, made, [*left, *right] or [1])
