"""Ensembles of decision trees as arithmetic.

A tree is two products of matrices.  The comparisons of its nodes are a vector of 0 and 1.  A matrix with 1
for a node whose true branch a leaf is in, and -1 for its false branch, counts the right turns on the way to
each leaf; only one leaf has all of them.  The second matrix holds what the leaves add to each target.  The
counts are whole numbers, which float16 holds exactly.  See Nakandala et al., "A Tensor Compiler for Unified
Machine Learning Prediction Serving" (OSDI 2020), strategy GEMM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ML, Node, importer
from xdlc.converter.ops._compose import compare, joined, number, part, picked, product, reduced
from xdlc.converter.ops._formulas import fully_connected
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
from xdlc.ir import TensorData
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import (
    ADD,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    NOT_EQUAL,
    SUBTRACT,
)
from xdlc.records import record

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""Comparisons of a node, by their numbers in TreeEnsemble."""
_OPERATIONS = (LESS_EQUAL, LESS, GREATER_EQUAL, GREATER, EQUAL, NOT_EQUAL, EQUAL)
_INVERSE = {0: 3, 1: 2, 2: 1, 3: 0}
_MOST = 1 << 22
"""Most elements of the matrices of turns; 16 MB of float32."""

Turn = tuple[int, bool]
"""Index of a node, and which of its branches is meant."""


@record(frozen=True)
class Forest:
    """Nodes of all trees, by index.

    Attributes:
        features: Column that a node compares.
        thresholds: Numbers that it is compared with, several for BRANCH_MEMBER.
        modes: Position of the comparison in ``MODES``; a leaf has -1.
        branches: Index of the true branch and of the false branch.
        nan_is_true: Whether NaN takes the true branch.
        weights: What each leaf adds to targets.
        roots: Index of the root of each tree.
    """

    features: Sequence[int]
    thresholds: Sequence[Sequence[float]]
    modes: Sequence[int]
    branches: Sequence[tuple[int, int]]
    nan_is_true: Sequence[bool]
    weights: Mapping[int, Sequence[tuple[int, float]]]
    roots: Sequence[int]
    targets: int


def forest_scores(
    node: Node, b: Builder, x: Value, forest: Forest, aggregate: str, base: Array, *, complete: bool
) -> Value:
    """Return [N, targets]: the leaves that rows [N, F] reach, aggregated over trees.

    Args:
        aggregate: SUM, AVERAGE, MIN or MAX.
        base: Added to each target.
        complete: Whether each row needs a weight for each target; onnxruntime has other rules otherwise.

    Raises:
        ModelError: If the nodes are not trees, or compare features that do not exist.
        UnsupportedOp: If they are too many for matrices, or a row may lack a weight that is needed.
    """
    trees = [_paths(node, forest, root) for root in forest.roots]
    if not trees:
        raise node.invalid("the node has no trees")
    leaf_targets = [
        [{target for target, _ in forest.weights.get(leaf, ())} for leaf, _ in tree] for tree in trees
    ]
    covered = [set.intersection(*leaves) for leaves in leaf_targets]
    if complete and len(set().union(*covered)) < forest.targets:
        raise node.problem("xdlc does not support rows without a weight for a target")
    columns = [_columns(node, forest, tree, x.shape[1]) for tree in trees]
    wide = max(sum(map(len, by_tree.values())) for by_tree in columns) or 1
    leaves = max(len(tree) for tree in trees)
    count = len(trees)
    if count * leaves * max(wide, forest.targets) > _MOST or x.shape[0] * count * leaves >= 1 << 31:
        raise node.problem(f"{count} trees of up to {leaves} leaves are too many for matrix products")
    turns = np.zeros((count, wide, leaves), np.float32)
    needed = np.full((count, 1, leaves), wide + 1.0, np.float32)
    weights = np.zeros((count, leaves, forest.targets), np.float32)
    for at, (tree, places) in enumerate(zip(trees, columns, strict=True)):
        for position, (leaf, path) in enumerate(tree):
            needed[at, 0, position] = sum(branch for _, branch in path) - 0.5
            for index, branch in path:
                for column in places[index]:
                    turns[at, column, position] = 1.0 if branch else -1.0
            for target, weight in forest.weights.get(leaf, ()):
                weights[at, position, target] += np.float32(weight)
    right = product(b, _compared(b, x, forest, columns, wide), b.const(turns, f"{b.stem}_turns"))
    reached = b.cast(compare(b, GREATER, right, b.const(needed)), FLOAT32)
    if aggregate in ("SUM", "AVERAGE"):
        flat = b.reshape(b.transpose(reached, (1, 0, 2)), (x.shape[0], count * leaves))
        shares = weights.reshape(count * leaves, -1).T / np.float32(count if aggregate == "AVERAGE" else 1)
        bias = b.const(base, f"{b.stem}_base")
        return fully_connected(b, flat, b.const(shares.astype(np.float32), f"{b.stem}_leaves"), bias)
    if any(len(targets) < forest.targets for targets in covered):
        raise node.problem(f"aggregate_function {aggregate} requires a weight for each target in each leaf")
    by_tree = product(b, reached, b.const(weights, f"{b.stem}_leaves"))
    best = reduced(b, {"MIN": "ReduceMin", "MAX": "ReduceMax"}[aggregate], by_tree, [0], keep=False)
    return b.binary(ADD, best, b.const(base))


