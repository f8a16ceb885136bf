"""TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number, part
from xdlc.converter.operators.ops.ml import _trees
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
from xdlc.ir import TensorData
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import ADD

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_HITRATES = ("nodes_hitrates", "nodes_hitrates_as_tensor")


@importer("TreeEnsembleRegressor", domain=ML, ignores=_HITRATES)
def tree_ensemble_regressor(node: Node, b: Builder) -> Value:
    """Write the trees as products of matrices."""
    x, targets = rows(node, b), node.attr("n_targets", 1)
    forest = _forest(node, "target", targets)
    aggregate = node.attr("aggregate_function", "SUM")
    if aggregate not in _AGGREGATES:
        raise node.invalid(f"aggregate_function {aggregate!r}")
    base = _base(node, numbers(node, "base_values"), targets)
    scores = _trees.scores(node, b, x, forest, aggregate, base, complete=bool(base.any()))
    return transformed(node, b, scores, node.attr("post_transform", "NONE"))


@importer("TreeEnsembleClassifier", domain=ML, ignores=_HITRATES)
def tree_ensemble_classifier(node: Node, b: Builder) -> list[Value]:
    """Write the trees as products of matrices, and the class of the greatest score.

    Two classes with weights for one are decided by its score, as onnxruntime does it.
    """
    x, labels = rows(node, b), class_labels(node, "classlabels_int64s")
    transform, base = node.attr("post_transform", "NONE"), numbers(node, "base_values")
    forest = _forest(node, "class", labels.size)
    weights = [weight for leaf in forest.weights.values() for _, weight in leaf]
    weighted = {target for leaf in forest.weights.values() for target, _ in leaf}
    if labels.size > 2:
        complete = not base.size and min(weights, default=0.0) <= 0
        base = _base(node, base, labels.size)
        scores = _trees.scores(node, b, x, forest, "SUM", base, complete=complete)
        return [labelled(node, b, labels, greatest(b, scores)), transformed(node, b, scores, transform)]
    if labels.size < 2 or len(weighted) != 1 or base.size > 1 or (base.size and weighted == {1}):
        raise node.problem("classes whose labels onnxruntime takes from other scores are not supported")
    both_scores = _trees.scores(node, b, x, forest, "SUM", np.zeros(2, np.float32), complete=False)
    (column,) = weighted
    score = part(b, both_scores, 1, column, column + 1)
    if base.size:
        score = b.binary(ADD, score, number(b, score, base[0]))
    is_positive = min(weights) >= 0
    label = labelled(node, b, labels, above(b, score, 0.5 if is_positive else 0.0))
    if column:
        return [label, transformed(node, b, both_scores, transform)]
    if transform not in ("NONE", "LOGISTIC", "SOFTMAX"):
        raise node.problem(f"post_transform {transform!r} is not supported")
    return [label, both(b, score, transform, mirrored=transform == "LOGISTIC" or not is_positive)]


@importer("TreeEnsemble", domain=ML, ignores=("nodes_hitrates",))
def tree_ensemble(node: Node, b: Builder) -> Value:
    """Write the trees as products of matrices."""
    x, targets = rows(node, b), node.attr("n_targets", 1)
    aggregate, transform = node.attr("aggregate_function", 1), node.attr("post_transform", 0)
    if not 0 <= aggregate < len(_AGGREGATES):
        raise node.invalid(f"aggregate_function {aggregate}")
    if transform:
        raise node.problem("post_transform is not supported: ONNX and onnxruntime differ on its numbers")
    forest = _numbered_forest(node, targets)
    base = np.zeros(targets, np.float32)
    return _trees.scores(node, b, x, forest, _AGGREGATES[aggregate], base, complete=False)


def _base(node: Node, base: Array, targets: int) -> Array:
    """Return one number for each target."""
    if base.size not in (0, targets):
        raise node.invalid(f"{base.size} base values of {targets} targets")
    return base if base.size else np.zeros(targets, np.float32)


def _forest(node: Node, kind: str, targets: int) -> _trees.Forest:
    """Return the nodes that attributes with names of nodes inside trees describe."""
    trees, ids = _ints(node, "nodes_treeids"), _ints(node, "nodes_nodeids")
    modes = [str(mode) for mode in node.attr("nodes_modes") or []]
    thresholds = numbers(node, "nodes_values")
    features, true, false = (
        _ints(node, f"nodes_{name}") for name in ("featureids", "truenodeids", "falsenodeids")
    )
    missing = _ints(node, "nodes_missing_value_tracks_true") or [0] * len(ids)
    columns = (trees, ids, modes, thresholds, features, true, false, missing)
    if len({len(column) for column in columns}) != 1 or not ids:
        raise node.invalid("its lists of nodes differ in length, or are empty")
    index = {key: at for at, key in enumerate(zip(trees, ids, strict=True))}
    unknown = sorted(set(modes) - {*_trees.MODES[:-1], "LEAF"})
    if len(index) != len(ids) or unknown:
        raise node.invalid(f"a node is there twice, or has mode {unknown}")
    weights: dict[int, list[tuple[int, float]]] = {}
    places = (_ints(node, f"{kind}_{name}") for name in ("treeids", "nodeids", "ids"))
    values = numbers(node, f"{kind}_weights")
    try:
        for tree, leaf, target, weight in zip(*places, values.tolist(), strict=True):
            if not 0 <= target < targets or modes[index[tree, leaf]] != "LEAF":
                raise node.invalid(f"a weight for target {target} at node {leaf} of tree {tree}")
            weights.setdefault(index[tree, leaf], []).append((target, weight))
    except (KeyError, ValueError) as error:
        raise node.invalid(f"its weights do not fit its leaves: {error}") from error
    branches = [
        (index.get((tree, a), -1), index.get((tree, c), -1)) if mode != "LEAF" else (-1, -1)
        for tree, a, c, mode in zip(trees, true, false, modes, strict=True)
    ]
    children = [child for pair in branches for child in pair if child >= 0]
    return _trees.Forest(
        features=features,
        thresholds=[[value] for value in thresholds.tolist()],
        modes=[-1 if mode == "LEAF" else _trees.MODES.index(mode) for mode in modes],
        branches=branches,
        nan_is_true=[bool(flag) for flag in missing],
        weights=weights,
        roots=_roots(node, trees, children),
        targets=targets,
    )


def _roots(node: Node, trees: Sequence[int], children: Sequence[int]) -> list[int]:
    """Return the node of each tree that no branch leads to."""
    inner = set(children)
    roots = [at for at in range(len(trees)) if at not in inner]
    if len({trees[root] for root in roots}) != len(set(trees)) or len(roots) != len(set(trees)):
        raise node.invalid("a tree has no root, or several")
    if len(inner) != len(children):
        raise node.invalid("a node has two parents")
    return roots


def _numbered_forest(node: Node, targets: int) -> _trees.Forest:
    """Return nodes of attributes that number nodes and leaves; leaves come last."""
    true, false, true_leaf, false_leaf, features = (
        _ints(node, f"nodes_{name}")
        for name in ("truenodeids", "falsenodeids", "trueleafs", "falseleafs", "featureids")
    )
    modes, splits, weights = (_array(node, name) for name in ("nodes_modes", "nodes_splits", "leaf_weights"))
    members, leaf_targets = _array(node, "membership_values"), _ints(node, "leaf_targetids")
    missing = _ints(node, "nodes_missing_value_tracks_true") or [0] * len(modes)
    columns = (true, false, true_leaf, false_leaf, features, modes, splits, missing)
    if len({len(column) for column in columns}) != 1:
        raise node.invalid("its lists of nodes differ in length")
    if len(weights) != len(leaf_targets) or any(not 0 <= target < targets for target in leaf_targets):
        raise node.invalid("its leaves do not fit the targets")
    if any(not 0 <= mode < len(_trees.MODES) for mode in modes):
        raise node.invalid("a node has a mode that does not exist")
    if any(array.dtype == np.float64 for array in (splits, weights)):
        raise node.problem("its numbers are double, which float32 does not hold")
    sets = iter(_sets(members))
    count = len(modes)
    return _trees.Forest(
        features=[*features, *[0] * len(weights)],
        thresholds=[
            next(sets, []) if mode == len(_trees.MODES) - 1 else [float(split)]
            for mode, split in zip(modes, splits, strict=True)
        ],
        modes=[*(int(mode) for mode in modes), *[-1] * len(weights)],
        branches=[
            (a + count if a_leaf else a, c + count if c_leaf else c)
            for a, a_leaf, c, c_leaf in zip(true, true_leaf, false, false_leaf, strict=True)
        ],
        nan_is_true=[*(bool(flag) for flag in missing), *[False] * len(weights)],
        weights={count + at: [(leaf_targets[at], float(weight))] for at, weight in enumerate(weights)},
        roots=_ints(node, "tree_roots"),
        targets=targets,
    )


def _sets(members: Array) -> list[list[float]]:
    """Return the sets of values that NaN separates."""
    ends = np.flatnonzero(np.isnan(members)).tolist()
    starts = [0, *(end + 1 for end in ends)]
    return [sorted(set(members[start:end].tolist())) for start, end in zip(starts, ends, strict=False)]


def _ints(node: Node, name: str) -> list[int]:
    return [int(item) for item in node.attr(name) or []]


def _array(node: Node, name: str) -> Array:
    value = node.attr(name)
    return value.numpy().reshape(-1) if isinstance(value, TensorData) else np.zeros(0, np.float32)
