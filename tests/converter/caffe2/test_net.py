"""Tests of Caffe2 nets: values by the last writer, inputs, outputs, refusals."""

import numpy as np
import pytest

from tests.converter.caffe2.nets import TinyNet

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 3, 2, 2)


def scaled(by=2.0, packed=False):
    made = TinyNet()
    made.op("Mul", ["data", made.fill("w", np.float32([by] * 4).reshape(1, 1, 2, 2), packed=packed)], ["y"])
    return made


@pytest.mark.parametrize("packed", [False, True])
def test_weights_are_read_from_the_init_net(tmp_path, packed):
    np.testing.assert_array_equal(scaled(packed=packed).run(tmp_path, {"data": X})["y"], X * 2)


def test_the_last_writer_of_a_name_rules(tmp_path):
    made = TinyNet()
    made.op("Abs", ["data"], ["a"])
    made.op("Add", ["a", "data"], ["a"])
    made.op("Negative", ["a"], ["a"])
    made.op("Add", ["a", "data"], ["data"])
    got = made.run(tmp_path, {"data": X}, ["a", "data"])
    np.testing.assert_allclose(got.pop("a"), -(abs(X) + X))
    (last,) = got.values()
    np.testing.assert_allclose(last, -abs(X), atol=1e-6)