def _paths(node: Node, forest: Forest, root: int) -> list[tuple[int, tuple[Turn, ...]]]:
    """Return the leaves of a tree with the decisions that lead to each."""
    if not 0 <= root < len(forest.modes):
        raise node.invalid(f"a tree begins at node {root}, which does not exist")
    leaves: list[tuple[int, tuple[Turn, ...]]] = []
    todo: list[tuple[int, tuple[Turn, ...]]] = [(root, ())]
    visits, room = 0, _MOST
    while todo:
        index, path = todo.pop()
        visits += 1
        if visits > len(forest.modes):
            raise node.invalid("the nodes are not trees: a node has two parents")
        if forest.modes[index] < 0:
            leaves.append((index, path))
            continue
        room -= 2 * (len(path) + 1)
        if room < 0:
            raise node.problem("the trees are too deep for matrix products")
        for branch, child in zip((False, True), reversed(forest.branches[index]), strict=True):
            if not 0 <= child < len(forest.modes):
                raise node.invalid(f"node {index} has a branch to node {child}, which does not exist")
            todo.append((child, (*path, (index, branch))))
    return leaves


def _columns(
    node: Node, forest: Forest, tree: Sequence[tuple[int, tuple[Turn, ...]]], width: int
) -> dict[int, range]:
    """Return the columns of each node among the comparisons of its tree."""
    columns: dict[int, range] = {}
    total = 0
    for index in sorted({index for _, path in tree for index, _ in path}):
        if not 0 <= forest.features[index] < width:
            raise node.invalid(
                f"node {index} compares feature {forest.features[index]}, but the input has {width} features"
            )
        if forest.nan_is_true[index] and MODES[forest.modes[index]] in ("BRANCH_EQ", "BRANCH_MEMBER"):
            raise node.problem("xdlc does not support comparisons for equality that NaN passes")
        columns[index] = range(total, total + len(forest.thresholds[index]))
        total += len(forest.thresholds[index])
    return columns


def _compared(
    b: Builder, x: Value, forest: Forest, columns: Sequence[Mapping[int, range]], wide: int
) -> Value:
    """Return the results of each tree's comparisons, 0 or 1: [trees, N, columns]."""
    count = len(columns)
    features, limits = np.zeros(count * wide, np.int32), np.zeros(count * wide, np.float32)
    kinds = np.full(count * wide, -1)
    for at, places in enumerate(columns):
        for index, indices in places.items():
            where = slice(at * wide + indices.start, at * wide + indices.stop)
            features[where], limits[where] = forest.features[index], forest.thresholds[index]
            mode = forest.modes[index]
            kinds[where] = mode if not forest.nan_is_true[index] else mode + len(MODES)
    kinds[kinds < 0] = kinds.max(initial=0)
    parts: list[Value] = []
    order: list[Array] = []
    for kind in np.unique(kinds):
        places_of_kind = np.flatnonzero(kinds == kind)
        mode, inverted = kind % len(MODES), kind >= len(MODES)
        operation = _OPERATIONS[_INVERSE.get(mode, mode) if inverted else mode]
        chosen = picked(b, x, 1, features[places_of_kind])
        holds = b.cast(compare(b, operation, chosen, b.const(limits[places_of_kind])), FLOAT32)
        if inverted and mode in _INVERSE:  # NaN fails each comparison, so it passes the inverse of one
            holds = b.binary(SUBTRACT, number(b, holds, 1.0), holds)
        parts.append(holds)
        order.append(places_of_kind)
    flat = picked(b, joined(b, parts, 1), 1, np.argsort(np.concatenate(order)))
    return b.transpose(b.reshape(flat, (x.shape[0], count, wide)), (1, 0, 2))


_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_HITRATES = ("nodes_hitrates", "nodes_hitrates_as_tensor")


