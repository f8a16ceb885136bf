"""Fusion of RmsNorm of the last axis, written out with a mean of squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import RSQRT, SQRT
from xdlc.passes._match import NORM_RANKS, is_native, replace_by, squared
from xdlc.passes._polynomial import reached, terms
from xdlc.passes.base import graph_pass
from xdlc.passes.fuse_layer_norm import reduced_of


@graph_pass(stage="converter", after=("fuse_layer_norm",), op_types=("ElementWiseUnary",))
@dataclass(frozen=True, slots=True)
class FuseRmsNorm:
    """Turn ``x / sqrt(mean(x^2) + epsilon)`` into RmsNorm.

    HTP does not compile all of its float forms written out (SDK 2.51).
    """

    name: str = "fuse_rms_norm"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        results = [_fuse(graph, op) for op in list(graph.ops) if op.type == "ElementWiseUnary"]
        return any(results)


def _fuse(graph: Graph, root: Op) -> bool:
    is_inverted = is_native(root, "ElementWiseUnary", RSQRT)
    if not is_inverted and not is_native(root, "ElementWiseUnary", SQRT):
        return False
    power = reduced_of(root.inputs[0])
    source = squared(power.of) if power is not None else None
    if power is None or source is None or power.factor <= 0 or power.shift <= 0:
        return False
    if source.dynamic_axes or not source.dtype.is_float or source.encoding is not None:
        return False
    if source.rank not in NORM_RANKS:
        return False
    inverse, channels = root.outputs[0], source.shape[-1]
    atoms = [source, inverse] if is_inverted else [source]
    for last in reached(graph, inverse, views=True):
        result = last.outputs[0]
        read = terms(result, atoms, None if is_inverted else inverse, views=True)
        if result.shape != source.shape or read is None or read.keys() != {(0, 1)}:
            continue
        factor = read[0, 1] / math.sqrt(power.factor)
        if factor.shape not in ((), (channels,)) or not numpy.isfinite(factor).all():
            continue
        values = numpy.broadcast_to(factor, (channels,)).astype(source.dtype.numpy)
        weight = _held(graph, inverse, values)
        if weight is None:
            weight = graph.add_tensor(ir.static(graph.unique_name(f"{last.name}_weight"), values))
        params: dict[str, ir.Param] = {
            "axes": ir.u32s([source.rank - 1]),
            "epsilon": ir.f32(power.shift / power.factor),
        }
        name = last.name
        replace_by(graph, last, "RmsNorm", [source, weight], params, name=name)
        fused = result.producer
        if fused is not None:
            graph.rename_op(fused, name)
        return True
    return False


def _held(graph: Graph, inverse: Tensor, values: Array) -> Tensor | None:
    """Return the source's own constant that holds these factors, or None."""
    for op in reached(graph, inverse, views=True):
        for tensor in op.inputs:
            if tensor is None or tensor.data is None or tensor.encoding is not None:
                continue
            if tensor.shape == values.shape and numpy.array_equal(tensor.numpy(), values):
                return tensor
    return None
