"""Operators of ai.onnx.ml as scikit-learn writes them, compared with onnxruntime."""

from __future__ import annotations

import random

import numpy as np
import pytest
from onnx import TensorProto, helper

import xdlc
from tests.support.htp_models import needs_htp
from tests.support.onnx_models import build, check, expected, floats, node
from xdlc.errors import ModelError

ML = "ai.onnx.ml"
NAN = float("nan")
LONGS = np.array([[1, 2], [7, 3]])
GAPS = np.array([[0.5, NAN, -5], [NAN, 2, 3]], np.float32)
ROWS = np.array([[1, -3, 0.5], [0, 0, 0], [-2, -1, -4], [3000, 4, 500]], np.float32)


def ml(type, inputs="x", outputs="y", **attributes):
    return node(type, inputs, outputs, domain=ML, **attributes)


def linear(count, **more):
    return {"coefficients": floats(3 * count).tolist(), "intercepts": floats(count).tolist(), **more}


def machine(sizes, **more):
    pairs = len(sizes) * (len(sizes) - 1) // 2
    return {
        "coefficients": floats((len(sizes) - 1) * sum(sizes)).tolist(),
        "support_vectors": floats(sum(sizes) * 3).tolist(),
        "vectors_per_class": sizes,
        "rho": floats(pairs).tolist(),
        "classlabels_ints": [4, 7, 1][: len(sizes)],
        **more,
    }


SIMPLE = {
    "scaler": ("Scaler", ROWS, {"offset": [0.5, 1.0, -2.0], "scale": [2.0, 0.25, 1.0]}),
    "scaler of one number": ("Scaler", floats(3), {"offset": [0.5], "scale": [2.0]}),
    "scaler of integers": ("Scaler", LONGS, {"offset": [0.5, 1.0], "scale": [2.0, 0.25]}),
    "binarizer": ("Binarizer", ROWS, {"threshold": 0.5}),
    "normalizer by the greatest": ("Normalizer", ROWS, {"norm": "MAX"}),
    "normalizer L1": ("Normalizer", ROWS, {"norm": "L1"}),
    "normalizer L2": ("Normalizer", ROWS, {"norm": "L2"}),
    "imputer of NaN": ("Imputer", GAPS, {"imputed_value_floats": [1.0, 2, 3], "replaced_value_float": NAN}),
    "imputer of a number": ("Imputer", GAPS, {"imputed_value_floats": [9.0], "replaced_value_float": -5.0}),
    "imputer of integers": ("Imputer", LONGS, {"imputed_value_int64s": [9], "replaced_value_int64": 7}),
    "one hot": ("OneHotEncoder", LONGS, {"cats_int64s": [7, 1, 2]}),
    "one hot of floats": ("OneHotEncoder", LONGS + np.float32(0.5), {"cats_int64s": [7, 1, 2]}),
    "labels to integers": ("LabelEncoder", LONGS, {"keys_int64s": [2, 7, 2], "values_int64s": [70000, 5, 6]}),
    "labels to floats": ("LabelEncoder", LONGS, {"keys_int64s": [2, 7], "values_floats": [0.5, 1.5]}),
    "labels of floats": ("LabelEncoder", GAPS, {"keys_floats": [2.0, 0.5], "values_int64s": [8, 9]}),
    "label of rank 0": ("LabelEncoder", np.array(7), {"keys_int64s": [2, 7], "values_int64s": [8, 9]}),
    "linear": ("LinearRegressor", floats(4, 3), linear(1)),
    "linear to two": ("LinearRegressor", floats(4, 3), linear(2, targets=2, post_transform="SOFTMAX")),
    "machine": (
        "SVMRegressor",
        floats(4, 3),
        {"coefficients": [0.5, -2.0], "support_vectors": floats(6).tolist(), "n_supports": 2, "rho": [0.1],
         "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]},
    ),
    "machine of one class": (
        "SVMRegressor",
        floats(4, 3),
        {"coefficients": [0.5, -2.0], "support_vectors": floats(6).tolist(), "n_supports": 2, "rho": [0.1],
         "kernel_type": "SIGMOID", "kernel_params": [0.5, 0.3, 3.0], "one_class": 1},
    ),
}  # fmt: skip
CLASSIFIERS = {
    "linear": ("LinearClassifier", linear(3, classlabels_ints=[3, 1, 2], post_transform="SOFTMAX")),
    "linear of one score": (
        "LinearClassifier",
        linear(1, classlabels_ints=[4, 7], post_transform="LOGISTIC"),
    ),
    "linear of one plain score": ("LinearClassifier", linear(1, classlabels_ints=[0, 1])),
    "machine": ("SVMClassifier", machine([3, 2], kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0])),
    "machine of three": (
        "SVMClassifier",
        machine([2, 1, 2], kernel_type="LINEAR", kernel_params=[0.5, 0.0, 3.0]),
    ),
    "machine of a power": (
        "SVMClassifier",
        machine([3, 2], kernel_type="POLY", kernel_params=[0.5, 0.3, 3.0], post_transform="LOGISTIC"),
    ),
}


