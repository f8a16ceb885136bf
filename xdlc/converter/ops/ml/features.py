"""Features that are selected, joined, scaled or encoded, and shared attributes.

Formulas are those of onnxruntime's CPU kernels; the specification leaves them open.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, ML, Node, importer
from xdlc.converter.ops._compose import (
    compare,
    joined,
    neuron,
    number,
    part,
    reduced,
    select,
    unary,
    without_axes,
)
from xdlc.converter.ops.indexing import index_value
from xdlc.converter.ops.normalization import along
from xdlc.converter.values import Value, identity
from xdlc.ir import TensorData
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, FLOAT32, FLOAT64, INT32, INT64
from xdlc.opdefs.elementwise_enums import ABS, DIVIDE, EQUAL, GREATER, MULTIPLY, SIGMOID, SQRT, SUBTRACT


def floats(node: Node, b: Builder, x: Value) -> Value:
    """Return an input as float32, which onnxruntime computes in, except for double."""
    if x.dtype is FLOAT64:
        raise node.problem("its input is double, which float32 does not hold", "change the input to float32")
    return b.cast(x, FLOAT32)


def rows(node: Node, b: Builder) -> Value:
    """Return input 0 as float32 [N, F]; rank 1 is one row."""
    x = floats(node, b, node.required(0))
    if x.rank == 1:
        x = b.reshape(x, (1, *x.shape))
    if x.rank != 2:
        raise node.problem(f"the input has rank {x.rank} instead of 2")
    return x


def numbers(node: Node, name: str, width: int | None = None) -> Array:
    """Return an attribute as float32 [n], possibly stated as ``name_as_tensor``.

    Raises:
        ModelError: If ``width`` is stated and the attribute has neither one number nor as many.
    """
    tensor = node.attr(f"{name}_as_tensor")
    listed = node.attr(name)
    if isinstance(tensor, TensorData):
        listed = tensor.numpy().reshape(-1)
        if listed.dtype != np.float32:
            raise node.problem(f"attribute {name}_as_tensor is {listed.dtype}, which float32 cannot hold")
    array = np.asarray([] if listed is None else listed, np.float32).reshape(-1)
    if width is not None and array.size not in (1, width):
        raise node.invalid(f"attribute {name} has {array.size} numbers for {width} features")
    return array


def class_labels(node: Node, name: str) -> Array:
    """Return the class labels as int64; the integers' attribute is ``name``."""
    if node.attr("classlabels_strings"):
        raise node.problem("xdlc does not support string labels", "export the classifier with integer labels")
    return np.asarray(node.attr(name) or [], np.int64).reshape(-1)


def labelled(node: Node, b: Builder, labels: Array, index: Value) -> Value:
    """Return int64 labels of the classes at positions ``index``."""
    if np.array_equal(labels, np.arange(labels.size)):
        return b.cast(index, INT64)
    return gathered(node, b, labels, index)


def gathered(node: Node, b: Builder, table: Array, index: Value) -> Value:
    """Return the entries of a table at ``index``; int64 is gathered in 32 bits."""
    dtype = ir.dtype.from_numpy(table.dtype)
    stored = b.const(narrow(node, table) if dtype is INT64 else table, f"{b.stem}_table")
    inputs = [b.source_order(stored), b.source_order(index)]
    out = b.emit("Gather", inputs, index.shape, stored.dtype, {"axis": ir.i32(0)})
    return b.cast(Value(out, identity(out.rank)), dtype)


def narrow(node: Node, array: Array) -> Array:
    """Return whole numbers as int32.

    Raises:
        UnsupportedOp: If one does not fit.
    """
    if array.size and (array.min() < -(1 << 31) or array.max() >= 1 << 31):
        raise node.problem("a number of the node does not fit in 32 bits")
    return array.astype(np.int32)


def greatest(b: Builder, x: Value) -> Value:
    """Return the position of the first greatest element along the last axis, int32."""
    if x.rank == 1:
        return b.reshape(greatest(b, b.reshape(x, (1, *x.shape))), ())
    lying = x.axis(x.rank - 1)
    shape = [dim for position, dim in enumerate(x.tensor.shape) if position != lying]
    params: dict[str, ir.Param] = {"axis": ir.u32(lying), "keep_dims": ir.b8(False)}
    return Value(b.emit("Argmax", [x.tensor], shape, INT32, params), without_axes(x.order, [x.rank - 1]))


def above(b: Builder, score: Value, threshold: float) -> Value:
    """Return whether scores [N, 1] are above a number, as int32 [N]."""
    return b.cast(b.reshape(compare(b, GREATER, score, number(b, score, threshold)), score.shape[:1]), INT32)


