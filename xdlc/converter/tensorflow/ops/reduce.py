"""Handlers of reductions, running sums, top-k, products, normalizations, losses."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.nhwc import reduce
from xdlc.converter.nhwc.elementwise import rsqrt, where
from xdlc.converter.nhwc.gathering import stack, unstack
from xdlc.converter.nhwc.reduce import dense, matmul, reduced, swapped
from xdlc.converter.nhwc.shapes import cast, dims, in_channel_last, ints, number, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    dtype_of,
    handler,
    is_channel_first,
)
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32

_REDUCTIONS = {
    **{name: name for name in ("Mean", "Sum", "Max", "Min", "Prod", "Any", "All")},
    "EuclideanNorm": "ReduceL2",
}


@handler(*_REDUCTIONS)
def _reduced(node: Node, g: Operators, x: Value, axes: Value) -> Value:
    keep = bool(node.attr("keep_dims", False))
    return reduce.reduced(g, _REDUCTIONS[node.type], x, ints(axes, "the axes"), keep=keep)


@handler("Cumsum", "Cumprod")
def _accumulated(node: Node, g: Operators, x: Value, axis: Value) -> Value:
    exclusive, reverse = (bool(node.attr(name, False)) for name in ("exclusive", "reverse"))
    type = {"Cumsum": "CumSum", "Cumprod": "CumProd"}[node.type]
    (place,) = ints(axis, "the axis")
    return reduce.accumulated(g, type, x, place, exclusive=exclusive, reverse=reverse)


@handler("ArgMax", "ArgMin")
def _place(node: Node, g: Operators, x: Value, *axis: Value) -> Value:
    place = ints(axis[0], "the axis")[0] if axis else 0
    return reduce.place_of(g, node.type, x, place, dtype_of(node, "output_type", "int64"))


@handler("TopK", "TopKV2", ignores=("sorted",))
def _top_k(node: Node, g: Operators, x: Value, *k: Value) -> list[Value]:
    given = k[0] if k else vector(g, [node.attr("k", 1)])
    return reduce.top_k(g, x, given, dtype_of(node, "index_type", "int32"))


@handler("Softmax", "LogSoftmax")
def _softmax(node: Node, g: Operators, x: Value) -> Value:
    return reduce.softmax(g, x, log=node.type == "LogSoftmax")


@handler("LRN")
def _lrn(node: Node, g: Operators, x: Value) -> Value:
    alpha, beta, bias = (float(node.attr(name, default)) for name, default in _LRN.items())
    radius = node.attr("depth_radius", 5)
    return reduce.lrn(g, x, radius=radius, bias=bias, alpha=alpha, beta=beta)


_LRN = {"alpha": 1.0, "beta": 0.5, "bias": 1.0}


@handler("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", ignores=("U",))
def batch_norm(
    node: Node,
    g: Operators,
    x: Value,
    scale: Value,
    offset: Value,
    stated_mean: Value,
    stated_variance: Value,
) -> list[Value]:
    """Return normalized values, mean and variance; the batch's in a training graph.

    Mean and variance of the batch have a share of ``exponential_avg_factor`` in the second and third output.
    """
    mean, unbiased = stated_mean, stated_variance
    epsilon, is_training = float(node.attr("epsilon", 1e-4)), bool(node.attr("is_training", True))
    is_plain = is_training and is_channel_first(node) and _normalizes_rows(x, scale, offset)
    if is_training and not is_plain:
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} belongs to a training graph: it normalizes by the statistics of the batch it "
            "runs on; export the model for inference to avoid this"
        )

    def normalized(value: Value) -> Value:
        nonlocal mean, unbiased
        if is_training:
            mean, variance = reduce.moments(g, value, range(value.rank - 1))
            count = math.prod(dims(value)[:-1])
            unbiased = g("Mul", [variance, number(g, variance, count / max(count - 1, 1))])
            if value.dtype is not scale.dtype:
                raise node.problem(f"statistics of {value.dtype} are not supported")
            factor = g("Mul", [rsqrt(g, g("Add", [variance, number(g, variance, epsilon)])), scale])
            return g("Add", [g("Mul", [g("Sub", [value, mean]), factor]), offset])
        return reduce.batch_norm(g, value, scale, offset, mean, stated_variance, epsilon)

    result = in_channel_last(is_channel_first(node), g, x, normalized)
    averages = [mean, unbiased]
    share = float(node.attr("exponential_avg_factor", 1.0))
    if is_training and share != 1:
        former = zip((stated_mean, stated_variance), averages, strict=True)
        averages = [
            g("Add", [g("Mul", [old, number(g, old, 1 - share)]), g("Mul", [new, number(g, new, share)])])
            for old, new in former
        ]
    if is_plain:
        rows = reshape(g, x, (x.shape[1], math.prod(x.shape[2:])))
        ones = g.builder.const(np.ones(rows.shape[1], x.dtype.numpy))
        result = reshape(g, g("LayerNormalization", [rows, ones], axis=-1, epsilon=epsilon), x.shape)
    return [result, *averages, mean, unbiased][: len(node.outputs)]


def _normalizes_rows(x: Value, scale: Value, offset: Value) -> bool:
    """Return whether channels of a single image are normalized separately.

    Keras 2 writes a layer norm so.
    """
    if x.is_dynamic or x.shape[0] != 1 or not scale.is_static or not offset.is_static:
        return False
    return x.dtype is scale.dtype and bool(np.all(scale.numpy() == 1) and not np.any(offset.numpy()))


@handler("BatchNormWithGlobalNormalization")
def _old_batch_norm(
    node: Node, g: Operators, x: Value, mean: Value, variance: Value, offset: Value, scale: Value
) -> Value:
    epsilon = float(node.attr("variance_epsilon", 1e-3))
    if not node.attr("scale_after_normalization", True):
        scale = g("Add", [g("Mul", [scale, number(g, scale, 0)]), number(g, scale, 1)])
    return reduce.batch_norm(g, x, scale, offset, mean, variance, epsilon)


@handler("MatMul", ignores=("grad_a", "grad_b", "a_is_sparse", "b_is_sparse", "Ta", "Tb"))
def matrix_product(node: Node, g: Operators, x: Value, y: Value) -> Value:
    """Return the product of two matrices."""
    swap_x, swap_y = (bool(node.attr(name, False)) for name in ("transpose_a", "transpose_b"))
    if y.is_static and x.rank == y.rank == 2 and x.dtype.is_float and not x.is_static:
        left = g("Transpose", [x], perm=[1, 0]) if swap_x else x
        return dense(g, left, y if swap_y else g("Transpose", [y], perm=[1, 0]))
    return matmul(g, x, y, swap_x=swap_x, swap_y=swap_y)


@handler("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", ignores=("Ta", "Tb", "grad_x", "grad_y"))
def _batch_product(node: Node, g: Operators, x: Value, y: Value) -> Value:
    swap_x, swap_y = (bool(node.attr(name, False)) for name in ("adj_x", "adj_y"))
    return matmul(g, x, y, swap_x=swap_x, swap_y=swap_y)


@handler("MatrixDeterminant")
def _determinant(node: Node, g: Operators, x: Value) -> Value:
    return g("Det", [x])


@handler("MatrixInverse")
def _inverse(node: Node, g: Operators, x: Value) -> Value:
    made = g.apply("Inverse", [x], domain="com.microsoft")[0]
    return swapped(g, made) if node.attr("adjoint", False) else made


@handler("Einsum")
def _einsum(node: Node, g: Operators, *values: Value) -> Value:
    return g("Einsum", values, equation=str(node.attr("equation")))


@handler("InTopK", "InTopKV2")
def _in_top_k(node: Node, g: Operators, x: Value, targets: Value, *k: Value) -> Value:
    count = ints(k[0], "k")[0] if k else int(node.attr("k", 1))
    row = g.builder.const(np.arange(x.shape[1], dtype=targets.dtype.numpy))
    hit = g("Equal", [g("Unsqueeze", [targets, vector(g, [1])]), row])
    own = reduce.reduced(g, "Sum", where(g, hit, x, number(g, x, 0)), [1], keep=True)
    better = reduce.reduced(g, "Sum", cast(g, g("Greater", [x, own]), INT32), [1], keep=False)
    return g("Less", [better, number(g, better, count)])


@handler("Cross")
def _cross(node: Node, g: Operators, first: Value, second: Value) -> Value:
    (a, b, c), (x, y, z) = (unstack(g, value, 3, -1) for value in (first, second))

    def minor(p: Value, q: Value, r: Value, s: Value) -> Value:
        return g("Sub", [g("Mul", [p, q]), g("Mul", [r, s])])

    return stack(g, [minor(b, z, c, y), minor(c, x, a, z), minor(a, y, b, x)], -1)


@handler("L2Loss")
def _l2_loss(node: Node, g: Operators, x: Value) -> Value:
    total = reduced(g, "Sum", g("Mul", [x, x]), range(x.rank), keep=False)
    return g("Mul", [total, number(g, x, 0.5)])


@handler("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(node: Node, g: Operators, x: Value, labels: Value) -> list[Value]:
    logarithm = g("LogSoftmax", [x], axis=-1)
    loss = reduced(g, "Sum", g("Neg", [g("Mul", [labels, logarithm])]), [1], keep=False)
    return [loss, g("Sub", [g("Exp", [logarithm]), labels])][: len(node.outputs)]


@handler("SparseSoftmaxCrossEntropyWithLogits", ignores=("Tlabels",))
def _sparse_cross_entropy(node: Node, g: Operators, x: Value, labels: Value) -> list[Value]:
    logarithm = g("LogSoftmax", [x], axis=-1)
    row = g.builder.const(np.arange(x.shape[1], dtype=labels.dtype.numpy))
    hit = cast(g, g("Equal", [g("Unsqueeze", [labels, vector(g, [1])]), row]), x.dtype)
    loss = reduced(g, "Sum", g("Neg", [g("Mul", [hit, logarithm])]), [1], keep=False)
    return [loss, g("Sub", [g("Exp", [logarithm]), hit])][: len(node.outputs)]
