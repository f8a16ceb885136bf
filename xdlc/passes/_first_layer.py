"""The first layer after the preprocessing of a graph, whose weights can take steps of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from xdlc.ir import NATIVE_PACKAGE, Dequantized, Graph, Op, Origin, Role, Tensor, TensorData, Transform
from xdlc.ir.data import Array
from xdlc.opdefs.traits import traits

Function = Callable[[Array], Array]
_FARTHEST = 24
_MATRIX = 16
"""Most weights of a convolution that mixes colours, which is preprocessing still."""


def first_layer(graph: Graph, op: Op) -> tuple[Op, list[Op]] | None:
    """Return the float layer that alone reads an op near the graph's inputs, and the views before it.

    It is a convolution or a FullyConnected with static weights; Transposes and Reshapes may stand between.
    """
    tensor, views = op.outputs[0], list[Op]()
    while True:
        reader = graph.sole_consumer(tensor)
        if reader is None or reader.package != NATIVE_PACKAGE or tensor.encoding is not None:
            return None
        if reader.type not in ("Transpose", "Reshape"):
            break
        views.append(reader)
        tensor = reader.outputs[0]
    if traits(reader).macs != "convolution" and reader.type != "FullyConnected":
        return None
    if reader.inputs.count(tensor) != 1 or reader.inputs[0] is not tensor or tensor.dynamic_axes:
        return None
    for static in reader.inputs[1:]:
        if static is not None and (not static.dtype.is_float or isinstance(static.data, Dequantized | None)):
            return None
    return (reader, views) if _is_preprocessing(op) else None


def _is_preprocessing(op: Op) -> bool:
    """Return whether an op depends on few others, of which no one is a layer of the network."""
    found, pending = {op}, [op]
    while pending:
        for tensor in pending.pop().inputs:
            before = tensor.producer if tensor is not None else None
            if before is None or before in found:
                continue
            weight = before.inputs[1] if traits(before).macs and len(before.inputs) > 1 else None
            if (traits(before).macs and (weight is None or weight.size > _MATRIX)) or len(found) > _FARTHEST:
                return False
            found.add(before)
            pending.append(before)
    return True


def take_over(
    graph: Graph,
    layer: Op,
    op: Op,
    shape: Sequence[int],
    function: Callable[[Array], Array],
    term: Array | None,
) -> None:
    """Give a layer weights that do what ``op`` does, and remove that.

    Args:
        graph: The graph.
        layer: The layer.
        op: The op; its only computed input takes the place of its output.
        shape: Shape of the new weights.
        function: Returns them from those that the layer has.
        term: Array that spreads over the old weights, whose products with them add up to a term of the bias
            per output channel; None for no term.
    """
    weight, bias = layer.inputs[1], layer.inputs[2] if len(layer.inputs) > 2 else None
    if weight is None or weight.data is None:
        raise ValueError(f"{layer.name} has no weights")
    data = Transform([weight.data], function, shape, weight.dtype.numpy)
    inputs = [layer.inputs[0], _static(graph, weight, weight.name, data)]
    if term is not None:
        is_dense = layer.type == "FullyConnected"
        count = weight.shape[0 if is_dense else -1]
        axes = tuple(range(1, weight.rank) if is_dense else range(weight.rank - 1))

        def summed(array: Array, *held: Array) -> Array:
            sums = (array.astype(numpy.float64) * term).sum(axes)
            return sums + held[0].reshape(count) if held else sums

        bases = [weight.data] if bias is None or bias.data is None else [weight.data, bias.data]
        name = f"{layer.name}_bias" if bias is None else bias.name
        inputs.append(_static(graph, weight, name, Transform(bases, summed, (count,), weight.dtype.numpy)))
    elif bias is not None:
        inputs.append(bias)
    before, source = layer.inputs, next(tensor for tensor in op.inputs if tensor and not tensor.is_static)
    graph.set_inputs(layer, inputs)
    for old, new in zip(before[1:], inputs[1:], strict=False):
        if old is not None and new is not None:
            graph.supersede(old, new)
    layer.origin = Origin(layer.origin.merged(op.origin).nodes, layer.origin.reason)
    graph.replace(op.outputs[0], source)
    graph.remove(op)


def _static(graph: Graph, like: Tensor, name: str, data: TensorData) -> Tensor:
    return Tensor(graph.unique_name(name), data.shape, like.dtype, None, data, Role.STATIC)
