"""Chains of ops along which factors and constants by channel can move.

A chain begins at an op, goes through ops that factors pass, and ends in the weights of its readers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from math import prod

import numpy as np

from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Tensor, Transform
from xdlc.ir.data import Array, TensorData
from xdlc.opdefs.traits import traits
from xdlc.quant.op_specs import pad_value, single_name

_POSITIVELY_HOMOGENEOUS = ("Relu", "Prelu")

Axes = tuple[int, ...]


class Shift(IntEnum):
    """Constants by channel that may move from a source to biases of the sinks."""

    NONE = 0
    BELOW = 1
    """Those below every value: a Relu is between, and cuts off nothing of such a channel."""
    ANY = 2


@dataclass(frozen=True, slots=True)
class Chain:
    """An op that may be divided by factors, and the ops whose weights absorb these.

    Attributes:
        sinks: The ops that are multiplied; each reads the activation as its input 0.
        shift: Which constants per channel pass from the source to the sinks, as factors do.
    """

    source: Op
    sinks: tuple[Op, ...]
    count: int
    shift: Shift


def find_chains(graph: Graph, is_source: Callable[[Op], bool]) -> list[Chain]:
    """Return the chains that begin at certain ops, in execution order.

    Clamps with an upper end (Relu6, ReluMinMax) end a chain, for the end would have to differ between
    channels; so do ops that mix channels, graph outputs, and values with an encoding.
    """
    chains = []
    for op in graph.ops:
        if is_source(op) and divided_inputs(graph, op):
            chain = _Walk(graph, op).chain()
            if chain is not None:
                chains.append(chain)
    return chains


def divided_inputs(graph: Graph, op: Op) -> tuple[int, ...]:
    """Return the static inputs whose division divides an op's results; () if none."""
    if op.package != NATIVE_PACKAGE or len(op.outputs) != 1 or op.outputs[0].rank < 2:
        return ()
    channels = op.outputs[0].shape[-1]
    weights = [index for index in (1, 2) if index < len(op.inputs) and op.inputs[index] is not None]
    if not weights or weights[0] != 1 or any(not _is_own(graph, op, index) for index in weights):
        return ()
    shapes = [_shape(op, index) for index in weights]
    if traits(op).norm:
        axes = op.param("axes")
        last = op.outputs[0].rank - 1
        if axes is not None and [int(axis) % (last + 1) for axis in axes] != [last]:
            return ()
        return tuple(weights) if all(shape == (channels,) for shape in shapes) else ()
    if op.type == "FullyConnected":
        fits = shapes[0][0] == channels
    else:
        fits = traits(op).is_convolution and len(shapes[0]) == 4 and shapes[0][3] == channels
    return tuple(weights) if fits and all(shape == (channels,) for shape in shapes[1:]) else ()


def _shape(op: Op, index: int) -> tuple[int, ...]:
    tensor = op.inputs[index]
    return () if tensor is None else tensor.shape


def _is_own(graph: Graph, op: Op, index: int) -> bool:
    """Return whether an input is float data with a single reader."""
    tensor = op.inputs[index]
    return (
        tensor is not None
        and tensor.is_static
        and tensor.dtype.is_float
        and tensor.encoding is None
        and graph.sole_consumer(tensor) is op
        and sum(read is tensor for read in op.inputs) == 1
    )


