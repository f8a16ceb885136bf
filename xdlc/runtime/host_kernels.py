"""Operators that onnxruntime executes for operations that QNN lacks.

An op of package ``xdlc`` may have any of these types; ``onnx_domain`` names the domain if it is not
ONNX's own.  Its parameters are the operator's attributes, its operands are in the source's order.
Omitted are operators on sequences, optionals, maps and strings, and control flow, which has ops of
its own.
"""

from __future__ import annotations

from functools import lru_cache

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
DOMAIN = "onnx_domain"
"""String parameter that names the operator's domain."""

HOST_OPSET = 21
"""Version of the default domain that host-only ops follow, unless :data:`NEWER` has another one."""

NEWER = {
    "Attention": 24,
    "BitCast": 26,
    "CumProd": 26,
    "RMSNormalization": 23,
    "RotaryEmbedding": 23,
    "TensorScatter": 24,
}
"""Operators that came after :data:`HOST_OPSET`, with the version they need."""

VERSIONS = {MICROSOFT: 1, ML: 4}
"""Versions of the other domains."""

_KERNELS = {
    "": """
        Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
        BatchNormalization BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast
        Ceil Celu Clip Col2Im Compress Concat ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh
        CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det Div Dropout DynamicQuantizeLinear
        Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm
        GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample HammingWindow
        HannWindow HardSigmoid Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM
        LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul
        MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min
        Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow QLinearConv
        QLinearMatMul QuantizeLinear RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform
        RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
        ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence
        RoiAlign RotaryEmbedding Round STFT ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign
        SimplifiedLayerNormalization Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt
        Squeeze Sub Sum Tan Tanh TensorScatter TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu
        Unique Unsqueeze Where Xor
    """,
    MICROSOFT: """
        Attention BiasGelu BifurcationDetector CDist ConvTransposeWithDynamicPads CropAndResize
        DecoderMaskedMultiHeadAttention DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul
        DynamicTimeWarping EmbedLayerNormalization ExpandDims FastGelu FusedConv FusedGemm FusedMatMul
        GatherBlockQuantized GatherND Gelu GridSample GroupQueryAttention Inverse MatMulBnb4 MatMulInteger16
        MatMulIntegerToFloat MatMulNBits MaxpoolWithMask MoE MultiHeadAttention MurmurHash3
        NGramRepeatBlock NhwcMaxPool Pad QAttention QEmbedLayerNormalization QGemm QLinearAdd
        QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul
        QLinearSigmoid QLinearSoftmax QLinearWhere QMoE QuantizeLinear QuickGelu Range RotaryEmbedding
        SkipLayerNormalization SkipSimplifiedLayerNormalization SparseAttention TransposeMatMul Trilu
        UnfoldTensor Unique WordConvEmbedding
    """,
    ML: """
        ArrayFeatureExtractor Binarizer FeatureVectorizer Imputer LabelEncoder LinearClassifier
        LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble
        TreeEnsembleClassifier TreeEnsembleRegressor
    """,
}
HOST_KERNELS = {domain: frozenset(names.split()) for domain, names in _KERNELS.items()}


@lru_cache(maxsize=512)
def opset_of(type: str, domain: str = "") -> int:
    """Return the version of its domain in which a host-only op is written."""
    if domain == ML and type == "TreeEnsemble":
        return 5
    return VERSIONS[domain] if domain else NEWER.get(type, HOST_OPSET)


def has_kernel(type: str, domain: str = "") -> bool:
    """Return whether onnxruntime executes the operator directly."""
    return type in HOST_KERNELS.get(domain, ())
