"""Bias correction: biases that offset the mean error of rounded weights.

The error of a convolution's result is the sum of weight errors times inputs.  After a Relu the
inputs have a mean far from zero, so that a good part of the error is a constant for each output
channel, which the bias can take away ("bias correction": Nagel et al., Data-Free Quantization
Through Weight Equalization and Bias Correction, 2019).  Encodings and weights stay as they are.

A mean may be that of what no application reads: far negative logits of the background moved the few near the
threshold of a detector by 4.  So layers in front of outputs keep their biases, and the others are corrected
only where the outputs of held-out samples gain by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce

import numpy as np

from xdlc.ir import Graph, Op, Tensor, Transform
from xdlc.ir.data import Array
from xdlc.ir.dtype import SFIXED32
from xdlc.ir.quantization import to_float
from xdlc.opdefs.traits import traits
from xdlc.quant.judge import SOFTMAXES
from xdlc.quant.op_specs import is_real, numbers, single_name
from xdlc.quant.placement import Placement
from xdlc.quant.ranges import Decision, QuantType, to_quantized


def averaged_inputs(graph: Graph, placement: Placement) -> list[Tensor]:
    """Return the activations whose means by channel ``correct_biases`` needs."""
    shown = layers_of_outputs(graph)
    sources = (_source(graph, op) for op in placement.fixed if op not in shown)
    return list(dict.fromkeys(source for source in sources if source is not None))


def layers_of_outputs(graph: Graph) -> set[Op]:
    """Return the last layers before outputs and integers.

    Neither another layer nor a residual sum is between.

    One Softmax a sample has no threshold: its layer is not among them.
    """
    layers: set[Op] = set()
    queue = [tensor for tensor in graph.outputs if not _is_one_softmax(tensor)]
    queue += [
        tensor
        for op in graph.ops
        if not any(is_real(result) for result in op.outputs)
        for tensor in op.inputs
        if tensor is not None
    ]
    reached = set(queue)
    while queue:
        op = queue.pop().producer
        if op is None:
            continue
        moving = op.computed
        if traits(op).macs:
            layers.add(op)
        elif single_name(op) != "ElementWiseAdd" or len(moving) == 1:
            queue += [tensor for tensor in moving if tensor not in reached]
            reached.update(moving)
    return layers


def _is_one_softmax(output: Tensor) -> bool:
    is_one = output.rank > 0 and output.size == output.shape[-1]
    return is_one and output.producer is not None and single_name(output.producer) in SOFTMAXES


def corrected_ops(graph: Graph, placement: Placement, decision: Decision) -> list[Op]:
    """Return the ops whose bias ``correct_biases`` changes."""
    shown = layers_of_outputs(graph)
    return [
        op
        for op in placement.fixed
        if op not in shown
        and _source(graph, op) is not None
        and (op, 1) in decision.statics
        and (form := decision.statics.get((op, 2))) is not None
        and form[0] is SFIXED32
    ]


def _source(graph: Graph, op: Op) -> Tensor | None:
    """Return the input of an op whose bias can be corrected, or None."""
    rule = traits(op)
    if rule.weight is None or rule.bias is None or len(op.inputs) < 3:
        return None
    if op.type == "TransposeConv2d" and int(op.param("group", 1)) != 1:
        return None
    source, weight, bias = op.inputs[:3]
    if source is None or source.is_static or not source.size or weight is None or bias is None:
        return None
    if rule.is_convolution and weight.rank != 4:
        return None
    if not (weight.is_static and bias.is_static and weight.dtype.is_float and bias.dtype.is_float):
        return None
    if graph.sole_consumer(bias) is not op or bias.rank != 1:
        return None
    if op.type == "FullyConnected" and source.shape[-1] != weight.shape[1]:
        return None
    return source


def correct_biases(
    graph: Graph, placement: Placement, decision: Decision, means: Mapping[Tensor, Array]
) -> None:
    """Add to each float bias the mean error that rounding the weights causes.

    The new data are computed when they are read, like the stored weights.

    Args:
        decision: The stored form of weights and biases.
        means: Mean of each channel of the tensors of ``averaged_inputs``; layers without stay as they are.
    """
    for op in corrected_ops(graph, placement, decision):
        source, static, target = op.inputs[:3]
        if source is None or static is None or target is None or source not in means:
            continue
        if static.data is None or target.data is None:
            continue
        inputs = _expected_inputs(op, source, static, means[source])
        function = partial(_corrected, inputs=inputs, form=decision.statics[op, 1])
        target.data = Transform([target.data, static.data], function, target.data.shape, target.data.dtype)


def _expected_inputs(op: Op, source: Tensor, weight: Tensor, mean: Array) -> tuple[Array, ...]:
    """Return factors whose outer product is the mean input of each weight.

    It broadcasts to the weight's shape.  It is computed late, for in float64 it has twice the weight's size.
    """
    if op.type == "FullyConnected":
        return (mean[None, :],)
    height, width, depth, count = weight.shape
    if op.type == "TransposeConv2d":
        reached = [
            _reached(source.shape[1 + axis], op.outputs[0].shape[1 + axis], taps, pad, stride)
            for axis, taps, pad, stride in zip(
                (0, 1),
                (height, width),
                numbers(op, "pad_amount", (0, 0, 0, 0))[::2],
                numbers(op, "stride", (1, 1)),
                strict=True,
            )
        ]
        return reached[0], reached[1], mean[:, None]
    # Channels in of each group, beside each channel out of that group (all of them, if there is but one).
    groups = source.shape[-1] // depth
    beside = (
        mean[:, None] if groups == 1 else np.repeat(mean.reshape(groups, depth).T, count // groups, axis=1)
    )
    pads, strides, dilations = (
        numbers(op, key, default)
        for key, default in (("pad_amount", (0, 0, 0, 0)), ("stride", (1, 1)), ("dilation", (1, 1)))
    )
    inside = [
        _inside(source.shape[1 + axis], op.outputs[0].shape[1 + axis], taps, pad, stride, dilation)
        for axis, taps, pad, stride, dilation in zip(
            (0, 1), (height, width), pads[::2], strides, dilations, strict=True
        )
    ]
    return inside[0], inside[1], beside


def _inside(size: int, results: int, taps: int, pad: int, stride: int, dilation: int) -> Array:
    """Return the share of positions, for each tap of a filter, that are not padding."""
    places = np.arange(results)[:, None] * stride + np.arange(taps)[None, :] * dilation - pad
    return ((places >= 0) & (places < size)).mean(axis=0)


def _reached(size: int, results: int, taps: int, pad: int, stride: int) -> Array:
    """Return the share of results that each tap of a transposed filter reaches."""
    places = np.arange(size)[:, None] * stride + np.arange(taps)[None, :] - pad
    return ((places >= 0) & (places < results)).sum(axis=0) / max(results, 1)


def _corrected(bias: Array, weight: Array, *, inputs: tuple[Array, ...], form: QuantType) -> Array:
    dtype, encoding = form
    error = weight - to_float(to_quantized(weight, encoding, dtype), encoding, where="weight")
    axes = (1,) if weight.ndim == 2 else (0, 1, 2)
    lost = (error * reduce(np.multiply.outer, inputs)).sum(axis=axes, dtype=np.float64)
    return (bias + lost).astype(bias.dtype)
