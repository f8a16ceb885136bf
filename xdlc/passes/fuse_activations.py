"""Fusion of Gelu, Prelu and Softmax written out."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import EXP, GELU, RELU, SUBTRACT
from xdlc.passes._match import is_binary, is_native, is_reduction, replace_by, replace_by_neuron
from xdlc.passes._polynomial import affine_sources, agrees, reached, terms
from xdlc.passes.base import op_pass


@op_pass("Erf", stage="converter", package=ir.HOST_PACKAGE)
def fuse_gelu(graph: Graph, erf: Op) -> bool:
    """Turn ``x * (1 + erf(x / sqrt(2))) / 2`` into Gelu."""
    bent = erf.outputs[0]
    for source, factor, shift in affine_sources(erf.inputs[0]):
        if shift or not math.isclose(abs(factor), math.sqrt(0.5), rel_tol=1e-5):
            continue
        wanted = {(0,): 0.5, (0, 1): math.copysign(0.5, factor)}
        for last in reached(graph, bent):
            result = last.outputs[0]
            if result.shape == source.shape and agrees(terms(result, [source, bent]), wanted):
                replace_by_neuron(graph, last, source, GELU, f"{erf.name}_gelu")
                return True
    return False


@op_pass(("ElementWiseNeuron", RELU), stage="converter", needs=("ElementWiseUnary",))
def fuse_prelu(graph: Graph, below: Op) -> bool:
    """Turn ``relu(x) - alpha * relu(-x)`` into Prelu."""
    for source, factor, shift in affine_sources(below.inputs[0]):
        if factor == -1 and not shift and _join(graph, source, below):
            return True
    return False


def _join(graph: Graph, source: Tensor, below: Op) -> bool:
    negative = below.outputs[0]
    for last in reached(graph, negative):
        positive = next((held for held in last.inputs if _is_relu_of(held, source)), None)
        found = terms(last.outputs[0], [positive, negative]) if positive is not None else None
        if found is None or found.keys() != {(0,), (1,)} or not numpy.all(found[0,] == 1):
            continue
        slope = -found[1,]
        if last.outputs[0].shape != source.shape or not numpy.all(numpy.isfinite(slope)):
            continue
        values = numpy.asarray(slope if slope.ndim else slope.reshape(1), source.dtype.numpy)
        alpha = ir.static(graph.unique_name(f"{below.name}_alpha"), values)
        replace_by(graph, last, "Prelu", [source, alpha], {}, name=f"{below.name}_prelu")
        return True
    return False


def _is_relu_of(tensor: Tensor | None, source: Tensor) -> bool:
    op = tensor.producer if tensor is not None else None
    return is_native(op, "ElementWiseNeuron", RELU) and op is not None and op.inputs[0] is source


@op_pass("ReduceSum", stage="converter")
def fuse_softmax(graph: Graph, total: Op) -> bool:
    """Turn ``exp(x - max(x)) / sum(exp(x - max(x)))`` into Softmax."""
    power = total.inputs[0]
    source = _exponent(power) if is_reduction(total, "ReduceSum") else None
    if power is None or source is None or source.encoding is not None or not source.dtype.is_float:
        return False
    for last in reached(graph, total.outputs[0]):
        result = last.outputs[0]
        if result.shape == source.shape and agrees(terms(result, [power], total.outputs[0]), {(0, 1): 1.0}):
            params: dict[str, ir.Param] = {"axis": ir.u32(source.rank - 1), "beta": ir.f32(1.0)}
            replace_by(graph, last, "Softmax", [source], params, name=f"{total.name}_softmax")
            return True
    return False


def _exponent(power: Tensor | None) -> Tensor | None:
    """Return x if ``power`` is exp(x - max(x)), the greatest of the last axis."""
    op = power.producer if power is not None else None
    if op is None or not is_native(op, "ElementWiseUnary", EXP) or op.inputs[0] is None:
        return None
    less = op.inputs[0].producer
    if less is None or not is_binary(less, SUBTRACT):
        return None
    source, most = less.inputs
    top = most.producer if most is not None else None
    return source if is_reduction(top, "ReduceMax") and top is not None and top.inputs[0] is source else None
