"""Nodes that the host's kernels execute otherwise than ONNX, and their neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, helper

import xdlc
from tests.support.onnx_models import build, check, floats, node


def refused(models, nodes, feeds, reason, opset=17):
    path = models.save(build(nodes, feeds, {}, ("y",), opset))
    with pytest.raises(xdlc.XdlcError, match=reason):
        xdlc.convert(path)


def test_unpooling_into_a_computed_shape(models):
    feeds = {"x": floats(1, 1, 2, 2), "i": np.arange(4).reshape(1, 1, 2, 2), "s": np.array([1, 1, 5, 5])}
    nodes = [node("MaxUnpool", "x i s", kernel_shape=[2, 2], strides=[2, 2])]
    refused(models, nodes, feeds, "positions in output_shape")


def test_empty_lists_that_onnxruntime_reads_as_absent(models):
    lstm = node("LSTM", "x w r", hidden_size=2)
    for name in ("activation_alpha", "activation_beta"):
        lstm.attribute.append(helper.make_attribute(name, [], attr_type=AttributeProto.FLOATS))
    lstm.attribute.append(helper.make_attribute("activations", [], attr_type=AttributeProto.STRINGS))
    imputer = node("Imputer", "m", "z", domain="ai.onnx.ml", imputed_value_floats=[9.0])
    imputer.attribute.append(helper.make_attribute("imputed_value_int64s", [], attr_type=AttributeProto.INTS))
    feeds = {"x": floats(3, 1, 4), "m": np.float32([[0, 1, 2]])}
    weights = {"w": floats(1, 8, 4), "r": floats(1, 8, 2)}
    check(models, [lstm, imputer], feeds, weights, outputs=("y", "z"), native=False)


def test_unique_of_slices_without_elements(models):
    refused(models, [node("Unique", "x", axis=0)], {"x": floats(3, 0)}, "without elements")


@pytest.mark.parametrize("length", [None, 7, 12])
def test_inverse_dft_of_single_precision_is_a_product(models, length):
    x, given = floats(2, 10, 3, 2), {} if length is None else {"n": np.array(length)}
    nodes = [node("DFT", "x n a" if given else "x - a", inverse=1)]
    model = check(models, nodes, {"x": x}, {"a": np.array(1), **given}, opset=20, reference=True, atol=1e-6)
    assert "FullyConnected" in [op.type for op in model.main.ops]


def test_inverse_dft_of_double_precision_is_left_to_the_host(models):
    feeds = {"x": floats(1, 10, 2).astype(np.float64), "a": np.array(1)}
    check(models, [node("DFT", "x - a", inverse=1)], feeds, opset=20, native=False, reference=True)


def test_dft_is_as_precise_as_its_type(models):
    x = np.arange(200, dtype=np.float32).reshape(1, 100, 2)
    nodes = [node("DFT", "x - a")]
    check(
        models,
        nodes,
        {"x": x, "a": np.array(1)},
        opset=20,
        native=False,
        reference=True,
        rtol=1e-4,
        atol=1e-3,
    )
