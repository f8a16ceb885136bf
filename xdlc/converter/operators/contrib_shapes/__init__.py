"""Output shapes of operators of ``com.microsoft`` and ``ai.onnx.ml``.

Only operators that onnxruntime's CPU provider executes are here: others cannot be kept for the host.
Sources: the schemas and documentation in onnxruntime (docs/ContribOperators.md).
"""

from __future__ import annotations

from xdlc.converter.operators.contrib_shapes import others
from xdlc.converter.operators.contrib_shapes.others import LEARNING
from xdlc.converter.operators.contrib_shapes.rules import Rule, like, same

OF_DEFAULT_DOMAIN = frozenset({"SimplifiedLayerNormalization"})
"""Operators that onnxruntime has in ONNX's own domain, where ONNX has none."""

SHAPES: dict[str, Rule] = {
    **LEARNING,
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
        same(),
    ),
    "Attention": others.attention(4),
    "CDist": others.pairs,
    "CropAndResize": others.crop_and_resize,
    "DecoderMaskedMultiHeadAttention": others.decoder_attention,
    "DequantizeLinear": same(0, 1),
    "DynamicQuantizeLSTM": others.quantized_lstm,
    "DynamicQuantizeMatMul": others.real_product,
    "DynamicTimeWarping": others.time_warping,
    "EmbedLayerNormalization": others.embed_layer_normalization,
    "ExpandDims": others.expand_dims,
    "FusedConv": like("Conv", 0, 1, 2),
    "FusedGemm": like("Gemm"),
    "FusedMatMul": others.fused_matmul,
    "GatherBlockQuantized": others.gather_block_quantized,
    "GatherND": like("GatherND"),
    "GridSample": like("GridSample"),
    "GroupQueryAttention": others.group_query_attention,
    "MatMulBnb4": others.block_product,
    "MatMulInteger16": others.integer_product,
    "MatMulIntegerToFloat": others.real_product,
    "MatMulNBits": others.block_product,
    "MaxpoolWithMask": like("MaxPool", 0),
    "MultiHeadAttention": others.multi_head_attention,
    "MurmurHash3": others.murmur_hash,
    "NGramRepeatBlock": same(1),
    "NhwcMaxPool": others.channels_last_pool,
    "Pad": like("Pad", 0, 1),
    "QAttention": others.attention(8),
    "QEmbedLayerNormalization": others.embed_layer_normalization,
    "QGemm": others.quantized_gemm,
    "QLinearAdd": like("Add", 0, 3),
    "QLinearAveragePool": like("AveragePool", 0),
    "QLinearConcat": others.quantized_concat,
    "QLinearConv": others.quantized_conv,
    "QLinearGlobalAveragePool": like("GlobalAveragePool", 0),
    "QLinearMul": like("Mul", 0, 3),
    "QLinearWhere": like("Where", 0, 1, 4, of=1),
    "QuantizeLinear": others.quantize,
    "Range": like("Range"),
    "SimplifiedLayerNormalization": others.simplified_layer_normalization,
    "SkipLayerNormalization": others.skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": others.skip_layer_normalization,
    "TransposeMatMul": others.fused_matmul,
    "UnfoldTensor": others.unfold,
    "Unique": others.unique,
}
