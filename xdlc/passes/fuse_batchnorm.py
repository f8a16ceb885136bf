"""Fusion of consecutive sums and products with constants per channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY
from xdlc.passes._match import NORM_RANKS, replace_by
from xdlc.passes._polynomial import Terms, is_arithmetic, terms
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fold_affine", "fuse_layer_norm"), op_types=("ElementWiseBinary",))
@dataclass(frozen=True, slots=True)
class FuseBatchnorm:
    """Turn factors and terms per channel into one Batchnorm.

    No layer before them can hold them.

    Several factors become one factor, several terms one term.  Numbers without channels stay, unless they
    stand beside some.
    """

    name: str = "fuse_batchnorm"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in list(graph.ops) if op.type == "ElementWiseBinary"]
        return any(results)


def _fuse(graph: Graph, last: Op) -> bool:
    result = last.outputs[0]
    reader = graph.sole_consumer(result)
    if _source(last) is None or (reader is not None and _source(reader) is result):
        return False
    if not graph.consumers(result) and not graph.is_output(result):
        return False
    source, count = _source(last), 1
    while source is not None and source.producer is not None and graph.sole_consumer(source) is not None:
        before = _source(source.producer)
        if before is None:
            break
        source, count = before, count + 1
    found = terms(result, [source]) if source is not None and count > 1 else None
    if source is None or found is None or (0,) not in found:
        return False
    return _replace(graph, last, source, found)


def _source(op: Op) -> Tensor | None:
    """Return the operand of a sum or product with a constant per channel."""
    if not is_arithmetic(op):
        return None
    computed = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_static]
    if len(computed) != 1 or computed[0].shape != op.outputs[0].shape or computed[0].dynamic_axes:
        return None
    source = computed[0]
    others = [tensor for tensor in op.inputs if tensor is not None and tensor is not source]
    return source if all(_is_per_channel(tensor, source.shape[-1:]) for tensor in others) else None


def _is_per_channel(tensor: Tensor, channels: tuple[int, ...]) -> bool:
    return tensor.size == 1 or (tensor.shape[-1:] == channels and channels == (tensor.size,))


def _replace(graph: Graph, last: Op, source: Tensor, found: Terms) -> bool:
    scale, shift = found[0,], found.get(())
    dtype, channels = source.dtype.numpy, source.shape[-1]

    def static(part: str, values: object) -> Tensor:
        name = graph.unique_name(f"{last.name}_{part}")
        return graph.add_tensor(ir.static(name, numpy.asarray(values, dtype)))

    if shift is None or (numpy.all(scale == 1) and shift is not None):
        operation, values = (MULTIPLY, scale) if shift is None else (ADD, shift)
        inputs = [source, static("constant", numpy.reshape(values, -1))]
        params = {"operation": ir.u32(operation)}
        replace_by(graph, last, "ElementWiseBinary", inputs, params, name=f"{last.name}_merged")
        return True
    if scale.ndim == shift.ndim == 0 or source.rank not in NORM_RANKS:
        return False
    spread = [numpy.broadcast_to(values, (channels,)) for values in (scale, shift)]
    inputs = [source, static("weight", spread[0]), static("bias", spread[1])]
    replace_by(graph, last, "Batchnorm", inputs, {}, name=f"{last.name}_batchnorm")
    return True
