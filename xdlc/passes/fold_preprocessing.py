"""Folding of preprocessing into the first layer of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from xdlc.ir import NATIVE_PACKAGE, Dequantized, Graph, Op, Origin, Role, Tensor, Transform
from xdlc.ir.data import Array, ArrayData, TensorData
from xdlc.opdefs import args
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, MULTIPLY, SUBTRACT
from xdlc.opdefs.traits import traits
from xdlc.passes.base import op_pass

_AFFINE, _ORDER = ("Batchnorm", "ElementWiseBinary"), "Gather"
_FARTHEST, _LARGEST = 24, 1 << 16
_MATRIX = 16
"""Most weights of a convolution that mixes colours, which is preprocessing still."""


@op_pass(
    *_AFFINE,
    _ORDER,
    stage="converter",
    after=("fuse_batchnorm", "fuse_l2_norm", "fuse_prelu", "fuse_rms_norm"),
)
def fold_preprocessing(graph: Graph, op: Op) -> bool:
    """Fold ``x * a + b`` and a Gather of channels into the layer that reads them.

    A term is folded if the layer pads nothing: zeros of its padding are values after the term.  Channels
    that a Gather omits weigh zero.
    """
    return _fold_order(graph, op) if op.type == _ORDER else _fold_affine(graph, op)


def _first_layer(graph: Graph, op: Op) -> tuple[Op, Tensor, list[Op]] | None:
    """Return the layer that alone reads a preprocessing op, its weight, and the views.

    The layer is a float convolution or FullyConnected with static weights; the views are between.
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
    if reader.inputs.index(tensor) or reader.inputs.count(tensor) != 1 or tensor.dynamic_axes:
        return None
    for static in reader.inputs[1:]:
        if static is not None and (not static.dtype.is_float or isinstance(static.data, Dequantized | None)):
            return None
    weight = reader.inputs[1]
    return (reader, weight, views) if weight is not None and _is_preprocessing(op) else None


def _is_preprocessing(op: Op) -> bool:
    """Return whether an op depends on few ops, none of which is a layer."""
    ops = [op]
    for step in ops:  # grows
        sizes = [tensor.size for tensor in step.inputs[1:2] if tensor is not None]
        if len(ops) > _FARTHEST or (traits(step).macs and max(sizes, default=_LARGEST) > _MATRIX):
            return False
        before = [tensor.producer for tensor in step.inputs if tensor is not None]
        ops += [producer for producer in before if producer is not None and producer not in ops]
    return True


def _fold_affine(graph: Graph, op: Op) -> bool:
    pair = factor_and_term(op)
    found = _first_layer(graph, op) if pair is not None else None
    if pair is None or found is None:
        return False
    layer, weight, views = found
    pair = pair.reshape(2, *[1] * (op.outputs[0].rank + 1 - pair.ndim), *pair.shape[1:])
    for view in views:
        if view.type == "Transpose":
            pair = pair.transpose(0, *(int(axis) + 1 for axis in view.param("perm")))
        elif pair.size > 2:
            return False
        else:
            pair = pair.reshape(2, *[1] * view.outputs[0].rank)
    if any(dim != 1 for dim in pair.shape[1:-1]) or not numpy.isfinite(pair).all():
        return False
    if layer.type == "FullyConnected" and pair.shape[-1] not in (1, weight.shape[1]):
        return False
    factor, term = _spread(layer, weight, pair.reshape(2, -1))
    if term.any() and layer.type != "FullyConnected" and layer.param("pad_amount").any():
        return False
    first = factor[:, :1] if layer.type == "FullyConnected" else factor[:1]
    factors = ArrayData(first.reshape(-1)) if (factor == first).all() else None  # one for all inputs
    term = term if term.any() else None
    _take_over(graph, layer, op, weight.shape, lambda array: array * factor, factors, term)
    return True


