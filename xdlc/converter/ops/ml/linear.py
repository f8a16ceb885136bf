"""Linear models and support vector machines."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ML, Node, importer
from xdlc.converter.ops._compose import compare, neuron, number, reduced, select, unary
from xdlc.converter.ops._formulas import fully_connected, times
from xdlc.converter.ops.ml.features import (
    above,
    both,
    class_labels,
    greatest,
    labelled,
    numbers,
    rows,
    transformed,
)
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import EXP, GREATER, MULTIPLY, SUBTRACT, TANH


@importer("LinearRegressor", domain=ML)
def linear_regressor(node: Node, b: Builder) -> Value:
    """Map onto FullyConnected."""
    count, transform = node.attr("targets", 1), node.attr("post_transform", "NONE")
    if count == 1 and transform != "NONE":
        raise node.problem(f"xdlc does not support post_transform {transform!r} of one target")
    return transformed(node, b, weighted(node, b, count), transform)


@importer("LinearClassifier", domain=ML, ignores=("multi_class",))
def linear_classifier(node: Node, b: Builder) -> list[Value]:
    """Map onto FullyConnected and Argmax; one score decides between two classes."""
    labels, transform = class_labels(node, "classlabels_ints"), node.attr("post_transform", "NONE")
    count = numbers(node, "intercepts").size or labels.size
    scores = weighted(node, b, count)
    if count > 1:
        if labels.size != count:
            raise node.invalid(f"{labels.size} labels do not fit {count} classes")
        return [labelled(node, b, labels, greatest(b, scores)), transformed(node, b, scores, transform)]
    if transform not in ("NONE", "LOGISTIC"):
        raise node.problem(f"xdlc does not support post_transform {transform!r} of one score")
    if labels.size != 2:
        raise node.problem(f"xdlc does not support one score for {labels.size} classes")
    return [
        labelled(node, b, labels, above(b, scores, 0.0)),
        both(b, scores, transform, mirrored=transform != "NONE"),
    ]


def weighted(node: Node, b: Builder, count: int) -> Value:
    """Return rows [N, F] times the coefficients [count, F], plus the intercepts."""
    x = rows(node, b)
    coefficients, intercepts = numbers(node, "coefficients"), numbers(node, "intercepts")
    if coefficients.size != count * x.shape[1] or intercepts.size not in (0, count):
        raise node.invalid(
            f"{coefficients.size} coefficients and {intercepts.size} intercepts do not fit {count} targets "
            f"and {x.shape[1]} features"
        )
    bias = intercepts if intercepts.size else np.zeros(count, np.float32)
    weight = b.const(coefficients.reshape(count, -1), f"{b.stem}_weight")
    return fully_connected(b, x, weight, b.const(bias, f"{b.stem}_bias"))


@importer("SVMRegressor", domain=ML)
def svm_regressor(node: Node, b: Builder) -> Value:
    """Write the kernel of all support vectors times their coefficients."""
    x, count = rows(node, b), node.attr("n_supports", 0)
    coefficients, rho = numbers(node, "coefficients"), numbers(node, "rho", 1)
    if node.attr("post_transform", "NONE") != "NONE":
        raise node.problem("xdlc does not support post_transform of one score")
    if not count:
        raise node.problem("the node has no support vectors")
    similar = _kernel(node, b, x, _vectors(node, count, x.shape[1]))
    if coefficients.size != similar.shape[1]:
        raise node.invalid(f"{coefficients.size} coefficients do not fit {similar.shape[1]} support vectors")
    weight = b.const(coefficients.reshape(1, -1), f"{b.stem}_weight")
    score = fully_connected(b, similar, weight, b.const(rho[:1]))
    if not node.attr("one_class", 0):
        return score
    inside = compare(b, GREATER, score, number(b, score, 0.0))
    return select(b, inside, number(b, score, 1.0), number(b, score, -1.0))


@importer("SVMClassifier", domain=ML)
def svm_classifier(node: Node, b: Builder) -> list[Value]:
    """Write the decision between each two classes; the most frequent winner is chosen."""
    x, labels = rows(node, b), class_labels(node, "classlabels_ints")
    sizes = [int(size) for size in node.attr("vectors_per_class") or []]
    transform = node.attr("post_transform", "NONE")
    if len(sizes) != labels.size or labels.size < 2 or min(sizes) < 0:
        raise node.problem(f"{len(sizes)} groups of support vectors do not fit {labels.size} classes")
    if node.attr("prob_a") or node.attr("prob_b"):
        raise node.problem(
            "xdlc does not support libsvm's probabilities",
            "export the decisions: probability=False",
        )
    similar = _kernel(node, b, x, _vectors(node, sum(sizes), x.shape[1]))
    decisions = fully_connected(
        b,
        similar,
        b.const(_decisions(node, sizes), f"{b.stem}_weight"),
        b.const(numbers(node, "rho"), f"{b.stem}_rho"),
    )
    if labels.size > 2:
        if transform != "NONE":
            raise node.problem(
                f"xdlc does not support post_transform {transform!r} of decisions between classes"
            )
        return [labelled(node, b, labels, _most_votes(b, decisions, labels.size)), decisions]
    if transform not in ("NONE", "LOGISTIC"):
        raise node.problem(f"xdlc does not support post_transform {transform!r} of one decision")
    label = labelled(node, b, labels[::-1], above(b, decisions, 0.0))
    return [label, both(b, decisions, transform, mirrored=True)]


def _vectors(node: Node, count: int, width: int) -> Array:
    vectors = numbers(node, "support_vectors")
    if vectors.size != count * width:
        raise node.invalid(f"{vectors.size} numbers do not fit {count} support vectors of {width} features")
    return vectors.reshape(count, width)


def _decisions(node: Node, sizes: list[int]) -> Array:
    """Return coefficients of decisions between each two classes: [pairs, vectors].

    libsvm stores [classes - 1, vectors]: for a vector of one class, its coefficients against the others.
    """
    table = numbers(node, "coefficients")
    count = len(sizes) * (len(sizes) - 1) // 2
    if table.size != (len(sizes) - 1) * sum(sizes) or numbers(node, "rho").size != count:
        raise node.invalid(f"{table.size} coefficients do not fit {sum(sizes)} support vectors")
    pairs = list(combinations(range(len(sizes)), 2))
    table = table.reshape(len(sizes) - 1, sum(sizes))
    ends = np.cumsum([0, *sizes])
    weight = np.zeros((len(pairs), sum(sizes)), np.float32)
    for at, (i, j) in enumerate(pairs):
        weight[at, ends[i] : ends[i + 1]] = table[j - 1, ends[i] : ends[i + 1]]
        weight[at, ends[j] : ends[j + 1]] = table[i, ends[j] : ends[j + 1]]
    return weight


def _most_votes(b: Builder, decisions: Value, count: int) -> Value:
    """Return the class that wins most decisions, the first one if equal."""
    pairs = list(combinations(range(count), 2))
    votes, bias = np.zeros((count, len(pairs)), np.float32), np.zeros(count, np.float32)
    for at, (i, j) in enumerate(pairs):
        votes[i, at], votes[j, at] = 1.0, -1.0
        bias[j] += 1.0
    won = b.cast(compare(b, GREATER, decisions, number(b, decisions, 0.0)), FLOAT32)
    return greatest(b, fully_connected(b, won, b.const(votes), b.const(bias)))


def _kernel(node: Node, b: Builder, x: Value, vectors: Array) -> Value:
    """Return [N, S] for rows [N, F] and vectors [S, F].

    Raises:
        UnsupportedOp: If the kernel is a power with a broken exponent.
    """
    params = numbers(node, "kernel_params")
    gamma, coef0, degree = params.tolist() if params.size == 3 else (0.0, 0.0, 0.0)
    kind = node.attr("kernel_type", "LINEAR")
    if kind == "RBF":  # of differences: in float16 the form with squares cancels
        b.check_table(x.shape[0], *vectors.shape)
        wide = b.reshape(x, (x.shape[0], 1, x.shape[1]))
        away = b.binary(SUBTRACT, wide, b.const(vectors, f"{b.stem}_vectors"))
        square = reduced(b, "ReduceSum", b.binary(MULTIPLY, away, away), [2], keep=False)
        return unary(b, EXP, times(b, square, -gamma))
    if kind == "LINEAR":
        return fully_connected(b, x, b.const(vectors, f"{b.stem}_vectors"), None)
    bias = b.const(np.full(len(vectors), coef0, np.float32))
    line = fully_connected(b, x, b.const(vectors * np.float32(gamma), f"{b.stem}_vectors"), bias)
    if kind == "SIGMOID":
        return neuron(b, line, TANH)
    if kind != "POLY" or degree != int(degree) or not 1 <= degree <= 8:
        raise node.problem(f"kernel {kind!r} of degree {degree} is not supported")
    result = line
    for _ in range(int(degree) - 1):  # Power of HTP needs a base of 0 or more
        result = b.binary(MULTIPLY, result, line)
    return result
