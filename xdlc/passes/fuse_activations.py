"""Fusion of activations written out, and HardSwish by its definition."""

from __future__ import annotations

import math
from functools import partial

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import (
    ADD,
    DIVIDE,
    EXP,
    GELU,
    HARD_SIGMOID,
    HARD_SWISH,
    MULTIPLY,
    RELU,
    RELU_MIN_MAX,
    SUBTRACT,
)
from xdlc.passes._match import (
    binary,
    by_rows,
    is_native,
    made,
    match,
    neuron,
    replace_by,
    replace_by_neuron,
    unary,
)
from xdlc.passes._polynomial import affine_sources, agrees, reached, terms
from xdlc.passes._writing import Writer
from xdlc.passes.base import op_pass

_PEAK = made("ReduceMax", "x", where=by_rows)
_TOTAL = made("ReduceSum", unary(EXP, binary(SUBTRACT, "x", _PEAK), name="power"), where=by_rows)


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
        is_positive = partial(match, graph, neuron(RELU, "x"), x=source)
        positive = next(filter(is_positive, last.inputs), None)
        polynomial = terms(last.outputs[0], [positive, negative]) if positive is not None else None
        if polynomial is None or polynomial.keys() != {(0,), (1,)} or not numpy.all(polynomial[0,] == 1):
            continue
        slope = -polynomial[1,]
        if last.outputs[0].shape != source.shape or not numpy.all(numpy.isfinite(slope)):
            continue
        values = numpy.asarray(slope if slope.ndim else slope.reshape(1), source.dtype.numpy)
        alpha = ir.static(graph.unique_name(f"{below.name}_alpha"), values)
        replace_by(graph, last, "Prelu", [source, alpha], {}, name=f"{below.name}_prelu")
        return True
    return False


@op_pass("ReduceSum", stage="converter")
def fuse_softmax(graph: Graph, total: Op) -> bool:
    """Turn ``exp(x - max(x)) / sum(exp(x - max(x)))`` into Softmax."""
    named = match(graph, _TOTAL, total.outputs[0])
    if named is None or named["x"].encoding is not None or not named["x"].dtype.is_float:
        return False
    source, power = named["x"], named["power"]
    for last in reached(graph, total.outputs[0]):
        result = last.outputs[0]
        if result.shape == source.shape and agrees(terms(result, [power], total.outputs[0]), {(0, 1): 1.0}):
            params: dict[str, ir.Param] = {"axis": ir.u32(source.rank - 1), "beta": ir.f32(1.0)}
            replace_by(graph, last, "Softmax", [source], params, name=f"{total.name}_softmax")
            return True
    return False


@op_pass(
    ("ElementWiseNeuron", HARD_SIGMOID),
    ("ElementWiseNeuron", RELU_MIN_MAX),
    stage="converter",
    after=("fuse_clamp", "fuse_gelu"),
)
def fuse_hard_swish(graph: Graph, op: Op) -> bool:
    """Turn ``x * clamp(x / 6 + 0.5, 0, 1)`` into HardSwish.

    A multiple of the clamp is recognized, too.
    """
    inner, gate = op.inputs[0], op.outputs[0]
    if inner is None or not inner.dtype.is_float:
        return False
    slope, middle, top = 1.0, 0.0, 1.0
    if is_native(op, "ElementWiseNeuron", RELU_MIN_MAX):
        top = op.param("max_value")
        if op.param("min_value") or top <= 0:
            return False
    else:
        slope, middle = op.param("alpha", 0.2), op.param("beta", 0.5)
    for source, factor, shift in ((inner, 1.0, 0.0), *affine_sources(inner)):
        if not math.isclose(factor * slope, top / 6, rel_tol=1e-5):
            continue
        if not math.isclose(shift * slope + middle, top / 2, rel_tol=1e-5):
            continue
        for last in reached(graph, gate):
            result = last.outputs[0]
            if result.shape == source.shape and agrees(terms(result, [source, gate]), {(0, 1): 1 / top}):
                replace_by_neuron(graph, last, source, HARD_SWISH, f"{op.name}_hard_swish")
                return True
    return False


@op_pass(
    ("ElementWiseNeuron", RELU_MIN_MAX),
    stage="converter",
    after=("fuse_hard_swish",),
    needs=("ElementWiseBinary",),
)
def fuse_hard_sigmoid(graph: Graph, clamp: Op) -> bool:
    """Turn ``clamp(a * x + b, 0, top) / top`` into HardSigmoid."""
    gate, top = clamp.outputs[0], clamp.param("max_value")
    if clamp.param("min_value") or top <= 0 or not gate.dtype.is_float:
        return False
    for source, factor, shift in reversed(list(affine_sources(clamp.inputs[0]))):
        if shift != top / 2 or factor <= 0 or source.rank > 4:
            continue
        for last in (*reached(graph, gate), *([clamp] if top == 1 else ())):
            if last.outputs[0].shape != source.shape:
                continue
            if last is clamp or agrees(terms(last.outputs[0], [gate]), {(0,): 1 / top}):
                params = {
                    "operation": ir.u32(HARD_SIGMOID),
                    "alpha": ir.f32(factor / top),
                    "beta": ir.f32(shift / top),
                }
                name = f"{clamp.name}_hard_sigmoid"
                replace_by(graph, last, "ElementWiseNeuron", [source], params, name=name)
                return True
    return False


@op_pass(("ElementWiseNeuron", HARD_SWISH), stage="htp")
def write_hard_swish(graph: Graph, op: Op) -> bool:
    """Turn HardSwish of float32 into ``x * clamp(x + 3, 0, 6) / 6``.

    In half precision the relative L2 error of the op is 7.8e-4 on normal numbers, that of the definition
    3.7e-4, as much as rounding its steps costs (emulation of SDK 2.51, SM8650).  Dividing first would be as
    precise, but round otherwise than the networks that have the op written so; products above 2^17 saturate.
    """
    x = op.inputs[0]
    if x is None or x.dtype is not FLOAT32 or op.outputs[0].dtype is not FLOAT32 or x.dynamic_axes:
        return False
    writer = Writer(graph, op, "HTP's HardSwish is less precise than its definition")
    raised = writer.binary(ADD, x, writer.number(3))
    bounds = {"operation": ir.u32(RELU_MIN_MAX), "min_value": ir.f32(0), "max_value": ir.f32(6)}
    gate = writer.emit("ElementWiseNeuron", [raised], x.shape, bounds)
    writer.finish(writer.binary(DIVIDE, writer.binary(MULTIPLY, x, gate), writer.number(6)))
    return True
