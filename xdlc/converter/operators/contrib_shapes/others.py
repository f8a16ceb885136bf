"""Output shapes of contributed operators: attention, normalizations, ai.onnx.ml."""

from __future__ import annotations

import math
from typing import Any

from xdlc.converter.operators import protobuf
from xdlc.converter.operators.contrib_shapes.rules import (
    Output,
    Rule,
    at,
    channels_first,
    channels_last,
    float32,
    int64,
    over,
    plus,
    same,
    stand_in,
    times,
)
from xdlc.converter.values import Dims


def skip_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """The sum normalized, mean, deviation, and the sum."""
    shape, dtype = shapes[0], dtypes[0]
    mean = None if shape is None else (*shape[:-1], 1)
    return [(shape, dtype), (mean, float32()), (mean, float32()), (shape, dtype)]


def simplified_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """The input normalized, and its deviation, whose normalized axes are of size 1."""
    shape = shapes[0]
    if shape is None:
        return [(None, dtypes[0]), (None, float32())]
    axis = attributes.get("axis", -1) % len(shape)
    return [(shape, dtypes[0]), ((*shape[:axis], *(1,) * (len(shape) - axis)), float32())]


def embed_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Normalized embeddings [batch, length, width], lengths [batch], embeddings."""
    import numpy

    batch, length = shapes[0]
    width = shapes[2][1]
    real = float32() if dtypes[2].kind in "iu" else dtypes[2]
    return [
        ((batch, length, width), real),
        ((batch,), numpy.dtype(numpy.int32)),
        ((batch, length, width), real),
    ]


def _product(left: Dims | None, right: Dims | None) -> Dims | None:
    return stand_in("MatMul", {}, [left, right])


def _turned(shape: Dims | None, last: int, batch: int) -> Dims | None:
    """Return the shape of a matrix operand after FusedMatMul's transpositions."""
    if shape is None:
        return None
    if batch and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if last and len(shape) > 1 else shape


