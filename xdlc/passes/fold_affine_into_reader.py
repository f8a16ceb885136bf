"""Folding of a factor and a term per channel into the first layer, which reads the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, MULTIPLY, SUBTRACT
from xdlc.passes._first_layer import first_layer, take_over
from xdlc.passes.base import graph_pass

_LARGEST = 1 << 22
_TYPES = ("Batchnorm", "ElementWiseBinary")


@graph_pass(
    stage="converter",
    after=("fuse_batchnorm", "fuse_l2_norm", "fuse_prelu", "fuse_rms_norm"),
    op_types=_TYPES,
)
@dataclass(frozen=True, slots=True)
class FoldAffineIntoReader:
    """Fold ``x * a + b`` between the inputs of a graph and its first layer into the weights of that.

    A term is folded if the layer pads nothing: zeros of its padding are values after the term.
    """

    name: str = "fold_affine_into_reader"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        results = [_fold(graph, op) for op in graph.ops if op.type in _TYPES]
        return any(results)


def _fold(graph: Graph, op: Op) -> bool:
    pair = _factor_and_term(op) if op.package == ir.NATIVE_PACKAGE else None
    found = first_layer(graph, op) if pair is not None else None
    if pair is None or found is None:
        return False
    layer, views = found
    shape = op.outputs[0].shape
    pair = pair.reshape(2, *[1] * (len(shape) + 1 - pair.ndim), *pair.shape[1:])
    for view in views:
        result = view.outputs[0]
        if view.type == "Transpose":
            pair = pair.transpose(0, *(int(axis) + 1 for axis in view.param("perm")))
        elif pair.size == 2:
            pair = pair.reshape(2, *[1] * result.rank)
        elif result.size > _LARGEST:
            return False
        else:
            pair = numpy.broadcast_to(pair, (2, *shape)).reshape(2, *result.shape)
        shape = result.shape
    spread = _spread(layer, pair, shape)
    if spread is None or not numpy.isfinite(spread).all():
        return False
    factor, term = spread
    has_term = bool(term.any())
    if has_term and layer.type != "FullyConnected" and layer.param("pad_amount").any():
        return False
    weight = layer.inputs[1]
    assert weight is not None
    take_over(graph, layer, op, weight.shape, lambda array: array * factor, term if has_term else None)
    return True


def _factor_and_term(op: Op) -> Array | None:
    """Return factor and term of x * a + b, stacked, in float64; None if an op computes something else."""
    computed = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_static]
    statics = [tensor for tensor in op.inputs if tensor is not None and tensor.is_static]
    result = op.outputs[0]
    if len(computed) != 1 or computed[0].shape != result.shape or result.encoding or computed[0].encoding:
        return None
    if not result.dtype.is_float or any(
        tensor.encoding or not tensor.dtype.is_float or tensor.size > _LARGEST for tensor in statics
    ):
        return None
    values = [tensor.numpy().astype(numpy.float64) for tensor in statics]
    if op.type == "Batchnorm":
        return numpy.stack(numpy.broadcast_arrays(*values, *[0.0] * (2 - len(values))))
    operation, is_first = op.param("operation"), op.inputs[0] is computed[0]
    if operation == MULTIPLY or (operation == DIVIDE and is_first and values[0].all()):
        factor = values[0] if operation == MULTIPLY else 1 / values[0]
        return numpy.stack([factor, numpy.zeros_like(factor)])
    if operation in (ADD, SUBTRACT):
        is_negated = operation == SUBTRACT and not is_first
        term = -values[0] if operation == SUBTRACT and is_first else values[0]
        return numpy.stack([numpy.full_like(term, -1.0 if is_negated else 1.0), term])
    return None


def _spread(layer: Op, pair: Array, shape: tuple[int, ...]) -> Array | None:
    """Return factor and term for each weight of a layer that reads a tensor of a shape, or None."""
    weight = layer.inputs[1]
    assert weight is not None
    if layer.type == "FullyConnected":
        features = weight.shape[1]
        if not features or (pair[0].size > 1 and numpy.prod(shape) > _LARGEST):
            return None
        if pair.size == 2:
            return pair.reshape(2, 1, 1)
        full = numpy.broadcast_to(pair, (2, *shape)).reshape(2, -1, features)
        return full[:, :1] if (full == full[:, :1]).all() else None
    if any(dim != 1 for dim in pair.shape[1:-1]):
        return None
    channels = numpy.broadcast_to(pair.reshape(2, -1), (2, shape[-1]))
    inner, outer = weight.shape[-2:]
    groups = shape[-1] // inner
    places = numpy.arange(outer) // (outer // groups) * inner + numpy.arange(inner)[:, None]
    return channels[:, places]