@pytest.mark.parametrize("case", SIMPLE)
def test_operator(models, case):
    type, x, attributes = SIMPLE[case]
    check(models, [ml(type, **attributes)], {"x": x}, domain_opset=2 if type == "LabelEncoder" else 1)


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_classifier(models, case):
    type, attributes = CLASSIFIERS[case]
    check(models, [ml(type, outputs="l s", **attributes)], {"x": floats(6, 3)}, outputs=("l", "s"))


@pytest.mark.parametrize("shape", [(2, 4), (4,), (2, 3, 4)])
def test_features_are_extracted(models, shape):
    check(models, [ml("ArrayFeatureExtractor", "x i")], {"x": floats(*shape), "i": np.array([[3, 1]])})


def test_features_are_joined(models):
    feeds = {"x": floats(3, 2), "z": floats(3, 1)}
    check(models, [ml("FeatureVectorizer", "x z", inputdimensions=[2, 1])], feeds)


@pytest.mark.parametrize(("version", "label"), [(2, -1), (4, 9)])
def test_a_key_that_is_nan_counts_from_version_4_on(models, version, label):
    encoder = ml("LabelEncoder", keys_floats=[1.0, NAN], values_int64s=[8, 9])
    model = build([encoder], {"x": GAPS}, {}, ["y"], 17, version)
    assert xdlc.run(xdlc.convert(model), {"x": GAPS})["y"].reshape(-1)[1] == label


# ------------------------------------------------------------------ trees


class Trees:
    """Random trees as attributes: of nodes by their numbers inside a tree."""

    def __init__(self, seed, *, count=4, features=3, depth=4, modes=("BRANCH_LEQ",), missing=0.0):
        self._random = random.Random(seed)
        self._modes, self._features, self._missing = modes, features, missing
        names = "treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true"
        self.nodes = {f"nodes_{name}": [] for name in names.split()}
        self.leaves = []
        for tree in range(count):
            self._grow(tree, [0], depth)

    def _grow(self, tree, numbers, depth):
        number, place = numbers[0], len(self.nodes["nodes_treeids"])
        numbers[0] += 1
        is_leaf = not depth or self._random.random() < 0.1
        mode = "LEAF" if is_leaf else self._random.choice(self._modes)
        row = [
            tree,
            number,
            self._random.randrange(self._features),
            self._random.randint(-4, 4) / 4,
            mode,
            0,
            0,
        ]
        for column, value in zip(
            self.nodes.values(), [*row, int(self._random.random() < self._missing)], strict=True
        ):
            column.append(value)
        if is_leaf:
            self.leaves.append((tree, number))
        else:
            for name in ("truenodeids", "falsenodeids"):
                self.nodes[f"nodes_{name}"][place] = self._grow(tree, numbers, depth - 1)
        return number

    def weighted(self, kind, weight, targets=lambda tree: [0]):
        """Return all attributes, with ``weight()`` for each leaf and target."""
        rows = [(*leaf, target, weight()) for leaf in self.leaves for target in targets(leaf[0])]
        names = ("treeids", "nodeids", "ids", "weights")
        return self.nodes | {
            f"{kind}_{name}": list(column)
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }


EDGES = np.array([[-1, 0, 0.25], [0.5, 1, -0.25], [NAN, 0.75, 0], [0, NAN, NAN]], np.float32)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def number():
    return float(floats())


