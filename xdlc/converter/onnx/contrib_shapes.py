"""Output shapes of ``com.microsoft`` operators, which ONNX's shape inference does not know.

Only operators that onnxruntime's CPU provider executes are here: others cannot be kept for the host.
Sources: the schemas and documentation in onnxruntime (docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Extents = tuple[int | None, ...]
Output = tuple[Extents | None, Any]
Rule = Callable[
    [Mapping[str, Any], Sequence[Extents | None], Sequence[Any], Sequence[Any]],
    Sequence[Output],
]
"""(attributes, input shapes, input dtypes, values of small static inputs) to (shape, numpy dtype)."""

OF_DEFAULT_DOMAIN = frozenset({"SimplifiedLayerNormalization"})
"""Operators that onnxruntime has in ONNX's own domain, where ONNX has none."""

_VERSION = 17  # opset whose operators stand in for those that are the same but for their types


def _float32() -> Any:
    import numpy

    return numpy.dtype(numpy.float32)


def _int64() -> Any:
    import numpy

    return numpy.dtype(numpy.int64)


def _at(items: Sequence[Any], index: int) -> Any:
    return items[index] if index < len(items) else None


def _plus(*extents: int | None) -> int | None:
    known = [extent for extent in extents if extent is not None]
    return sum(known) if len(known) == len(extents) else None


def _times(extent: int | None, factor: int) -> int | None:
    return None if extent is None else extent * factor


def _over(extent: int | None, divisor: int) -> int | None:
    return None if extent is None else extent // divisor


# ---------------------------------------------------------------------- operators like those of ONNX


def _stand_in(
    type: str,
    attributes: Mapping[str, Any],
    shapes: Sequence[Extents | None],
    values: Sequence[Any] = (),
    dtypes: Sequence[Any] = (),
) -> Extents | None:
    """Return the shape of the first output of an operator of ONNX, asked of its shape inference.

    Quantized operands stand for reals; only positions and conditions keep their types.
    """
    import numpy
    import onnx

    schema = onnx.defs.get_schema(type, _VERSION)
    given = {key: value for key, value in attributes.items() if key in schema.attributes}
    names = [f"input{index}" for index in range(len(shapes))]
    node = onnx.helper.make_node(type, names, ["output"], **given)
    kept = [dtype if dtype in ("int32", "int64", "bool") else numpy.dtype("float32") for dtype in dtypes]
    kept += [numpy.dtype("float32")] * (len(names) - len(kept))
    types = {
        name: onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(dtype), shape)
        for name, dtype, shape in zip(names, kept, shapes, strict=True)
    }
    data = {
        name: onnx.numpy_helper.from_array(value, name)
        for name, value in zip(names, values, strict=False)
        if value is not None
    }
    opsets = [onnx.helper.make_opsetid("", _VERSION)]
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=opsets)
    except Exception as error:  # inference, type and validation errors have no common base
        raise ValueError(str(error)) from error
    kind = found["output"].tensor_type if "output" in found else None
    if kind is None or not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)


def _like(type: str, *positions: int, of: int = 0) -> Rule:
    """Return a rule: the shape is that of an operator of ONNX on the inputs at ``positions``.

    Args:
        type: The operator of ONNX.
        positions: Its inputs; default: all.
        of: Input whose data type the output has.
    """

    def rule(
        attributes: Mapping[str, Any], shapes: Sequence[Extents | None], dtypes: Sequence[Any], values: Any
    ) -> list[Output]:
        chosen = positions or range(len(shapes))
        present = [index for index in chosen if _at(dtypes, index) is not None]
        inputs = [shapes[index] for index in present]
        last = bool(attributes.get("channels_last"))
        if last:
            inputs = [_channels_first(shape) for shape in inputs]
        found = _stand_in(
            type,
            attributes,
            inputs,
            [values[index] for index in present],
            [dtypes[index] for index in present],
        )
        return [(_channels_last(found) if last else found, dtypes[of])]

    return rule


