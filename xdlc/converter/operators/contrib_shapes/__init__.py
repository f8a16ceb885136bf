"""Output shapes of operators of ``com.microsoft`` and ``ai.onnx.ml``.

Only operators that onnxruntime's CPU provider executes are here: others cannot be kept for the host.
Sources: the schemas and documentation in onnxruntime (docs/ContribOperators.md).
"""

from __future__ import annotations

from xdlc.converter.operators.contrib_shapes import arrays, attention, normalization, products, quantized
from xdlc.converter.operators.contrib_shapes.learning import LEARNING
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
    "Attention": attention.attention(4),
    "CDist": arrays.pairs,
    "CropAndResize": arrays.crop_and_resize,
    "DecoderMaskedMultiHeadAttention": attention.decoder_attention,
    "DequantizeLinear": same(0, 1),
    "DynamicQuantizeLSTM": quantized.quantized_lstm,
    "DynamicQuantizeMatMul": products.real_product,
    "DynamicTimeWarping": arrays.time_warping,
    "EmbedLayerNormalization": normalization.embed_layer_normalization,
    "ExpandDims": arrays.expand_dims,
    "FusedConv": like("Conv", 0, 1, 2),
    "FusedGemm": like("Gemm"),
    "FusedMatMul": products.fused_matmul,
    "GatherBlockQuantized": quantized.gather_block_quantized,
    "GatherND": like("GatherND"),
    "GridSample": like("GridSample"),
    "GroupQueryAttention": attention.group_query_attention,
    "MatMulBnb4": products.block_product,
    "MatMulInteger16": products.integer_product,
    "MatMulIntegerToFloat": products.real_product,
    "MatMulNBits": products.block_product,
    "MaxpoolWithMask": like("MaxPool", 0),
    "MultiHeadAttention": attention.multi_head_attention,
    "MurmurHash3": arrays.murmur_hash,
    "NGramRepeatBlock": same(1),
    "NhwcMaxPool": arrays.channels_last_pool,
    "Pad": like("Pad", 0, 1),
    "QAttention": attention.attention(8),
    "QEmbedLayerNormalization": normalization.embed_layer_normalization,
    "QGemm": products.quantized_gemm,
    "QLinearAdd": like("Add", 0, 3),
    "QLinearAveragePool": like("AveragePool", 0),
    "QLinearConcat": quantized.quantized_concat,
    "QLinearConv": quantized.quantized_conv,
    "QLinearGlobalAveragePool": like("GlobalAveragePool", 0),
    "QLinearMul": like("Mul", 0, 3),
    "QLinearWhere": like("Where", 0, 1, 4, of=1),
    "QuantizeLinear": quantized.quantize,
    "Range": like("Range"),
    "SimplifiedLayerNormalization": normalization.simplified_layer_normalization,
    "SkipLayerNormalization": normalization.skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": normalization.skip_layer_normalization,
    "TransposeMatMul": products.fused_matmul,
    "UnfoldTensor": arrays.unfold,
    "Unique": arrays.unique,
}