def factor_and_term(op: Op) -> Array | None:
    """Return factor and term of x * a + b, stacked, in float64, or None."""
    statics = [tensor for tensor in op.inputs if tensor is not None and tensor.is_static]
    computed, result = [tensor for tensor in op.inputs if tensor not in statics], op.outputs[0]
    source = computed[0] if len(computed) == 1 and statics else None
    if source is None or source.shape != result.shape or result.encoding or source.encoding:
        return None
    if any(tensor.encoding or not tensor.dtype.is_float or tensor.size > _LARGEST for tensor in statics):
        return None
    first, *rest = (tensor.numpy().astype(numpy.float64) for tensor in statics)
    operation, is_first = op.param("operation"), op.inputs[0] is source
    if op.type == "Batchnorm":
        return numpy.stack(numpy.broadcast_arrays(first, *(rest or [0.0])))
    if operation == MULTIPLY or (operation == DIVIDE and is_first and first.all()):
        factor = first if operation == MULTIPLY else 1 / first
        return numpy.stack([factor, numpy.zeros_like(factor)])
    if operation not in (ADD, SUBTRACT):
        return None
    sign = -1.0 if operation == SUBTRACT else 1.0
    pair = (numpy.ones_like(first), sign * first) if is_first else (numpy.full_like(first, sign), first)
    return numpy.stack(pair)


def _spread(layer: Op, weight: Tensor, pair: Array) -> Array:
    """Return the factor and term of each weight of a layer, from those per channel."""
    if pair.shape[1] == 1 or layer.type == "FullyConnected":
        return pair[:, None]
    inner, outer = weight.shape[-2:]
    groups = pair.shape[1] // inner
    return pair[:, numpy.arange(outer) // (outer // groups) * inner + numpy.arange(inner)[:, None]]


def _fold_order(graph: Graph, op: Op) -> bool:
    source, places = op.inputs[:2]
    if source is None or places is None or places.data is None or places.rank != 1 or source.is_static:
        return False
    found = _first_layer(graph, op)
    if found is None or not found[0].type.startswith("Conv"):  # a depthwise layer reads each channel alone
        return False
    layer, weight, views = found
    axis, shape = int(op.param("axis")), list(op.outputs[0].shape)
    indices, count = places.numpy().tolist(), source.shape[axis]
    for view in views:
        if view.type != "Transpose":
            return False
        axis = view.param("perm").tolist().index(axis)
    if (
        axis != len(shape) - 1
        or weight.shape[-2] != len(indices)
        or not all(0 <= at < count for at in indices)
    ):
        return False
    dims = (*weight.shape[:-2], count, weight.shape[-1])

    def moved(array: Array) -> Array:
        weights = numpy.zeros(dims, array.dtype)
        for place, index in enumerate(indices):
            weights[..., index, :] += array[..., place, :]
        return weights

    sides = source.shape
    for view in views:
        sides = view.outputs[0].shape = tuple(sides[int(entry)] for entry in view.param("perm"))
    _take_over(graph, layer, op, dims, moved, 1.0 if len(set(indices)) == len(indices) else None, None)
    return True


def _take_over(
    graph: Graph,
    layer: Op,
    op: Op,
    shape: Sequence[int],
    function: Callable[[Array], Array],
    factors: float | TensorData | None,
    term: Array | None,
) -> None:
    """Apply a function to a layer's weights and remove ``op``.

    The weights times ``term`` are added to the bias.

    ``factors`` are those of the function, as ``TensorData.transform`` has them.
    """
    before = layer.inputs
    weight, bias = args.operand(layer, 1), args.optional(layer, 2)

    def static(name: str, apply: Callable[..., Array], dims: Sequence[int], *bases: Tensor | None) -> Tensor:
        sources = [tensor.data for tensor in bases if tensor is not None and tensor.data is not None]
        own = None if apply is summed else factors
        data = Transform(sources, apply, dims, weight.dtype.numpy, factors=own)
        return Tensor(graph.unique_name(name), data.shape, weight.dtype, None, data, Role.STATIC)

    axis = 0 if layer.type == "FullyConnected" else weight.rank - 1
    others = tuple(other for other in range(weight.rank) if other != axis)

    def summed(array: Array, *biases: Array) -> Array:
        return (array.astype(numpy.float64) * term).sum(others) + (biases[0].reshape(-1) if biases else 0.0)

    inputs = [before[0], static(weight.name, function, shape, weight), *before[2:]]
    if term is not None:
        name = bias.name if bias is not None else f"{layer.name}_bias"
        inputs[2:3] = [static(name, summed, weight.shape[axis : axis + 1], weight, bias)]
    source = op.computed[0]
    graph.set_inputs(layer, inputs)
    for old, new in zip(before[1:], inputs[1:], strict=False):
        if old is not None and new is not None:
            graph.supersede(old, new)
    layer.origin = Origin(layer.origin.merged(op.origin).nodes, layer.origin.reason)
    graph.replace(op.outputs[0], source)
    graph.remove(op)
