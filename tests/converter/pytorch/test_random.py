"""Operators that draw random numbers: their numbers are inputs of the network."""

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram
from tests.support.running import run
from xdlc.errors import UnsupportedOp

X = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)
DRAWN = np.array([[0.15, 0.3, 0.7], [0.2, 0.99, 0.0]], np.float32)
LIKE = {
    "rand_like": ([], {}, DRAWN),
    "randn_like": ([], {}, DRAWN),
    "randint_like.low_dtype": ([0, 2], {}, np.floor(DRAWN)),
    "uniform": ([], {}, DRAWN),
    "normal_functional": ([1.0, 2.0], {}, DRAWN),
    "normal.Tensor_float": ([0.5], {}, X + DRAWN * 0.5),
    "exponential": ([2.0], {}, -np.log(1 - DRAWN) / 2),
    "bernoulli": ([], {}, (DRAWN < X).astype("f4")),
    "bernoulli.p": ([0.25], {}, (DRAWN < 0.25).astype("f4")),
    "dropout": ([0.25, True], {}, np.where(DRAWN < 0.75, X / 0.75, 0)),
    "dropout of all": ([1.0, True], {}, X * 0),
}
SIZED = {
    "rand": ([[2, 3]], "float32", DRAWN),
    "randn": ([[2, 3]], "float32", DRAWN),
    "randint.low": ([0, 1, [2, 3]], "int64", np.zeros((2, 3))),
    "normal.float_float": ([1.0, 2.0, [2, 3]], "float32", 1 + 2 * DRAWN),
}


@pytest.mark.parametrize("case", LIKE)
def test_numbers_like_a_tensor(tmp_path, case):
    arguments, keywords, want = LIKE[case]
    made = TinyProgram()
    made.op(case.split()[0], made.input("x", X.shape), *arguments, **keywords)
    model = made.convert(tmp_path, random="as-input")
    assert [tensor.name for tensor in model.main.inputs][:1] == ["x"]
    feeds = {"x": X, model.main.inputs[1].name: DRAWN}
    np.testing.assert_allclose(*run(model, feeds).values(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", SIZED)
def test_numbers_of_a_size(tmp_path, case):
    arguments, dtype, want = SIZED[case]
    made = TinyProgram()
    made.op(case, *arguments, shape=(2, 3), dtype=dtype)
    notices = []
    model = made.convert(tmp_path, random="as-input", notify=notices.append)
    (drawn,) = model.main.inputs
    assert any(f"'{drawn.name}'" in notice for notice in notices)
    (found,) = run(model, {drawn.name: DRAWN}).values()
    assert found.dtype == dtype
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_an_order_is_that_of_the_numbers(tmp_path):
    made = TinyProgram()
    made.op("randperm", 4, shape=(4,), dtype="int64")
    model = made.convert(tmp_path, random="as-input")
    numbers = np.array([0.5, 0.1, 0.9, 0.2], np.float32)
    np.testing.assert_array_equal(*run(model, {model.main.inputs[0].name: numbers}).values(), [1, 3, 0, 2])


def test_each_call_has_an_input_of_its_own(tmp_path):
    made = TinyProgram()
    first = made.op("rand_like", made.input("x", X.shape))
    made.op("sub.Tensor", first, made.op("rand_like", first))
    model = made.convert(tmp_path, random="as-input")
    names = [tensor.name for tensor in model.main.inputs]
    assert len(set(names)) == 3
    np.testing.assert_allclose(*run(model, dict(zip(names, [X, X, DRAWN], strict=True))).values(), X - DRAWN)


@pytest.mark.parametrize("case", ["rand_like", "bernoulli", "dropout"])
def test_a_refusal_names_the_option(tmp_path, case):
    made = TinyProgram()
    made.op(case, made.input("x", X.shape), *LIKE[case][0])
    with pytest.raises(UnsupportedOp) as caught:
        made.convert(tmp_path)
    assert "as-input" in caught.value.fix


def test_other_values_of_the_option_are_refused(tmp_path):
    made = TinyProgram()
    made.op("relu", made.input("x", X.shape))
    with pytest.raises(xdlc.XdlcError, match="'constant'"):
        made.convert(tmp_path, random="constant")
