"""Ensembles of decision trees as arithmetic.

A tree is two products of matrices.  The comparisons of its nodes are a vector of 0 and 1.  A matrix with 1
for a node whose true branch a leaf is in, and -1 for its false branch, counts the right turns on the way to
each leaf; only one leaf has all of them.  The second matrix holds what the leaves add to each target.  The
counts are whole numbers, which float16 holds exactly.  See Nakandala et al., "A Tensor Compiler for Unified
Machine Learning Prediction Serving" (OSDI 2020), strategy GEMM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, joined, number, picked, product, reduced
from xdlc.converter.operators.ops._formulas import fully_connected
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value
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

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""Comparisons of a node, by their numbers in TreeEnsemble."""
_OPERATIONS = (LESS_EQUAL, LESS, GREATER_EQUAL, GREATER, EQUAL, NOT_EQUAL, EQUAL)
_INVERSE = {0: 3, 1: 2, 2: 1, 3: 0}
_MOST = 1 << 22
"""Most elements of the matrices of turns; 16 MB of float32."""

Turn = tuple[int, bool]
"""Index of a node, and which of its branches is meant."""


@dataclass(frozen=True, slots=True)
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


def scores(
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
        raise node.invalid("it has no trees")
    leaf_targets = [
        [{target for target, _ in forest.weights.get(leaf, ())} for leaf, _ in tree] for tree in trees
    ]
    covered = [set.intersection(*leaves) for leaves in leaf_targets]
    if complete and len(set().union(*covered)) < forest.targets:
        raise node.problem("rows without a weight for a target are not supported")
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
    """Return the leaves of a tree with the turns that lead to each."""
    if not 0 <= root < len(forest.modes):
        raise node.invalid(f"a tree begins at node {root}, which does not exist")
    leaves: list[tuple[int, tuple[Turn, ...]]] = []
    todo: list[tuple[int, tuple[Turn, ...]]] = [(root, ())]
    visits, room = 0, _MOST
    while todo:
        index, path = todo.pop()
        visits += 1
        if visits > len(forest.modes):
            raise node.invalid("its nodes are not trees: a node has two parents")
        if forest.modes[index] < 0:
            leaves.append((index, path))
            continue
        room -= 2 * (len(path) + 1)
        if room < 0:
            raise node.problem("its trees are too deep for matrix products")
        for branch, child in zip((False, True), reversed(forest.branches[index]), strict=True):
            if not 0 <= child < len(forest.modes):
                raise node.invalid(f"node {index} has a branch {child} that does not exist")
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
            raise node.invalid(f"node {index} compares feature {forest.features[index]} of {width}")
        if forest.nan_is_true[index] and MODES[forest.modes[index]] in ("BRANCH_EQ", "BRANCH_MEMBER"):
            raise node.problem("comparisons for equality that NaN passes are not supported")
        columns[index] = range(total, total + len(forest.thresholds[index]))
        total += len(forest.thresholds[index])
    return columns


def _compared(
    b: Builder, x: Value, forest: Forest, columns: Sequence[Mapping[int, range]], wide: int
) -> Value:
    """Return whether each tree's comparisons hold, as 0 and 1: [trees, N, columns]."""
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
