"""Moves factors and constants per channel from one op into the weights and biases of its readers."""

from __future__ import annotations

from functools import partial

from xdlc.ir import Graph, Op, Tensor, Transform
from xdlc.ir.data import Array, TensorData
from xdlc.quant.equalization.chains import Chain, divided_inputs


def rescale(graph: Graph, chain: Chain, factors: Array) -> None:
    """Divide the results of the chain's source by ``factors`` and make up for it in the sinks.

    The new weights are computed when they are read.

    Args:
        graph: The graph of the chain.
        chain: A chain of this graph.
        factors: Positive, float64, one per channel.
    """
    source = chain.source
    for index in divided_inputs(graph, source):
        weight = _data(source, index)
        # Output channels of FullyConnected come first, those of all others last.
        rows = source.type == "FullyConnected" and index == 1
        spread = 1.0 / (factors[:, None] if rows else factors)
        _held(source, index).data = weight.transform(partial(_times, factor=spread))
    for sink in chain.sinks:
        spread = beside_weight(sink, factors)
        _held(sink, 1).data = _data(sink, 1).transform(partial(_times, factor=spread))


def shift(graph: Graph, chain: Chain, constants: Array) -> None:
    """Take ``constants`` from the results of the chain's source and add what they give to the sinks' biases.

    Args:
        graph: The graph of the chain.
        chain: A chain of this graph that constants pass.
        constants: float64, one per channel.
    """
    bias = _data(chain.source, 2)
    _held(chain.source, 2).data = bias.transform(partial(_plus, summand=-constants))
    for sink in chain.sinks:
        weight, bias = _data(sink, 1), _data(sink, 2)
        function = partial(_with_sum, beside=beside_weight(sink, constants))
        _held(sink, 2).data = Transform([bias, weight], function, bias.shape, bias.dtype)


def beside_weight(sink: Op, channels: Array) -> Array:
    """Return numbers per input channel in a shape that goes with the weight of ``sink``.

    Args:
        sink: A convolution or FullyConnected.
        channels: One number per channel of its input.
    """
    import numpy as np

    shape = _held(sink, 1).shape
    if sink.type == "FullyConnected":
        return channels[None, :]
    if sink.type == "TransposeConv2d":
        return channels[:, None]
    # Channels in of each group, beside each channel out of that group.
    depth, count = shape[2:]
    groups = len(channels) // depth
    return np.repeat(channels.reshape(groups, depth).T, count // groups, axis=1)


def _times(array: Array, *, factor: Array) -> Array:
    return (array * factor).astype(array.dtype)


def _plus(array: Array, *, summand: Array) -> Array:
    return (array + summand).astype(array.dtype)


def _with_sum(bias: Array, weight: Array, *, beside: Array) -> Array:
    axes = (1,) if weight.ndim == 2 else (0, 1, 2)
    return (bias + (weight * beside).sum(axis=axes)).astype(bias.dtype)


def _held(op: Op, index: int) -> Tensor:
    tensor = op.inputs[index]
    if tensor is None:
        raise ValueError(f"{op.name!r} has no input {index}")
    return tensor


def _data(op: Op, index: int) -> TensorData:
    data = _held(op, index).data
    if data is None:
        raise ValueError(f"input {index} of {op.name!r} is not static")
    return data