def share():
    return abs(number()) / 4


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(("modes", "missing"), [(MODES[:1], 0.0), (MODES, 0.0), (MODES[:4], 0.5)])
def test_trees_of_a_regressor(models, aggregate, modes, missing):
    """Thresholds are met exactly, and NaN takes the branch that the node states."""
    trees = Trees(5, modes=modes, missing=missing).weighted("target", number, lambda tree: [0, 1])
    regressor = ml(
        "TreeEnsembleRegressor", n_targets=2, aggregate_function=aggregate, base_values=[0.5, -1.0], **trees
    )
    check(models, [regressor], {"x": EDGES}, domain_opset=3)


CLASSES = {
    "all": (3, share, lambda tree: [0, 1, 2], {}),
    "one a tree": (3, number, lambda tree: [tree % 3], {"post_transform": "SOFTMAX"}),
    "base": (3, number, lambda tree: [tree % 2], {"base_values": [0.5, -1.0, 0.1]}),
    "two, shares": (2, share, lambda tree: [0], {}),
    "two, numbers": (2, number, lambda tree: [0], {"base_values": [0.1], "post_transform": "LOGISTIC"}),
    "two, shares of the other": (2, share, lambda tree: [1], {}),
}


@pytest.mark.parametrize("case", CLASSES)
def test_trees_of_a_classifier(models, case):
    count, weight, targets, more = CLASSES[case]
    trees = Trees(3).weighted("class", weight, targets)
    classifier = ml(
        "TreeEnsembleClassifier", outputs="l s", classlabels_int64s=[5, 9, 2][:count], **trees, **more
    )
    check(models, [classifier], {"x": EDGES}, domain_opset=3, outputs=("l", "s"))


def test_a_tree_ensemble_of_version_5(models):
    """A node may compare with a set; positions state its true branch and a leaf."""
    tree = {
        "nodes_featureids": [0, 1, 2],
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [3], [0, 6, 3]),
        "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [3], [0.25, 0, 1]),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [0, 1, 1],
        "tree_roots": [0],
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [4], [1, 2, 3, 4]),
        "membership_values": helper.make_tensor("v", TensorProto.FLOAT, [4], [1, 3, 5, NAN]),
    }
    x = np.array([[0.25, 3, 0], [0, 2, 0], [0.5, 0, 1], [7, 0, 1.5]], np.float32)
    check(models, [ml("TreeEnsemble", n_targets=2, **tree)], {"x": x}, domain_opset=5)


