"""LiteRT's integer LSTM: 8-bit products, 16-bit gates and cell."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from xdlc.converter.nhwc.elementwise import clipped
from xdlc.converter.nhwc.recurrent import SUMS, LstmWeights, Rounding, Steps
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.graphs import Operator
from xdlc.converter.tflite.quantized import rounded_value
from xdlc.converter.tflite.tensors import Quantization, TensorInfo
from xdlc.converter.values import Value

_NORM_BITS = 10
"""Fractional bits of normalized values, in which biases of layer norms count too."""
_GUARD = 10_000
"""Smallest variance per scale of the weights of a layer norm."""


def integer_inputs(node: Node) -> list[TensorInfo | None]:
    """Return the inputs, biases with the scales that the kernel reads them with."""
    operator: Operator = node.message
    tensors = list(operator.inputs)
    x = _scale(node, operator.inputs[0])
    for index in range(4):
        norm = tensors[20 + index] if len(tensors) > 20 + index else None
        weight = tensors[1 + index]
        if norm is not None:
            _rescale(tensors, 12 + index, _scale(node, norm) / (1 << _NORM_BITS))
        elif weight is not None:
            _rescale(tensors, 12 + index, x * _scale(node, weight))
    if tensors[16] is not None:
        _rescale(tensors, 17, _scale(node, tensors[16]) * steps_of(node, operator.intermediates[4]).scale)
    return tensors


def rounding_of(node: Node, g: Operators) -> Rounding:
    """Return the roundings of a step.

    Raises:
        UnsupportedOp: If the operator is one for another kernel.
        ModelError: If a tensor that the kernel reads integers of is not quantized.
    """
    operator: Operator = node.message
    between = operator.intermediates
    if len(between) != 5:
        raise node.problem(
            f"an integer LSTM has {len(between)} intermediate tensors instead of 5",
            "convert the model again with a current converter, or without quantization",
        )
    output, cell = steps_of(node, operator.outputs[0]), steps_of(node, operator.inputs[19])
    norms = operator.inputs[20:24]
    scales = [0.0 if norm is None else _scale(node, norm) for norm in norms] or [0.0] * 4
    sums = [steps_of(node, tensor) if any(scales) else SUMS for tensor in between[:4]]
    hidden = output
    if operator.inputs[16] is not None:
        hidden = steps_of(node, between[4])
        hidden = hidden._replace(zero=-hidden.zero)  # so does LiteRT store them

    return Rounding(
        partial(rounded, g),
        dict(zip("ifco", (entry._replace(zero=0, bits=16) for entry in sums), strict=True)),
        dict(zip("ifco", (max(1, int(_GUARD * scale)) for scale in scales), strict=True)),
        cell,
        hidden,
        output,
    )


def integer_weights(node: Node, g: Operators, weights: LstmWeights, rounding: Rounding) -> LstmWeights:
    """Return weights with whole steps as bounds, and peepholes padded to the outputs."""
    outputs, units = (node.message.inputs[index].shape[-1] for index in (18, 19))
    mask = g.builder.const((np.arange(units) < outputs).astype(np.float32))
    peepholes = {
        gate: value if value is None or outputs == units else g("Mul", [value, mask])
        for gate, value in weights.peepholes.items()
    }
    return weights._replace(
        cell_clip=_whole(weights.cell_clip, rounding.cell),
        clip=_whole(weights.clip, rounding.output),
        peepholes=peepholes,
    )


def rounded(g: Operators, value: Value, steps: Steps) -> Value:
    """Return values rounded to integers, 16-bit ones if no type of theirs is zero."""
    low, high = (limit - steps.zero for limit in _limits(steps.bits))
    if not low <= 0 <= high:
        value = clipped(g, value, low * steps.scale, high * steps.scale)
        steps = Steps(steps.scale)
    parameters = Quantization(np.asarray([steps.scale], np.float32), np.asarray([steps.zero], np.int64))
    return rounded_value(g, value, parameters, np.dtype(f"int{steps.bits}"))


def _limits(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _whole(bound: float, steps: Steps) -> float:
    return int(min(bound / steps.scale, _limits(steps.bits)[1])) * steps.scale if bound > 0 else 0.0


def _rescale(tensors: list[TensorInfo | None], index: int, scale: float) -> None:
    tensor = tensors[index]
    if tensor is not None:
        parameters = Quantization(np.asarray([scale], np.float32), np.zeros(1, np.int64))
        tensors[index] = replace(tensor, quantization=parameters)


def _scale(node: Node, tensor: TensorInfo | None) -> float:
    return steps_of(node, tensor).scale


def steps_of(node: Node, tensor: TensorInfo | None) -> Steps:
    """Return the integers of a tensor.

    Raises:
        ModelError: If it is not quantized with one scale.
    """
    quantization = tensor.quantization if tensor is not None else None
    if tensor is None or quantization is None or quantization.scales.size != 1:
        name = "an input that it needs" if tensor is None else repr(tensor.name)
        raise node.invalid(f"an integer LSTM reads {name}, which does not have exactly one scale")
    return Steps(
        float(quantization.scales.reshape(-1)[0]),
        int(quantization.zero_points.reshape(-1)[0]),
        tensor.dtype.itemsize * 8,
    )
