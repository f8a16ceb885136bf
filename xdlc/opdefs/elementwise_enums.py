"""Numbers of element-wise operations: QNN's parameter ``operation``."""

from __future__ import annotations

BINARY = (
    "Add", "And", "Divide", "Equal", "FloorDiv", "Fmod", "Greater", "GreaterEqual", "Less",
    "LessEqual", "Maximum", "Minimum", "Mod", "Multiply", "NotEqual", "Or", "Power",
    "SquaredDifference", "Subtract", "Xor",
)  # fmt: skip
"""Operations of ElementWiseBinary by number."""
ADD, AND, DIVIDE, EQUAL, FLOOR_DIV, FMOD, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL = range(10)
MAXIMUM, MINIMUM, MOD, MULTIPLY, NOT_EQUAL, OR, POWER, SQUARED_DIFFERENCE, SUBTRACT, XOR = range(10, 20)

UNARY = (
    "Abs", "Asin", "Atan", "Ceil", "Cos", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal", "Round", "Rsqrt",
    "Sign", "Sin", "SquareRoot",
)  # fmt: skip
"""Operations of ElementWiseUnary by number."""
ABS, ASIN, ATAN, CEIL, COS, EXP, FLOOR, LOG, NEG, NOT, RECIPROCAL, ROUND, RSQRT, SIGN, SIN, SQRT = range(16)

NEURON = (
    "Elu", "Gelu", "HardSigmoid", "HardSwish", "Relu", "ReluMinMax", "Sigmoid", "Softplus", "Tanh",
)  # fmt: skip
"""Operations of ElementWiseNeuron by number."""
ELU, GELU, HARD_SIGMOID, HARD_SWISH, RELU, RELU_MIN_MAX, SIGMOID, SOFTPLUS, TANH = range(9)
