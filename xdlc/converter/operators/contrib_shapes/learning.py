"""Output shapes of operators of ``ai.onnx.ml``."""

from __future__ import annotations

import math
from typing import Any

from xdlc.converter.operators import protobuf
from xdlc.converter.operators.contrib_shapes.rules import (
    Output,
    Rule,
    float32,
    int64,
    same,
)
from xdlc.converter.values import Dims


def like_input(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Scaler, Normalizer: float32 of the input's shape."""
    return [(shapes[0], float32())]


def encoded_labels(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """LabelEncoder: the type of its values; strings have none here."""
    if attributes.get("values_tensor") is not None:
        return [(shapes[0], protobuf.numpy_dtype(attributes["values_tensor"].data_type))]
    kinds = {"values_int64s": int64(), "values_floats": float32()}
    return [(shapes[0], next((dtype for name, dtype in kinds.items() if attributes.get(name)), None))]


def one_hot(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """OneHotEncoder: a new last axis of categories."""
    count = len(attributes.get("cats_int64s") or attributes.get("cats_strings") or ())
    return [(None if shapes[0] is None else (*shapes[0], count), float32())]


def extracted(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of ArrayFeatureExtractor: the last axis has one item per index."""
    data, indices = shapes[0], shapes[1]
    count = None if indices is None or None in indices else math.prod(indices)
    return [(None if data is None else (*((1,) if len(data) == 1 else data[:-1]), count), dtypes[0])]


def joined(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """FeatureVectorizer: [rows, sum of features]."""
    return [((_rows(shapes[0]), sum(attributes.get("inputdimensions") or ())), float32())]


def scores(count: str) -> Rule:
    """Return the rule of a regressor: [rows, targets]; ``count`` names the latter."""

    def rule(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
        return [((_rows(shapes[0]), attributes.get(count, 1)), float32())]

    return rule


def classified(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Classifiers: labels [rows], and scores [rows, classes] or decisions."""
    names = ("classlabels_ints", "classlabels_int64s")
    labels = next((attributes[name] for name in names if attributes.get(name)), ())
    count = len(labels or attributes.get("classlabels_strings") or ())
    if attributes.get("vectors_per_class") and not attributes.get("prob_a") and count > 2:
        count = count * (count - 1) // 2
    rows = _rows(shapes[0])
    return [((rows,), int64() if labels else None), ((rows, count), float32())]


def _rows(shape: Dims | None) -> int | None:
    if shape is None:
        return None
    return 1 if len(shape) < 2 else shape[0]


LEARNING: dict[str, Rule] = {
    "ArrayFeatureExtractor": extracted,
    "Binarizer": same(),
    "FeatureVectorizer": joined,
    "Imputer": same(),
    "LabelEncoder": encoded_labels,
    "LinearClassifier": classified,
    "LinearRegressor": scores("targets"),
    "Normalizer": like_input,
    "OneHotEncoder": one_hot,
    "SVMClassifier": classified,
    "SVMRegressor": scores(""),
    "Scaler": like_input,
    "TreeEnsembleClassifier": classified,
    "TreeEnsembleRegressor": scores("n_targets"),
}
"""Rules by operator; ONNX has one for TreeEnsemble."""
