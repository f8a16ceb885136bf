"""Pools that QNN lacks and depthwise convolutions that HTP lacks, taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import RNG, check, floats, node

IMAGE = (2, 3, 9, 8)


def test_dilated_max_pool_of_bytes(models):
    x = RNG.integers(-128, 127, (1, 2, 9, 9)).astype(np.int8)
    check(models, [node("MaxPool", kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 1, 1, 1])], {"x": x})


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("dilation", [1, 2])
def test_average_pool_counts_padding_but_not_what_hangs_over(models, include, ceil, dilation):
    attributes = dict(
        kernel_shape=[3, 3],
        dilations=[dilation] * 2,
        pads=[1, 0, 1, 1],
        strides=[2, 3],
        count_include_pad=include,
        ceil_mode=ceil,
    )
    check(models, [node("AveragePool", **attributes)], {"x": floats(*IMAGE)}, opset=19)


PLACES = [
    (IMAGE, dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
    (IMAGE, dict(kernel_shape=[2, 2], strides=[2, 2], storage_order=1)),
    (IMAGE, dict(kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)),
    ((1, 2, 9), dict(kernel_shape=[3], dilations=[2])),
    ((1, 2, 6, 5, 6), dict(kernel_shape=[2, 2, 2], strides=[2, 2, 2])),
]


@pytest.mark.parametrize(("shape", "attributes"), PLACES)
def test_places_of_maxima(models, shape, attributes):
    check(models, [node("MaxPool", "x", "y i", **attributes)], {"x": floats(*shape)}, outputs=("y", "i"))


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_lp_pool(models, p, dilation):
    attributes = dict(kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1], dilations=[dilation] * 2, p=p)
    check(models, [node("LpPool", **attributes)], {"x": floats(*IMAGE)}, opset=18)


@pytest.mark.parametrize("shape", [(1, 2, 6), (1, 2, 6, 5, 4)])
def test_lp_pool_over_one_and_three_axes(models, shape):
    check(models, [node("LpPool", kernel_shape=[2] * (len(shape) - 2))], {"x": floats(*shape)}, opset=18)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(models, p):
    check(models, [node("GlobalLpPool", p=p)], {"x": floats(*IMAGE)})


@pytest.mark.parametrize("shape", [None, (1, 2, 4, 4), (1, 2, 5, 6)])
def test_max_unpool(models, shape):
    feeds = {
        "x": floats(1, 2, 2, 2),
        "i": np.array([[5, 7], [13, 15], [16, 18], [29, 31]]).reshape(1, 2, 2, 2),
    }
    weights = {} if shape is None else {"s": np.array(shape)}
    nodes = [node("MaxUnpool", "x i" + (" s" if shape else ""), kernel_shape=[2, 2], strides=[2, 2])]
    check(models, nodes, feeds, weights, reference=True)


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (2, 1, 3, 4), (3, 2, 1, 2)])
@pytest.mark.parametrize("dilations", [(2, 2), (4, 1), (6, 3)])
def test_depthwise_convolution_has_no_stride_with_a_dilation(models, dilations, pads):
    attributes = dict(group=3, strides=[2, 3], dilations=list(dilations), pads=list(pads))
    shape, weights = (2, 3, 16, 15), {"w": floats(3, 1, 3, 2)}
    made = check(models, [node("Conv", "x w", **attributes)], {"x": floats(*shape)}, weights)
    (found,) = (op for op in made.main.ops if op.type == "DepthWiseConv2d")
    stride, dilation = (found.params[name].numpy() for name in ("stride", "dilation"))
    assert all(np.gcd(stride, dilation) == 1)
