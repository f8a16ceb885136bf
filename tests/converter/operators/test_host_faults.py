"""Nodes that the host's kernels execute otherwise than ONNX says, and those next to them."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.onnx_models import build, check, floats, node


def refused(models, nodes, feeds, reason, opset=17):
    path = models.save(build(nodes, feeds, {}, ("y",), opset))
    with pytest.raises(xdlc.XdlcError, match=reason):
        xdlc.convert(path)


def test_unpooling_into_a_computed_shape(models):
    feeds = {"x": floats(1, 1, 2, 2), "i": np.arange(4).reshape(1, 1, 2, 2), "s": np.array([1, 1, 5, 5])}
    nodes = [node("MaxUnpool", "x i s", kernel_shape=[2, 2], strides=[2, 2])]
    refused(models, nodes, feeds, "positions in output_shape")


def test_inverse_dft_of_single_precision(models):
    x = floats(1, 10, 2)
    nodes = [node("DFT", "x - a", inverse=1)]
    refused(models, nodes, {"x": x, "a": np.array(1)}, "what cancels out differs", opset=20)
    feeds = {"x": x.astype(np.float64), "a": np.array(1)}
    check(models, nodes, feeds, opset=20, native=False, reference=True)


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
