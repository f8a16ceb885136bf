"""Types that the host computes in wider ones: narrow integers and bfloat16."""

import ml_dtypes
import numpy as np
import pytest

from tests.support.running import run
from xdlc.errors import UnsupportedOp
from xdlc.ir import Graph, Model, Tensor, make_op
from xdlc.ir.dtype import FLOAT16

ADD, MULTIPLY, SUBTRACT = 0, 13, 18


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.uint32])
@pytest.mark.parametrize(
    ("operation", "function"), [(ADD, np.add), (MULTIPLY, np.multiply), (SUBTRACT, np.subtract)]
)
def test_narrow_integers_wrap_around_within_a_graph(one_op, dtype, operation, function):
    x = np.array([3, 100, np.iinfo(dtype).max], dtype)
    y = np.array([5, 200 % (np.iinfo(dtype).max + 1), 2], dtype)
    name = np.dtype(dtype).name
    found = one_op("ElementWiseBinary", [x, y], [((3,), name)], {"operation": operation})
    np.testing.assert_array_equal(found, function(x, y))


def test_sums_of_narrow_integers_wrap_around(one_op):
    x = np.full((2, 5), 100, np.int8)
    found = one_op("ReduceSum", [x], [((2,), "int8")], {"axes": [1]})
    np.testing.assert_array_equal(found, x.sum(1, dtype=np.int8))


def test_modulo_of_infinity_and_zero(one_op):
    x = np.array([-np.inf, 0.0, -0.0, -3, 3, 3, -3, 4, -4, 5, 7.5, -7.5], np.float32)
    y = np.array([2, 5, 5, np.inf, np.inf, -np.inf, -np.inf, -2, 2, 0, 2, 2], np.float32)
    found = one_op("ElementWiseMod", [x, y], [(len(x),)])
    with np.errstate(invalid="ignore"):
        want = np.mod(x, y)
    np.testing.assert_array_equal(found, want)


def test_bfloat16_is_rounded_after_each_op(one_op):
    x = np.array([1.0078125, 3.015625], ml_dtypes.bfloat16)
    found = one_op("ElementWiseMultiply", [x, x], [((2,), "bfloat16")])
    np.testing.assert_array_equal(found.astype(np.float32), (x * x).astype(np.float32))


def test_float16_is_rounded_after_each_op():
    model = Model(metadata={"history": [{"tool": "xdlc-quant", "args": {"float_bitwidth": "16"}}]})
    graph = model.add_graph(Graph("g"))
    x = graph.add_input(Tensor("x", (3,), FLOAT16))
    power, root = Tensor("power", (3,), FLOAT16), Tensor("root", (3,), FLOAT16)
    graph.append(make_op(graph, "ElementWiseMultiply", [x, x], [power], name="square"))
    graph.append(make_op(graph, "ElementWiseSquareRoot", [power], [root], name="root"))
    graph.add_output(root)
    values = np.array([1e-4, 1.0009765625, 3e-4], np.float16)  # 1e-8 is below the least float16
    np.testing.assert_array_equal(run(model, {"x": values})["root"], np.sqrt(values * values))
    assert run(graph, {"x": values})["root"][0] > 0  # a source of float16, as onnxruntime computes it


def test_softmax_of_bfloat16_is_refused(one_op):
    x = np.ones((2, 3), ml_dtypes.bfloat16)
    with pytest.raises(UnsupportedOp, match="the sums of a bfloat16"):
        one_op("Softmax", [x], [((2, 3), "bfloat16")])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_pool_of_integers(one_op, dtype):
    x = np.arange(16, dtype=dtype).reshape(1, 4, 4, 1) + (0 if dtype == np.uint8 else (1 << 30))
    params = {"filter_size": [2, 2], "stride": [2, 2], "pad_amount": [[0, 0], [0, 0]]}
    found = one_op("PoolMax2d", [x.astype(dtype)], [((1, 2, 2, 1), np.dtype(dtype).name)], params)
    np.testing.assert_array_equal(found, x[:, 1::2, 1::2].astype(dtype))


A = np.array([1, 2**63 + 5, 2**64 - 1, 2**63, 7], np.uint64)
B = np.array([2, 3, 2**63, 2**63 + 1, 2**64 - 2], np.uint64)
UNSIGNED = {
    "Maximum": np.maximum, "Minimum": np.minimum, "Divide": np.floor_divide, "FloorDiv": np.floor_divide,
    "Mod": np.mod, "Fmod": np.mod, "Add": np.add, "Multiply": np.multiply, "Subtract": np.subtract,
    "Greater": np.greater, "LessEqual": np.less_equal, "Equal": np.equal, "NotEqual": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_64_bit_integers(one_op, name):
    want = UNSIGNED[name](A, B)
    found = one_op(f"ElementWise{name}", [A, B], [((5,), "bool8" if want.dtype == bool else "uint64")])
    np.testing.assert_array_equal(found, want)


def test_order_and_size_of_unsigned_64_bit_integers(one_op):
    np.testing.assert_array_equal(
        one_op("ReduceMax", [A], [((1,), "uint64")], {"axes": [0], "keep_dims": True}), A.max()
    )
    np.testing.assert_array_equal(
        one_op("Argmin", [A], [((1,), "int32")], {"axis": 0, "keep_dims": True}), A.argmin()
    )
    largest = one_op("TopK", [A], [((3,), "uint64")], {"k": 3})
    np.testing.assert_array_equal(largest, np.sort(A)[::-1][:3])
    np.testing.assert_array_equal(one_op("Cast", [A], [((5,), "float64")]), A.astype(np.float64))
    np.testing.assert_array_equal(one_op("ElementWiseSign", [A], [((5,), "uint64")]), np.ones(5))
    np.testing.assert_array_equal(one_op("ElementWiseAbs", [A], [((5,), "uint64")]), A)


def test_cast_to_half_rounds(one_op):
    x = np.array([0.1, 1e-9, 7e4, 3.14159], np.float32)
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    np.testing.assert_array_equal(one_op("Cast", [x], [((4,), "float16")]), want)


def test_scattered_sums_of_bytes_wrap_around(one_op):
    x, index = np.array([200, 3], np.uint8), np.array([0, 1], np.int32)
    found = one_op("ScatterElements", [x, index, x], [((2,), "uint8")], {"axis": 0, "reduction": 1})
    np.testing.assert_array_equal(found, x + x)


def test_relu_of_64_bit_integers(one_op):
    x = np.array([-3, 0, 1 << 60])
    np.testing.assert_array_equal(one_op("Relu", [x], [((3,), "int64")]), np.maximum(x, 0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "uint64", "bool8"])
def test_one_hot_of_any_type(one_op, dtype):
    index = np.array([1, 0, -1], np.int32)
    found = one_op(
        "OneHot", [index], [((3, 2), dtype)], {"depth": 2, "axis": 1, "on_value": 1, "off_value": 0}
    )
    np.testing.assert_array_equal(found, [[0, 1], [1, 0], [0, 0]])


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.uint32, np.int64])
def test_select_of_any_integers(one_op, dtype):
    condition, first = np.array([True, False, True]), np.array([1, 0, 1], dtype)
    second = np.array([0, 1, 1], dtype)
    name = "bool8" if dtype is np.bool_ else np.dtype(dtype).name
    found = one_op("ElementWiseSelect", [condition, first, second], [((3,), name)])
    np.testing.assert_array_equal(found, np.where(condition, first, second))
