"""Fusion of LayerNorm and RmsNorm of the last axis, written out with means."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ADD, RSQRT, SQRT, SQUARED_DIFFERENCE, SUBTRACT
from xdlc.passes._match import (
    NORM_RANKS,
    constant_number,
    is_binary,
    is_native,
    is_reduction,
    replace_by,
    squared,
)
from xdlc.passes._polynomial import Terms, reached, terms
from xdlc.passes.base import graph_pass

_ROOTS = (RSQRT, SQRT)


@graph_pass(stage="converter", after=("fuse_gelu",), op_types=("ElementWiseUnary",))
@dataclass(frozen=True, slots=True)
class FuseLayerNorm:
    """Turn ``(x - mean) / sqrt(variance + epsilon)`` into LayerNorm; without a mean, into RmsNorm.

    Factors and terms per channel become their weight and bias, wherever they stand in the sum.
    """

    name: str = "fuse_layer_norm"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in list(graph.ops) if op.type == "ElementWiseUnary"]
        return any(results)


def _fuse(graph: Graph, root: Op) -> bool:
    if not any(is_native(root, "ElementWiseUnary", operation) for operation in _ROOTS):
        return False
    shifted = root.inputs[0].producer if root.inputs[0] is not None else None
    if shifted is None or not is_binary(shifted, ADD):
        return False
    for variance, added in (shifted.inputs, shifted.inputs[::-1]):
        epsilon, found = constant_number(added), _statistics(variance)
        if epsilon is not None and found is not None and epsilon > 0:
            return _replace(graph, root, *found, epsilon)
    return False


def _statistics(variance: Tensor | None) -> tuple[Tensor, Tensor | None] | None:
    """Return what has this variance, and its mean; no mean where this is the mean of squares."""
    op = variance.producer if variance is not None else None
    if op is None or not is_reduction(op, "ReduceMean"):
        return None
    deviation = op.inputs[0].producer if op.inputs[0] is not None else None
    if is_binary(deviation, SQUARED_DIFFERENCE) and deviation is not None:
        for source, mean in (deviation.inputs, deviation.inputs[::-1]):
            if source is not None and mean is not None and _is_mean(mean, source):
                return source, mean
        return None
    base = squared(op.inputs[0])
    if base is None:
        return None
    if is_binary(base.producer, SUBTRACT) and base.producer is not None:
        source, mean = base.producer.inputs
        if source is not None and mean is not None and _is_mean(mean, source):
            return source, mean
    return base, None


def _is_mean(mean: Tensor, source: Tensor) -> bool:
    op = mean.producer
    return is_reduction(op, "ReduceMean") and op is not None and op.inputs[0] is source


def _replace(graph: Graph, root: Op, source: Tensor, mean: Tensor | None, epsilon: float) -> bool:
    inverse = root.outputs[0]
    if source.dynamic_axes or not source.dtype.is_float or source.encoding is not None:
        return False
    if source.rank not in NORM_RANKS:
        return False
    is_inverted = is_native(root, "ElementWiseUnary", RSQRT)
    atoms = [source] if mean is None else [source, mean]
    for last in reached(graph, inverse):
        result = last.outputs[0]
        if result.shape != source.shape:
            continue
        read = terms(result, [*atoms, inverse] if is_inverted else atoms, None if is_inverted else inverse)
        found = _weights(read, len(atoms), source.shape[-1])
        if found is None:
            continue
        inputs = [source]
        for part, values in zip(("weight", "bias"), found, strict=True):
            if values is not None:
                name = graph.unique_name(f"{root.name}_{part}")
                inputs.append(graph.add_tensor(ir.static(name, values.astype(source.dtype.numpy))))
        params: dict[str, ir.Param] = {"axes": ir.u32s([source.rank - 1]), "epsilon": ir.f32(epsilon)}
        type = "RmsNorm" if mean is None else "LayerNorm"
        replace_by(graph, last, type, inputs, params, name=f"{root.name}_norm")
        return True
    return False


def _weights(read: Terms | None, atoms: int, channels: int) -> tuple[Array, Array | None] | None:
    """Return weight and bias of ``x * r * weight - mean * r * weight + bias``, r being the last atom."""
    if read is None or read.keys() - {()} != {(index, atoms) for index in range(atoms)}:
        return None
    if any(values.shape not in ((), (channels,)) for values in read.values()):
        return None
    weight, bias = read[0, atoms], read.get(())
    if atoms == 2 and not numpy.allclose(weight, -read[1, atoms], rtol=1e-6, atol=0):
        return None
    spread = [
        None if values is None else numpy.broadcast_to(values, (channels,)) for values in (weight, bias)
    ]
    if any(values is not None and not math.isfinite(numpy.abs(values).max(initial=0)) for values in spread):
        return None
    return spread[0], spread[1]