def _takes_up(graph: Graph, op: Op, tensor: Tensor) -> bool:
    """Return whether an op's weights can absorb factors of its input's channels."""
    found = traits(op)
    if not (found.is_convolution or found.macs == "dense") or len(op.inputs) < 2:
        return False
    if op.inputs[0] is not tensor or tensor in op.inputs[1:] or not _is_own(graph, op, 1):
        return False
    channels, shape = tensor.shape[-1], _shape(op, 1)
    if op.type == "FullyConnected":
        return shape[1] == channels
    if tensor.rank != 4 or len(shape) != 4:
        return False
    if op.type == "TransposeConv2d":
        return int(op.param("group", 1)) == 1 and shape[2] == channels
    return channels % shape[2] == 0 and shape[3] % (channels // shape[2]) == 0


class _Walk:
    """Follows the channels of an op's result to the ops that absorb factors."""

    def __init__(self, graph: Graph, source: Op) -> None:
        self._graph = graph
        self._source = source
        self._sinks: dict[Op, None] = {}
        self._scaled: set[Tensor] = set()
        self._products: list[Op] = []
        self._shift = Shift.ANY

    def chain(self) -> Chain | None:
        result = self._source.outputs[0]
        pending: list[tuple[Tensor, Axes]] = [(result, (result.rank - 1,))]
        while pending:
            tensor, axes = pending.pop()
            readers = self._graph.consumers(tensor)
            if self._graph.is_output(tensor) or tensor.encoding is not None or not readers:
                return None
            self._scaled.add(tensor)
            for reader in readers:
                if axes == (tensor.rank - 1,) and _takes_up(self._graph, reader, tensor):
                    self._sinks[reader] = None
                    continue
                moved = self._through(reader, tensor, axes)
                if moved is None:
                    return None
                pending.append((reader.outputs[0], moved))
        if any(sum(read in self._scaled for read in op.inputs) != 1 for op in self._products):
            return None
        if not _has_bias(self._graph, self._source) or not all(map(self._takes_shift, self._sinks)):
            self._shift = Shift.NONE
        return Chain(self._source, tuple(self._sinks), result.shape[-1], self._shift)

    def _takes_shift(self, sink: Op) -> bool:
        """Return whether a constant added to a sink's input is a constant in its result.

        It is where every result reads all weights.
        """
        pads = sink.param("pad_amount")
        full = sink.type != "TransposeConv2d" and (pads is None or not pads.any())
        return full and _has_bias(self._graph, sink)

    def _through(self, op: Op, tensor: Tensor, axes: Axes) -> Axes | None:
        """Return the channel axes after an op; None if factors cannot pass it."""
        if op.package != NATIVE_PACKAGE or len(op.outputs) != 1:
            return None
        kind, result = single_name(op), op.outputs[0]
        if kind == "Transpose":
            order = [int(axis) for axis in op.param("perm")]
            return tuple(order.index(axis) for axis in axes)
        if traits(op).view:
            return _regrouped(tensor.shape, result.shape, axes)
        self._shift = min(self._shift, Shift.BELOW if kind == "Relu" else Shift.NONE)
        if op.inputs[0] is not tensor and kind not in ("ElementWiseMultiply", "MatMul"):
            return None
        if kind in _POSITIVELY_HOMOGENEOUS:
            return axes
        if traits(op).pool in ("max", "average") or kind == "Pad" or kind.startswith("Resize"):
            same = tensor.rank == result.rank and all(tensor.shape[a] == result.shape[a] for a in axes)
            fits = axes == (tensor.rank - 1,) or (tensor.rank != 4 and not traits(op).pool)
            return axes if same and fits and not pad_value(op) else None
        if kind in ("ElementWiseMultiply", "ElementWiseDivide"):
            self._products.append(op)
            same = tensor.rank == result.rank and all(tensor.shape[a] == result.shape[a] for a in axes)
            return axes if same else None
        if kind == "MatMul":
            return self._through_product(op, tensor, axes)
        return None

    def _through_product(self, op: Op, tensor: Tensor, axes: Axes) -> Axes | None:
        """Return the axes of the channels after a MatMul, or None.

        Columns of the right factor become columns of the product; leading axes stay.
        """
        if op.inputs[1] is not tensor or op.param("transpose_in1", False) or len(op.inputs) > 2:
            return None
        result = op.outputs[0]
        if tensor.rank != result.rank or tensor.rank - 2 in axes:
            return None
        self._products.append(op)
        return axes if all(tensor.shape[a] == result.shape[a] for a in axes) else None


def _has_bias(graph: Graph, op: Op) -> bool:
    return len(op.inputs) > 2 and _is_own(graph, op, 2)


def _regrouped(before: tuple[int, ...], after: tuple[int, ...], axes: Axes) -> Axes | None:
    """Return the axes that neighbouring axes become in a Reshape, or None."""
    wanted = [axis for axis in axes if before[axis] != 1]
    if not wanted or wanted != list(range(wanted[0], wanted[-1] + 1)):
        return None
    lead, size = prod(before[: wanted[0]]), prod(before[axis] for axis in wanted)
    for first in range(len(after)):
        if prod(after[:first]) == lead and after[first] != 1:
            for last in range(first + 1, len(after) + 1):
                if prod(after[first:last]) == size:
                    return tuple(axis for axis in range(first, last) if after[axis] != 1)
    return None


def rescale(graph: Graph, chain: Chain, factors: Array) -> None:
    """Divide the source's results by factors, and multiply the sinks' weights.

    The new weights are computed when they are read.

    Args:
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
    """Subtract constants from the source's results, and adjust the sinks' biases.

    Args:
        chain: A chain of this graph that constants pass.
    """
    bias = _data(chain.source, 2)
    _held(chain.source, 2).data = bias.transform(partial(plus, summand=-constants))
    for sink in chain.sinks:
        weight, bias = _data(sink, 1), _data(sink, 2)
        function = partial(_with_sum, beside=beside_weight(sink, constants))
        _held(sink, 2).data = Transform([bias, weight], function, bias.shape, bias.dtype)


def beside_weight(sink: Op, channels: Array) -> Array:
    """Return numbers by input channel in a shape that broadcasts to a sink's weight.

    Args:
        sink: A convolution or FullyConnected.
        channels: One number per channel of its input.
    """
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


def plus(array: Array, *, summand: Array) -> Array:
    """Return a sum of the type of an array."""
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