def both(b: Builder, score: Value, transform: str, *, mirrored: bool) -> Value:
    """Return [N, 1] of the second of two classes as [N, 2].

    Args:
        score: The score of the second class.
        mirrored: Whether the first class has the negative score, and 1 - score otherwise.
    """
    zero = number(b, score, 0.0)
    if not mirrored:
        return joined(b, [b.binary(SUBTRACT, number(b, score, 1.0), score), score], 1)
    pair = joined(b, [b.binary(SUBTRACT, zero, score), score], 1)
    return neuron(b, pair, SIGMOID) if transform == "LOGISTIC" else pair


def transformed(node: Node, b: Builder, scores: Value, transform: str) -> Value:
    """Return scores [N, C] after a post transform."""
    if transform == "LOGISTIC":
        return neuron(b, scores, SIGMOID)
    if transform == "SOFTMAX":
        return along(b, "Softmax", scores, scores.rank - 1)
    if transform != "NONE":
        raise node.problem(f"xdlc does not support post_transform {transform!r}")
    return scores


@importer("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(node: Node, b: Builder, x: Value, indices: Value) -> Value:
    """Map onto Gather along the last axis; rank 1 is one row."""
    count = math.prod(indices.shape)
    if not x.rank or not count:
        raise node.invalid(f"{count} indices do not fit an input {list(x.shape)}")
    positions = b.reshape(index_value(node, b, indices, x.shape[-1]), (count,))
    if x.rank == 1:
        x = b.reshape(x, (1, *x.shape))
    shape = (*x.shape[:-1], count)
    params: dict[str, ir.Param] = {"axis": ir.i32(x.rank - 1)}
    out = b.emit("Gather", [b.source_order(x), b.source_order(positions)], shape, x.dtype, params)
    return Value(out, identity(out.rank))


@importer("Binarizer", domain=ML, layout=ANY, dynamic=True)
def binarizer(node: Node, b: Builder, x: Value) -> Value:
    """Write 1 where x is above the threshold, else 0."""
    return b.cast(compare(b, GREATER, x, number(b, x, node.attr("threshold", 0.0))), x.dtype)


@importer("FeatureVectorizer", domain=ML)
def feature_vectorizer(node: Node, b: Builder) -> Value:
    """Join the first ``inputdimensions`` features of each input, as float32."""
    parts = []
    for index, count in enumerate(node.attr("inputdimensions") or []):
        x = floats(node, b, node.required(index))
        x = b.reshape(x, (1, *x.shape)) if x.rank == 1 else x
        if x.rank != 2 or x.shape[1] != count:
            raise node.problem(f"{count} features do not fit an input {list(x.shape)}")
        parts.append(part(b, x, 1, 0, count))
    if len(parts) != len(node.inputs):
        raise node.invalid(f"{len(parts)} numbers of features do not fit {len(node.inputs)} inputs")
    return joined(b, parts, 1)


@importer("Imputer", domain=ML, layout=ANY)
def imputer(node: Node, b: Builder, x: Value) -> Value:
    """Select the imputed values where x is the replaced one, which may be NaN."""
    kind = "float" if x.dtype.is_float else "int64"
    imputed = np.asarray(node.attr(f"imputed_value_{kind}s") or [], x.dtype.numpy)
    missing = node.attr(f"replaced_value_{kind}", 0.0 if x.dtype.is_float else 0)
    if not x.rank or imputed.size not in (1, x.shape[-1]):
        raise node.invalid(f"{imputed.size} imputed values do not fit an input {list(x.shape)}")
    if math.isnan(missing):
        gap = b.unary("IsNan", x, dtype=BOOL8)
    else:
        gap = compare(b, EQUAL, x, number(b, x, missing))
    return select(b, gap, b.const(imputed), x)


_TYPES: dict[str, tuple[type[np.generic], Any]] = {"int64": (np.int64, -1), "float": (np.float32, -0.0)}
_NONE_FITS, _WITH_NAN = 0.5, 4
"""Score of the default, and the version from which on NaN is a key."""


@importer("LabelEncoder", domain=ML, since=2)
def label_encoder(node: Node, b: Builder, x: Value) -> Value:
    """Find each element among the keys, and gather its value, or the default."""
    keys, _ = _listed(node, "keys")
    values, default = _listed(node, "values")
    if len(keys) != len(values):
        raise node.invalid(f"{len(keys)} keys do not fit {len(values)} values")
    numbers, x = keys.dtype == np.int64, b.reshape(x, (1,)) if not x.rank else x
    if numbers:
        x, keys = b.cast(x, INT32), narrow(node, keys)
    of_nan = values[np.isnan(keys)][:1] if not numbers and node.opset >= _WITH_NAN else values[:0]
    kept = np.sort(np.unique(keys, return_index=True)[1])  # of a repeated key, the first one counts
    kept = kept[~np.isnan(keys[kept])]
    fits = b.cast(compare(b, EQUAL, b.reshape(x, (*x.shape, 1)), b.const(keys[kept])), FLOAT32)
    b.check_table(x.size)
    rest = b.const(np.full((*x.shape, 1), _NONE_FITS, np.float32))
    index = greatest(b, joined(b, [fits, rest], x.rank))
    table = np.append(values[kept], np.asarray([default], values.dtype))
    if of_nan.size:
        nan = b.unary("IsNan", x, dtype=BOOL8)
        index = select(b, nan, number(b, index, len(table)), index)
    labels = gathered(node, b, np.append(table, of_nan), index)
    return b.reshape(labels, node.required(0).shape)


def _listed(node: Node, name: str) -> tuple[Array, Any]:
    """Return the keys or values, and the default of their type."""
    tensor = node.attr(f"{name}_tensor")
    if isinstance(tensor, TensorData):
        array = tensor.numpy().reshape(-1)
        kind = {"int64": "int64", "float32": "float"}.get(array.dtype.name)
        stored = node.attr("default_tensor") if name == "values" else None
        default = stored.numpy().reshape(-1)[0] if isinstance(stored, TensorData) else None
    else:
        kind = next((kind for kind in _TYPES if node.attr(f"{name}_{kind}s")), None)
        array, default = np.asarray([] if kind is None else node.attr(f"{name}_{kind}s")), None
    if kind is None:
        raise node.problem(
            f"the {name} are not 32- or 64-bit numbers", "map strings to numbers before the network"
        )
    dtype, missing = _TYPES[kind]
    if name == "values":
        for other in ("int64", "float", "string"):
            stated = node.attr(f"default_{other}")
            default = stated if other == kind and default is None else default
    return array.astype(dtype), missing if default is None else default


@importer("Normalizer", domain=ML, layout=ANY)
def normalizer(node: Node, b: Builder) -> Value:
    """Divide rows by their maximum, L1 or L2 norm; rows of norm 0 are unchanged."""
    x = floats(node, b, node.required(0))
    norm, axes = node.attr("norm", "MAX"), [x.rank - 1]
    if norm not in ("MAX", "L1", "L2") or x.rank not in (1, 2):
        raise node.invalid(f"norm {norm!r} does not fit an input {list(x.shape)}")
    if norm == "MAX":
        return b.binary(DIVIDE, x, _not_zero(b, reduced(b, "ReduceMax", x, axes)))
    if norm == "L1":
        return b.binary(DIVIDE, x, _not_zero(b, reduced(b, "ReduceSum", unary(b, ABS, x), axes)))
    # of magnitude 1 first: float16 holds no square of 256
    near = b.binary(DIVIDE, x, _not_zero(b, reduced(b, "ReduceMax", unary(b, ABS, x), axes)))
    size = unary(b, SQRT, reduced(b, "ReduceSum", b.binary(MULTIPLY, near, near), axes))
    return b.binary(DIVIDE, near, _not_zero(b, size))


def _not_zero(b: Builder, x: Value) -> Value:
    """Return ``x`` with 1 in place of 0."""
    return select(b, compare(b, EQUAL, x, number(b, x, 0.0)), number(b, x, 1.0), x)


@importer("OneHotEncoder", domain=ML)
def one_hot_encoder(node: Node, b: Builder, x: Value) -> Value:
    """Compare elements with categories; unknown ones require ``zeros`` and become 0."""
    categories = np.asarray(node.attr("cats_int64s") or [], np.int64)
    if node.attr("cats_strings") or not categories.size:
        raise node.problem(
            "xdlc does not support string categories", "encode the categories before the network"
        )
    if np.abs(categories).max() >= 1 << 31 or np.unique(categories).size != categories.size:
        raise node.problem("xdlc does not support categories that repeat, or exceed 32 bits")
    if not node.attr("zeros", 1):
        raise node.problem(
            "xdlc does not support zeros = 0, which rejects unknown categories", "use zeros = 1"
        )
    wide = b.reshape(b.cast(x, INT32), (*x.shape, 1))
    return b.cast(compare(b, EQUAL, wide, b.const(categories.astype(np.int32))), FLOAT32)


@importer("Scaler", domain=ML, layout=ANY, dynamic=True)
def scaler(node: Node, b: Builder) -> Value:
    """Write (x - offset) * scale over the last axis."""
    x = floats(node, b, node.required(0))
    dims = x.dims or (1,)
    offset, scale = numbers(node, "offset", dims[-1]), numbers(node, "scale", dims[-1])
    if len(dims) > 2 and max(offset.size, scale.size) > 1:
        raise node.problem(f"input must be [N, C] or [C], but has rank {len(dims)}")
    if offset.any():
        x = b.binary(SUBTRACT, x, b.const(offset))
    return b.binary(MULTIPLY, x, b.const(scale))
