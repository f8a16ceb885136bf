"""LinearClassifier and LinearRegressor."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._formulas import fully_connected
from xdlc.converter.operators.ops.ml._features import (
    above,
    both,
    class_labels,
    greatest,
    labelled,
    numbers,
    rows,
    transformed,
)
from xdlc.converter.operators.registry import ML, Node, importer
from xdlc.converter.values import Value


@importer("LinearRegressor", domain=ML)
def linear_regressor(node: Node, b: Builder) -> Value:
    """Map onto FullyConnected."""
    count, transform = node.attr("targets", 1), node.attr("post_transform", "NONE")
    if count == 1 and transform != "NONE":
        raise node.problem(f"post_transform {transform!r} of one target is not supported")
    return transformed(node, b, weighted(node, b, count), transform)


@importer("LinearClassifier", domain=ML, ignores=("multi_class",))
def linear_classifier(node: Node, b: Builder) -> list[Value]:
    """Map onto FullyConnected and Argmax; one score decides between two classes."""
    labels, transform = class_labels(node, "classlabels_ints"), node.attr("post_transform", "NONE")
    count = numbers(node, "intercepts").size or labels.size
    scores = weighted(node, b, count)
    if count > 1:
        if labels.size != count:
            raise node.invalid(f"{labels.size} labels of {count} classes")
        return [labelled(node, b, labels, greatest(b, scores)), transformed(node, b, scores, transform)]
    if transform not in ("NONE", "LOGISTIC"):
        raise node.problem(f"post_transform {transform!r} of one score is not supported")
    if labels.size != 2:
        raise node.problem(f"one score for {labels.size} classes is not supported")
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
            f"{coefficients.size} coefficients and {intercepts.size} intercepts of {count} targets "
            f"for {x.shape[1]} features"
        )
    bias = intercepts if intercepts.size else np.zeros(count, np.float32)
    weight = b.const(coefficients.reshape(count, -1), f"{b.stem}_weight")
    return fully_connected(b, x, weight, b.const(bias, f"{b.stem}_bias"))