def fused_matmul(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A product of operands that are transposed first."""
    left, right = (
        _turned(shapes[index], attributes.get(f"trans{side}", 0), attributes.get(f"transBatch{side}", 0))
        for index, side in ((0, "A"), (1, "B"))
    )
    return [(_product(left, right), dtypes[0])]


def real_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of an integer product with a float result."""
    return [(_product(shapes[0], shapes[1]), float32())]


def integer_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of an integer product with an int32 result."""
    import numpy

    return [(_product(shapes[0], shapes[1]), numpy.dtype(numpy.int32))]


def block_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A product with packed weights, whose dimensions attributes state."""
    units = attributes["N"] if attributes.get("transB", 1) else attributes["K"]
    return [(None if shapes[0] is None else (*shapes[0][:-1], units), dtypes[0])]


def quantized_gemm(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of a quantized Gemm; the result is float if input 8 is omitted."""
    found = stand_in("Gemm", {**attributes, "beta": 1.0}, [shapes[0], shapes[3]])
    return [(found, at(dtypes, 8) or float32())]


def channels_last_pool(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A MaxPool of a value in channel-last layout."""
    found = stand_in("MaxPool", attributes, [channels_first(shapes[0])])
    return [(channels_last(found), dtypes[0])]


def quantized_conv(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of a quantized Conv, with the layout of ``channels_last``."""
    last = bool(attributes.get("channels_last"))
    x = channels_first(shapes[0]) if last else shapes[0]
    found = stand_in("Conv", attributes, [x, shapes[3]])
    return [(channels_last(found) if last else found, at(dtypes, 7) or dtypes[0])]


def quantized_concat(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A Concat whose operands each have a scale and a zero point."""
    return [(stand_in("Concat", attributes, list(shapes[2::3])), dtypes[2])]


def quantize(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """The input in the type of the zero point, uint8 where that is omitted."""
    import numpy

    return [(shapes[0], at(dtypes, 2) or numpy.dtype(numpy.uint8))]


def gather_block_quantized(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape of a Gather from a table with packed elements."""
    import numpy

    data, indices = shapes[0], shapes[1]
    if data is None or indices is None:
        return [(None, dtypes[2])]
    if dtypes[0] == numpy.uint8:
        data = (*data[:-1], times(data[-1], 8 // attributes.get("bits", 4)))
    axis = attributes.get("gather_axis", 0) % len(data)
    return [((*data[:axis], *indices, *data[axis + 1 :]), dtypes[2])]


def quantized_lstm(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """All states [length, ways, batch, hidden], then the last state and cell."""
    (length, batch, _), hidden = shapes[0], attributes["hidden_size"]
    ways = 2 if attributes.get("direction", "forward") == "bidirectional" else 1
    state = (ways, batch, hidden)
    return [((length, *state), dtypes[0]), (state, dtypes[0]), (state, dtypes[0])]


def crop_and_resize(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Crops of input 0 [batch, channels, ...], one for each region of input 1."""
    size = [None, None] if values[3] is None else [int(extent) for extent in values[3]]
    return [((shapes[1][0], shapes[0][1], *size), dtypes[0])]


def expand_dims(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Input 0 with an axis more, where input 1 states."""
    shape = shapes[0]
    if shape is None or values[1] is None:
        return [(None if shape is None else (None,) * (len(shape) + 1), dtypes[0])]
    axis = int(values[1].reshape(-1)[0])
    axis += len(shape) + 1 if axis < 0 else 0
    return [((*shape[:axis], 1, *shape[axis:]), dtypes[0])]


def pairs(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape [rows of input 0, rows of input 1]."""
    return [((shapes[0][0], shapes[1][0]), dtypes[0])]


def unique(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """The different elements, the index of each element in them, and their counts."""
    return [((None,), dtypes[0]), (shapes[0], int64()), ((None,), int64())]


def unfold(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return the shape with windows of ``size`` along ``dim`` as the last axis."""
    shape = list(shapes[0])
    axis, size, step = attributes.get("dim", -1) % len(shape), attributes["size"], attributes.get("step", 1)
    if shape[axis] is not None:
        shape[axis] = (shape[axis] - size) // step + 1
    return [((*shape, size), dtypes[0])]


def murmur_hash(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """A number of 32 bits for each element."""
    import numpy

    return [(shapes[0], numpy.dtype(numpy.uint32 if attributes.get("positive", 1) else numpy.int32))]


def time_warping(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Pairs of positions, of a path whose length is only known when the graph runs."""
    import numpy

    return [((2, None), numpy.dtype(numpy.int32))]


def attention(past: int) -> Rule:
    """Return the shape rule of attention with past keys and values in input ``past``."""

    def rule(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
        batch, length, _ = shapes[0]
        count = attributes["num_heads"]
        widths = attributes.get("qkv_hidden_sizes") or [over(shapes[1][1], 3)] * 3
        earlier = at(shapes, past)
        if attributes.get("past_present_share_buffer") and earlier is not None:
            total = earlier[3]
        else:
            total = length if earlier is None else plus(length, earlier[3])
        real = float32() if past == 8 else dtypes[0]
        return [
            ((batch, length, widths[2]), real),
            ((2, batch, count, total, over(widths[1], count)), real),
        ]

    return rule


def multi_head_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return shapes of MultiHeadAttention: output, present keys and values, scores."""
    count, dtype = attributes["num_heads"], dtypes[0]
    query, key, value = shapes[0], at(shapes, 1), at(shapes, 2)
    if len(query) == 5:
        batch, length, keys, width = query[0], query[1], query[1], times(query[4], count)
    elif len(key) == 5:
        batch, length, keys, width = query[0], query[1], key[1], query[2]
    elif len(key) == 4:
        batch, length, keys, width = query[0], query[1], key[2], times(value[3], count)
    else:
        batch, length, keys, width = query[0], query[1], key[1], value[2]
    past = at(shapes, 6)
    total = keys if past is None else plus(past[2], keys)
    if past is not None and at(dtypes, 8) is not None:
        total = past[2]
    size = query[4] if len(query) == 5 else over(query[2], count)
    return [
        ((batch, length, width), dtype),
        ((batch, count, total, size), dtype),
        ((batch, count, total, over(width, count)), dtype),
        ((batch, count, length, total), dtype),
    ]


def decoder_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """DecoderMaskedMultiHeadAttention: one query after a past."""
    count, dtype = attributes["num_heads"], dtypes[0]
    query, key, value, past = shapes[0], at(shapes, 1), at(shapes, 2), at(shapes, 5)
    if key is not None and len(key) == 4:
        total, width = key[2], times(value[3], count)
    else:
        width = over(query[2], 3) if key is None else value[2]
        total = 1 if past is None else plus(past[2], 1)
        if past is not None and attributes.get("past_present_share_buffer"):
            total = past[2]
    size = over(width, count)
    return [
        ((query[0], query[1], width), dtype),
        ((query[0], count, total, size), dtype),
        ((query[0], count, total, size), dtype),
        ((query[0], count, 1, total), dtype),
    ]


def group_query_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    """Return shapes of GroupQueryAttention; input 6 states the length of the keys."""
    query, past = shapes[0], at(shapes, 3)
    count, groups = attributes["num_heads"], attributes["kv_num_heads"]
    packed = at(dtypes, 1) is None
    width = times(over(query[2], count + 2 * groups), count) if packed else query[2]
    size = over(width, count)
    total = at(values, 6)
    stated = None if total is None else int(total.reshape(-1)[0])
    keys: int | None = None
    if past is not None and past[2] is not None and stated is not None:
        keys = max(past[2], stated)
    elif past is None:
        keys = stated
    state = (query[0], groups, keys, size)
    stored = at(dtypes, 3) or dtypes[0]
    return [
        ((query[0], query[1], width), dtypes[0]),
        ((*past[:2], keys, past[3]) if past is not None else state, stored),
        ((*past[:2], keys, past[3]) if past is not None else state, stored),
        ((query[0], count, query[1], stated), dtypes[0]),
    ]


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
    """Return the shape of ArrayFeatureExtractor: the last axis is that of the indices."""
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