def _channels_first(shape: Extents | None) -> Extents | None:
    return None if shape is None else (shape[0], shape[-1], *shape[1:-1])


def _channels_last(shape: Extents | None) -> Extents | None:
    return None if shape is None else (shape[0], *shape[2:], shape[1])


def _channels_last_pool(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    found = _stand_in("MaxPool", attributes, [_channels_first(shapes[0])])
    return [(_channels_last(found), dtypes[0])]


def _quantized_conv(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    last = bool(attributes.get("channels_last"))
    x = _channels_first(shapes[0]) if last else shapes[0]
    found = _stand_in("Conv", attributes, [x, shapes[3]])
    return [(_channels_last(found) if last else found, _at(dtypes, 7) or dtypes[0])]


def _quantized_concat(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    return [(_stand_in("Concat", attributes, list(shapes[2::3])), dtypes[2])]


def _same(of: int = 0, dtype: int | None = None) -> Rule:
    """Return a rule: the output is like input ``of``, its data type that of input ``dtype``."""

    def rule(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
        return [(shapes[of], dtypes[of if dtype is None else dtype])]

    return rule


def _quantize(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    import numpy

    return [(shapes[0], _at(dtypes, 2) or numpy.dtype(numpy.uint8))]


# ---------------------------------------------------------------------- matrix products


def _product(left: Extents | None, right: Extents | None) -> Extents | None:
    return _stand_in("MatMul", {}, [left, right])


def _turned(shape: Extents | None, last: int, batch: int) -> Extents | None:
    """Return the shape of a matrix operand after FusedMatMul's transpositions."""
    if shape is None:
        return None
    if batch and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if last and len(shape) > 1 else shape


def _fused_matmul(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    left, right = (
        _turned(shapes[index], attributes.get(f"trans{side}", 0), attributes.get(f"transBatch{side}", 0))
        for index, side in ((0, "A"), (1, "B"))
    )
    return [(_product(left, right), dtypes[0])]


def _real_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    return [(_product(shapes[0], shapes[1]), _float32())]


def _integer_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    import numpy

    return [(_product(shapes[0], shapes[1]), numpy.dtype(numpy.int32))]


def _block_product(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    units = attributes["N"] if attributes.get("transB", 1) else attributes["K"]
    return [(None if shapes[0] is None else (*shapes[0][:-1], units), dtypes[0])]


def _quantized_gemm(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    found = _stand_in("Gemm", {**attributes, "beta": 1.0}, [shapes[0], shapes[3]])
    return [(found, _at(dtypes, 8) or _float32())]


# ---------------------------------------------------------------------- attention


def _attention(past: int) -> Rule:
    """Return the rule of attention with merged projections, its past keys and values at input ``past``."""

    def rule(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
        batch, length, _ = shapes[0]
        count = attributes["num_heads"]
        widths = attributes.get("qkv_hidden_sizes") or [_over(shapes[1][1], 3)] * 3
        earlier = _at(shapes, past)
        if attributes.get("past_present_share_buffer") and earlier is not None:
            total = earlier[3]
        else:
            total = length if earlier is None else _plus(length, earlier[3])
        real = _float32() if past == 8 else dtypes[0]
        return [
            ((batch, length, widths[2]), real),
            ((2, batch, count, total, _over(widths[1], count)), real),
        ]

    return rule


def _multi_head_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    count, dtype = attributes["num_heads"], dtypes[0]
    query, key, value = shapes[0], _at(shapes, 1), _at(shapes, 2)
    if len(query) == 5:
        batch, length, keys, width = query[0], query[1], query[1], _times(query[4], count)
    elif len(key) == 5:
        batch, length, keys, width = query[0], query[1], key[1], query[2]
    elif len(key) == 4:
        batch, length, keys, width = query[0], query[1], key[2], _times(value[3], count)
    else:
        batch, length, keys, width = query[0], query[1], key[1], value[2]
    past = _at(shapes, 6)
    total = keys if past is None else _plus(past[2], keys)
    if past is not None and _at(dtypes, 8) is not None:
        total = past[2]
    size = query[4] if len(query) == 5 else _over(query[2], count)
    return [
        ((batch, length, width), dtype),
        ((batch, count, total, size), dtype),
        ((batch, count, total, _over(width, count)), dtype),
        ((batch, count, length, total), dtype),
    ]


def _decoder_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    count, dtype = attributes["num_heads"], dtypes[0]
    query, key, value, past = shapes[0], _at(shapes, 1), _at(shapes, 2), _at(shapes, 5)
    if key is not None and len(key) == 4:
        total, width = key[2], _times(value[3], count)
    else:
        width = _over(query[2], 3) if key is None else value[2]
        total = 1 if past is None else _plus(past[2], 1)
        if past is not None and attributes.get("past_present_share_buffer"):
            total = past[2]
    size = _over(width, count)
    return [
        ((query[0], query[1], width), dtype),
        ((query[0], count, total, size), dtype),
        ((query[0], count, total, size), dtype),
        ((query[0], count, 1, total), dtype),
    ]


def _group_query_attention(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    query, past = shapes[0], _at(shapes, 3)
    count, groups = attributes["num_heads"], attributes["kv_num_heads"]
    packed = _at(dtypes, 1) is None
    width = _times(_over(query[2], count + 2 * groups), count) if packed else query[2]
    size = _over(width, count)
    total = _at(values, 6)
    known = None if total is None else int(total.reshape(-1)[0])
    keys: int | None = None
    if past is not None and past[2] is not None and known is not None:
        keys = max(past[2], known)
    elif past is None:
        keys = known
    state = (query[0], groups, keys, size)
    stored = _at(dtypes, 3) or dtypes[0]
    return [
        ((query[0], query[1], width), dtypes[0]),
        ((*past[:2], keys, past[3]) if past is not None else state, stored),
        ((*past[:2], keys, past[3]) if past is not None else state, stored),
        ((query[0], count, query[1], known), dtypes[0]),
    ]


# ---------------------------------------------------------------------- normalization and embedding


def _skip_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    shape, dtype = shapes[0], dtypes[0]
    mean = None if shape is None else (*shape[:-1], 1)
    return [(shape, dtype), (mean, _float32()), (mean, _float32()), (shape, dtype)]


def _simplified_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    shape = shapes[0]
    if shape is None:
        return [(None, dtypes[0]), (None, _float32())]
    axis = attributes.get("axis", -1) % len(shape)
    return [(shape, dtypes[0]), ((*shape[:axis], *(1,) * (len(shape) - axis)), _float32())]


def _embed_layer_normalization(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    import numpy

    batch, length = shapes[0]
    width = shapes[2][1]
    real = _float32() if dtypes[2].kind in "iu" else dtypes[2]
    return [
        ((batch, length, width), real),
        ((batch,), numpy.dtype(numpy.int32)),
        ((batch, length, width), real),
    ]


# ---------------------------------------------------------------------- others


def _gather_block_quantized(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    import numpy

    data, indices = shapes[0], shapes[1]
    if data is None or indices is None:
        return [(None, dtypes[2])]
    if dtypes[0] == numpy.uint8:
        data = (*data[:-1], _times(data[-1], 8 // attributes.get("bits", 4)))
    axis = attributes.get("gather_axis", 0) % len(data)
    return [((*data[:axis], *indices, *data[axis + 1 :]), dtypes[2])]


def _crop_and_resize(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    size = [None, None] if values[3] is None else [int(extent) for extent in values[3]]
    return [((shapes[1][0], shapes[0][1], *size), dtypes[0])]


def _expand_dims(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    shape = shapes[0]
    if shape is None or values[1] is None:
        return [(None if shape is None else (None,) * (len(shape) + 1), dtypes[0])]
    axis = int(values[1].reshape(-1)[0])
    axis += len(shape) + 1 if axis < 0 else 0
    return [((*shape[:axis], 1, *shape[axis:]), dtypes[0])]


def _pairs(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    return [((shapes[0][0], shapes[1][0]), dtypes[0])]


def _unique(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    return [((None,), dtypes[0]), (shapes[0], _int64()), ((None,), _int64())]


def _unfold(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    shape = list(shapes[0])
    axis, size, step = attributes.get("dim", -1) % len(shape), attributes["size"], attributes.get("step", 1)
    if shape[axis] is not None:
        shape[axis] = (shape[axis] - size) // step + 1
    return [((*shape, size), dtypes[0])]


def _hash(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    import numpy

    return [(shapes[0], numpy.dtype(numpy.uint32 if attributes.get("positive", 1) else numpy.int32))]


def _time_warping(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    import numpy

    return [((2, None), numpy.dtype(numpy.int32))]


def _quantized_lstm(attributes: Any, shapes: Any, dtypes: Any, values: Any) -> list[Output]:
    (length, batch, _), hidden = shapes[0], attributes["hidden_size"]
    ways = 2 if attributes.get("direction", "forward") == "bidirectional" else 1
    state = (ways, batch, hidden)
    return [((length, *state), dtypes[0]), (state, dtypes[0]), (state, dtypes[0])]


SHAPES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "BiasGelu",
            "FastGelu",
            "Gelu",
            "Inverse",
            "MoE",
            "QLinearLeakyRelu",
            "QLinearSigmoid",
            "QLinearSoftmax",
            "QMoE",
            "QuickGelu",
            "RotaryEmbedding",
            "Trilu",
        ),
        _same(),
    ),
    "Attention": _attention(4),
    "CDist": _pairs,
    "CropAndResize": _crop_and_resize,
    "DecoderMaskedMultiHeadAttention": _decoder_attention,
    "DequantizeLinear": _same(0, 1),
    "DynamicQuantizeLSTM": _quantized_lstm,
    "DynamicQuantizeMatMul": _real_product,
    "DynamicTimeWarping": _time_warping,
    "EmbedLayerNormalization": _embed_layer_normalization,
    "ExpandDims": _expand_dims,
    "FusedConv": _like("Conv", 0, 1, 2),
    "FusedGemm": _like("Gemm"),
    "FusedMatMul": _fused_matmul,
    "GatherBlockQuantized": _gather_block_quantized,
    "GatherND": _like("GatherND"),
    "GridSample": _like("GridSample"),
    "GroupQueryAttention": _group_query_attention,
    "MatMulBnb4": _block_product,
    "MatMulInteger16": _integer_product,
    "MatMulIntegerToFloat": _real_product,
    "MatMulNBits": _block_product,
    "MaxpoolWithMask": _like("MaxPool", 0),
    "MultiHeadAttention": _multi_head_attention,
    "MurmurHash3": _hash,
    "NGramRepeatBlock": _same(1),
    "NhwcMaxPool": _channels_last_pool,
    "Pad": _like("Pad", 0, 1),
    "QAttention": _attention(8),
    "QEmbedLayerNormalization": _embed_layer_normalization,
    "QGemm": _quantized_gemm,
    "QLinearAdd": _like("Add", 0, 3),
    "QLinearAveragePool": _like("AveragePool", 0),
    "QLinearConcat": _quantized_concat,
    "QLinearConv": _quantized_conv,
    "QLinearGlobalAveragePool": _like("GlobalAveragePool", 0),
    "QLinearMul": _like("Mul", 0, 3),
    "QLinearWhere": _like("Where", 0, 1, 4, of=1),
    "QuantizeLinear": _quantize,
    "Range": _like("Range"),
    "SimplifiedLayerNormalization": _simplified_layer_normalization,
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_layer_normalization,
    "TransposeMatMul": _fused_matmul,
    "UnfoldTensor": _unfold,
    "Unique": _unique,
}