@importer("TreeEnsembleRegressor", domain=ML, ignores=_HITRATES)
def tree_ensemble_regressor(node: Node, b: Builder) -> Value:
    """Write the trees as products of matrices."""
    x, targets = rows(node, b), node.attr("n_targets", 1)
    forest = _forest(node, "target", targets)
    aggregate = node.attr("aggregate_function", "SUM")
    if aggregate not in _AGGREGATES:
        raise node.invalid(f"aggregate_function {aggregate!r} is not valid")
    base = _base(node, numbers(node, "base_values"), targets)
    scores = forest_scores(node, b, x, forest, aggregate, base, complete=bool(base.any()))
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
        scores = forest_scores(node, b, x, forest, "SUM", base, complete=complete)
        return [labelled(node, b, labels, greatest(b, scores)), transformed(node, b, scores, transform)]
    if labels.size < 2 or len(weighted) != 1 or base.size > 1 or (base.size and weighted == {1}):
        raise node.problem("xdlc does not support classes whose labels onnxruntime derives from other scores")
    both_scores = forest_scores(node, b, x, forest, "SUM", np.zeros(2, np.float32), complete=False)
    (column,) = weighted
    score = part(b, both_scores, 1, column, column + 1)
    if base.size:
        score = b.binary(ADD, score, number(b, score, base[0]))
    is_positive = min(weights) >= 0
    label = labelled(node, b, labels, above(b, score, 0.5 if is_positive else 0.0))
    if column:
        return [label, transformed(node, b, both_scores, transform)]
    if transform not in ("NONE", "LOGISTIC", "SOFTMAX"):
        raise node.problem(f"xdlc does not support post_transform {transform!r}")
    return [label, both(b, score, transform, mirrored=transform == "LOGISTIC" or not is_positive)]


@importer("TreeEnsemble", domain=ML, ignores=("nodes_hitrates",))
def tree_ensemble(node: Node, b: Builder) -> Value:
    """Write the trees as products of matrices."""
    x, targets = rows(node, b), node.attr("n_targets", 1)
    aggregate, transform = node.attr("aggregate_function", 1), node.attr("post_transform", 0)
    if not 0 <= aggregate < len(_AGGREGATES):
        raise node.invalid(f"aggregate_function {aggregate} is not valid")
    if transform:
        raise node.problem("post_transform is not supported: ONNX and onnxruntime differ on its numbers")
    forest = _numbered_forest(node, targets)
    base = np.zeros(targets, np.float32)
    return forest_scores(node, b, x, forest, _AGGREGATES[aggregate], base, complete=False)


def _base(node: Node, base: Array, targets: int) -> Array:
    """Return one number for each target."""
    if base.size not in (0, targets):
        raise node.invalid(f"{base.size} base values do not fit {targets} targets")
    return base if base.size else np.zeros(targets, np.float32)


def _forest(node: Node, kind: str, targets: int) -> Forest:
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
        raise node.invalid("the lists of nodes differ in length, or are empty")
    index = {key: at for at, key in enumerate(zip(trees, ids, strict=True))}
    unknown = sorted(set(modes) - {*MODES[:-1], "LEAF"})
    if len(index) != len(ids) or unknown:
        raise node.invalid(f"a node is listed twice, or has mode {unknown}")
    weights: dict[int, list[tuple[int, float]]] = {}
    places = (_ints(node, f"{kind}_{name}") for name in ("treeids", "nodeids", "ids"))
    values = numbers(node, f"{kind}_weights")
    try:
        for tree, leaf, target, weight in zip(*places, values.tolist(), strict=True):
            if not 0 <= target < targets or modes[index[tree, leaf]] != "LEAF":
                raise node.invalid(f"node {leaf} of tree {tree} cannot have a weight for target {target}")
            weights.setdefault(index[tree, leaf], []).append((target, weight))
    except (KeyError, ValueError) as error:
        raise node.invalid(f"the weights do not fit the leaves: {error}") from error
    branches = [
        (index.get((tree, a), -1), index.get((tree, c), -1)) if mode != "LEAF" else (-1, -1)
        for tree, a, c, mode in zip(trees, true, false, modes, strict=True)
    ]
    children = [child for pair in branches for child in pair if child >= 0]
    return Forest(
        features=features,
        thresholds=[[value] for value in thresholds.tolist()],
        modes=[-1 if mode == "LEAF" else MODES.index(mode) for mode in modes],
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


def _numbered_forest(node: Node, targets: int) -> Forest:
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
        raise node.invalid("the lists of nodes differ in length")
    if len(weights) != len(leaf_targets) or any(not 0 <= target < targets for target in leaf_targets):
        raise node.invalid("the leaves do not fit the targets")
    if any(not 0 <= mode < len(MODES) for mode in modes):
        raise node.invalid("a node has a mode that does not exist")
    if any(array.dtype == np.float64 for array in (splits, weights)):
        raise node.problem("the numbers are double, which float32 does not hold")
    sets = iter(_sets(members))
    count = len(modes)
    return Forest(
        features=[*features, *[0] * len(weights)],
        thresholds=[
            next(sets, []) if mode == len(MODES) - 1 else [float(split)]
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
