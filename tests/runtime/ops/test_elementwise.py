"""Binary, unary and activation ops against numpy."""

import math

import numpy as np
import pytest

from xdlc.errors import ModelError, UnsupportedOp
from xdlc.runtime.ops import elementwise
from xdlc.runtime.ops import neuron as neuron_ops

BINARY = {
    "Add": np.add, "And": np.logical_and, "Divide": np.divide, "Equal": np.equal,
    "FloorDiv": np.floor_divide, "Fmod": np.fmod, "Greater": np.greater, "GreaterEqual": np.greater_equal,
    "Less": np.less, "LessEqual": np.less_equal, "Maximum": np.maximum, "Minimum": np.minimum, "Mod": np.mod,
    "Multiply": np.multiply, "NotEqual": np.not_equal, "Or": np.logical_or, "Power": np.power,
    "SquaredDifference": lambda x, y: (x - y) ** 2, "Subtract": np.subtract, "Xor": np.logical_xor,
}  # fmt: skip
UNARY = {
    "Abs": np.abs,
    "Asin": np.arcsin,
    "Atan": np.arctan,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Reciprocal": lambda x: 1 / x,
    "Round": np.rint,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sign": np.sign,
    "Sin": np.sin,
    "SquareRoot": np.sqrt,
}


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


NEURON = {
    "Elu": ({"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "Gelu": ({}, lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
    "HardSigmoid": ({"alpha": 0.25, "beta": 0.4}, lambda x: np.clip(0.25 * x + 0.4, 0, 1)),
    "HardSwish": ({}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "ReluMinMax": ({"min_value": -0.5, "max_value": 0.75}, lambda x: np.clip(x, -0.5, 0.75)),
    "Sigmoid": ({}, _sigmoid),
    "Softplus": ({"beta": 2.0}, lambda x: np.log1p(np.exp(2 * x)) / 2),
    "Tanh": ({}, np.tanh),
}


@pytest.mark.parametrize("name", elementwise.BINARY)
@pytest.mark.parametrize("form", ["number", "name"])
def test_binary(one_op, rng, name, form):
    logic, compares = name in elementwise.LOGIC, name in (*elementwise.COMPARISON, "NotEqual")
    if logic:
        x, y = rng.random((2, 3, 4)) > 0.5, rng.random((3, 1)) > 0.5
    else:
        x = rng.uniform(0.5, 4, (2, 3, 4)).astype(np.float32) * (1 if name == "Power" else -1)
        y = rng.uniform(0.5, 2, (3, 1)).astype(np.float32)
        x[0] = y if compares else x[0]
    params = {"operation": elementwise.BINARY.index(name)} if form == "number" else {}
    type = "ElementWiseBinary" if form == "number" else f"ElementWise{name}"
    found = one_op(type, [x, y], [((2, 3, 4), "bool8" if logic or compares else "float32")], params)
    np.testing.assert_allclose(found, BINARY[name](x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["Add", "Divide", "FloorDiv", "Mod", "Fmod", "Maximum", "SquaredDifference"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint8])
def test_binary_of_integers(one_op, name, dtype):
    signed = np.issubdtype(dtype, np.signedinteger)
    x = np.array([7, 8, 9, -7 if signed else 7], dtype)
    y = np.array([2, 3, 9, 2], dtype)
    want = np.trunc(x / y) if name == "Divide" else BINARY[name](x.astype(np.int64), y.astype(np.int64))
    found = one_op(f"ElementWise{name}", [x, y], [((4,), np.dtype(dtype).name)])
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, want.astype(dtype))


@pytest.mark.parametrize("name", elementwise.UNARY)
def test_unary(one_op, rng, name):
    x = rng.uniform(0.05, 0.95, (2, 5)).astype(np.float32)
    if name in ("Abs", "Neg", "Sign", "Round", "Ceil", "Floor"):
        x = np.array([[-2.5, -1.5, -0.5, 0.5, 1.5], [2.5, 0, -3, 3.2, -0.1]], np.float32)
    if name == "Not":
        x = x > 0.5
    dtype = "bool8" if name == "Not" else "float32"
    number = elementwise.UNARY.index(name)
    for type, params in (("ElementWiseUnary", {"operation": number}), (f"ElementWise{name}", {})):
        found = one_op(type, [x], [((2, 5), dtype)], params)
        np.testing.assert_allclose(found, UNARY[name](x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", neuron_ops.OPERATIONS)
def test_neuron(one_op, rng, name):
    params, formula = NEURON[name]
    x = rng.normal(0, 2, (3, 7)).astype(np.float32)
    number = neuron_ops.OPERATIONS.index(name)
    own = "ElementWiseSoftplus" if name == "Softplus" else name
    for type, given in (("ElementWiseNeuron", {"operation": number, **params}), (own, params)):
        np.testing.assert_allclose(one_op(type, [x], [(3, 7)], given), formula(x), rtol=1e-5, atol=1e-6)


def test_softplus_is_the_identity_above_its_threshold(one_op):
    x = np.array([-1, 0.4, 0.6, 9], np.float32)
    found = one_op("ElementWiseSoftplus", [x], [(4,)], {"beta": 2.0, "threshold": 1.0})
    want = np.where(2 * x > 1, x, np.log1p(np.exp(2 * x)) / 2)
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_relu1_and_relu6(one_op):
    x = np.array([-7, -0.5, 0.5, 7], np.float32)
    np.testing.assert_array_equal(one_op("Relu1", [x], [(4,)]), np.clip(x, -1, 1))
    np.testing.assert_array_equal(one_op("Relu6", [x], [(4,)]), np.clip(x, 0, 6))


def test_hard_sigmoid_defaults(one_op):
    x = np.linspace(-4, 4, 9, dtype=np.float32)
    found = one_op("ElementWiseNeuron", [x], [(9,)], {"operation": 2})
    np.testing.assert_allclose(found, np.clip(0.2 * x + 0.5, 0, 1), atol=1e-6)


def test_select_broadcasts(one_op, rng):
    condition = rng.random((2, 1, 3)) > 0.5
    x, y = rng.random((2, 4, 3), np.float32), rng.random((1, 3), np.float32)
    found = one_op("ElementWiseSelect", [condition, x, y], [(2, 4, 3)])
    np.testing.assert_array_equal(found, np.where(condition, x, y))


def test_erf_of_the_host_package(one_op, rng):
    x = rng.normal(size=8).astype(np.float32)
    found = one_op("Erf", [x], [(8,)], package="xdlc")
    np.testing.assert_allclose(found, np.vectorize(math.erf)(x), rtol=1e-5, atol=1e-6)


def test_not_finite(one_op):
    x = np.array([0, np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(one_op("IsNan", [x], [((4,), "bool8")]), np.isnan(x))
    found = one_op("IsInf", [x], [((4,), "bool8")], {"detect_negative": False})
    np.testing.assert_array_equal(found, np.isposinf(x))


@pytest.mark.parametrize("type", ["ElementWiseBinary", "ElementWiseUnary", "ElementWiseNeuron"])
def test_unknown_operation_numbers_are_named(one_op, type):
    x = np.zeros(3, np.float32)
    with pytest.raises(ModelError, match="'operation' is 99"):
        one_op(type, [x, x], [(3,)], {"operation": 99})


def test_host_package_does_not_answer_for_the_native_one(one_op):
    with pytest.raises(UnsupportedOp, match="no host implementation of Erf"):
        one_op("Erf", [np.zeros(3, np.float32)], [(3,)])
