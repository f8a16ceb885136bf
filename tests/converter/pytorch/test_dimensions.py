"""Tests of dynamic dimensions of programs of torch.export."""

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram
from xdlc.converter.pytorch.symbols import shown
from xdlc.errors import UsageError

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def rows(made):
    """Return a program with a dynamic number of rows, and results that depend on it."""
    made.ranges = {"s0": {"min_val": 1, "max_val": 8}}
    x = made.input("x", ("2*s0", 3))
    count = made.op("sym_size.int", x, 0, number="2*s0")
    half = made.op("_operator.floordiv", count, 2, number="s0")
    return [made.op("view", x, [half, -1], shape=("s0", 6)), half]


def test_dimensions_are_those_of_the_example_unless_they_are_given(tmp_path):
    builder = TinyProgram({"s0": 1})
    ends = rows(builder)
    notices = []
    assert builder.convert(tmp_path, ends, notify=notices.append).main.inputs[0].shape == (2, 3)
    assert [("'x'" in text, "input_dims" in text) for text in notices] == [(True, True)]
    for options in ({"input_dims": {"x": (6, 3)}}, {"batch": 6}, {"define_symbol": {"s0": 3}}):
        model = builder.convert(tmp_path, ends, notify=notices.append, **options)
        assert model.main.inputs[0].shape == (6, 3)
        values = np.arange(18, dtype=np.float32).reshape(6, 3)
        got = xdlc.run(model, {"x": values})
        np.testing.assert_array_equal(got["output_0"], values.reshape(3, 6))
        assert got["output_1"] == 3
    assert len(notices) == 1


@pytest.mark.parametrize("sizes", [(5, 3), (18, 3), (2, 4), (0, 3), (2, 3, 1), (2, -1)])
def test_shapes_that_do_not_fit_the_program(tmp_path, sizes):
    made = TinyProgram({"s0": 1})
    ends = rows(made)
    with pytest.raises(UsageError):
        made.convert(tmp_path, ends, input_dims={"x": sizes})


def test_dimensions_may_stay_open(tmp_path):
    made = TinyProgram({"s0": 2})
    made.op("neg", made.input("x", ("s0", 3)))
    model = made.convert(tmp_path, input_dims={"x": (-1, 3)})
    assert [tensor.dynamic_axes for tensor in (*model.main.inputs, *model.main.outputs)] == [(0,), (0,)]
    assert model.metadata["symbols"] == {"x": ["s0", None]}
    for count in (1, 2):
        np.testing.assert_array_equal(xdlc.run(model, {"x": X[:count]})["output_0"], -X[:count])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Mul(Integer(2), Symbol('s0', positive=True, integer=True))", "2 * s0"),
        ("Add(Symbol('s0'), FloorDiv(Symbol('s1'), Integer(2)), Integer(-1))", "s0 + s1 // 2 + -1"),
        ("Max(Symbol('s0'), Mul(Integer(3), Add(Symbol('s1'), Integer(1))))", "Max(s0, 3 * (s1 + 1))"),
        ("2*s0", "2 * s0"),
        (7, 7),
    ],
)
def test_expressions_are_shown_as_people_write_them(text, wanted):
    assert shown(text) == wanted