KEPT = {
    "rows without a weight": (
        "TreeEnsembleRegressor",
        Trees(5).weighted("target", number),
        {"n_targets": 2, "base_values": [0.5, 1.0]},
    ),
    "two classes with weights for both": (
        "TreeEnsembleClassifier",
        Trees(5).weighted("class", number, lambda tree: [0, 1]),
        {"classlabels_int64s": [5, 9]},
    ),
    "probabilities of libsvm": (
        "SVMClassifier",
        machine([3, 2], kernel_type="LINEAR", kernel_params=[0.5, 0.0, 3.0]),
        {"prob_a": [-1.0], "prob_b": [0.2]},
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_rules_of_onnxruntime_alone_stay_on_the_host(models, case):
    type, attributes, more = KEPT[case]
    outputs = ("y",) if type.endswith("Regressor") else ("y", "s")
    kept = ml(type, outputs=" ".join(outputs), **attributes, **more)
    model = check(models, [kept], {"x": floats(5, 3)}, domain_opset=3, outputs=outputs, native=False)
    assert all(None not in tensor.shape for tensor in model.main.outputs)


def test_large_trees_stay_on_the_host(models):
    count = 3000  # leaves of one chain: the matrix of its turns has 9 M elements
    nodes = {
        f"nodes_{name}": []
        for name in "treeids nodeids featureids values modes truenodeids falsenodeids".split()
    }
    for index in range(count):
        for number_of, row in (
            (2 * index, [0.001 * index, "BRANCH_LEQ", 2 * index + 1, 2 * index + 2]),
            (2 * index + 1, [0.0, "LEAF", 0, 0]),
        ):
            for column, value in zip(nodes.values(), [0, number_of, 0, *row], strict=True):
                column.append(value)
    for column, value in zip(nodes.values(), [0, 2 * count, 0, 0.0, "LEAF", 0, 0], strict=True):
        column.append(value)
    leaves = [*range(1, 2 * count, 2), 2 * count]
    weights = {
        "target_treeids": [0] * len(leaves),
        "target_nodeids": leaves,
        "target_ids": [0] * len(leaves),
        "target_weights": np.arange(len(leaves)).astype(float).tolist(),
    }
    regressor = ml("TreeEnsembleRegressor", n_targets=1, **nodes, **weights)
    check(models, [regressor], {"x": np.array([[0.5], [2.9]], np.float32)}, domain_opset=3, native=False)


BROKEN = {
    "a branch to nowhere": {"nodes_truenodeids": [7, 0, 0]},
    "two parents": {"nodes_truenodeids": [2, 0, 0]},
    "a feature too many": {"nodes_featureids": [3, 0, 0]},
    "lists of several lengths": {"nodes_values": [0.0]},
    "a weight of no leaf": {"target_nodeids": [0, 2]},
    "an unknown comparison": {"nodes_modes": ["BRANCH_XX", "LEAF", "LEAF"]},
}


@pytest.mark.parametrize("case", BROKEN)
def test_nodes_that_are_no_trees_are_refused(models, case):
    stump = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
    }
    model = build(
        [ml("TreeEnsembleRegressor", **stump | BROKEN[case])], {"x": floats(2, 3)}, {}, ["y"], 17, 3
    )
    with pytest.raises(ModelError):
        xdlc.convert(models.save(model))


def test_a_loop_of_nodes_is_refused(models):
    tree = {
        "nodes_featureids": [0],
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [1], [0]),
        "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [1], [0.25]),
        "nodes_truenodeids": [0],
        "nodes_trueleafs": [0],
        "nodes_falsenodeids": [0],
        "nodes_falseleafs": [1],
        "tree_roots": [0],
        "leaf_targetids": [0],
        "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [1], [1]),
    }
    model = build([ml("TreeEnsemble", n_targets=1, **tree)], {"x": floats(2, 3)}, {}, ["y"], 17, 5)
    with pytest.raises(ModelError):
        xdlc.convert(models.save(model))


def test_a_network_after_a_scaler_of_doubles_keeps_its_shapes(models):
    """The Scaler stays on the host; what follows is QNN's."""
    nodes = [ml("Scaler", "x", "s", offset=[0.5], scale=[2.0]), node("MatMul", "s w")]
    model = check(models, nodes, {"x": floats(4, 3).astype(np.float64)}, {"w": floats(3, 2)}, native=False)
    assert [op.package for op in model.main.ops] == ["xdlc", "qti.aisw"]


@pytest.mark.vendor
@needs_htp
@pytest.mark.parametrize(
    "case", [*(case for case in SIMPLE if case != "imputer of a number"), *CLASSIFIERS, *CLASSES]
)
def test_htp_computes_the_same(case):
    if case in SIMPLE:
        type, x, attributes = SIMPLE[case]
        node, outputs = ml(type, **attributes), ["y"]
    else:
        outputs, x = ["l", "s"], floats(6, 3)
        if case in CLASSIFIERS:
            type, attributes = CLASSIFIERS[case]
        else:
            count, weight, targets, more = CLASSES[case]
            type = "TreeEnsembleClassifier"
            attributes = (
                Trees(3).weighted("class", weight, targets) | more | {"classlabels_int64s": [5, 9, 2][:count]}
            )
        node = ml(type, outputs="l s", **attributes)
    model = build([node], {"x": x}, {}, outputs, 17, 3 if type.startswith("Tree") else 2)
    found = xdlc.run(xdlc.convert(model), {"x": x}, runtime="htp", soc="sm8650")
    for name, want in zip(outputs, expected(model, {"x": x}, reference=False), strict=True):
        tolerance = 0 if want.dtype.kind == "i" else 1e-2 * np.abs(want).max()
        np.testing.assert_allclose(found[name], want, rtol=0, atol=tolerance)
