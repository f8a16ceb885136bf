"""Convolutions, pools and products of Caffe, compared with sums in numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.converter.caffe.nets import convert, data, layer
from tests.converter.caffe.test_layers_arithmetic import check, normal
from xdlc.errors import XdlcError


def places(shape):
    return itertools.product(*map(range, shape))


def convolved(x, weight, bias, stride, pad, dilation, group=1):
    """Return a convolution over all axes from 2 on; stride, pad and dilation by axis."""
    count, kernel = weight.shape[0] // group, weight.shape[2:]
    wide = np.pad(x, [(0, 0), (0, 0), *((each, each) for each in pad)])
    rooms = zip(wide.shape[2:], kernel, stride, dilation, strict=True)
    sizes = [(room - d * (k - 1) - 1) // s + 1 for room, k, s, d in rooms]
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    for part in range(group):
        rows = slice(part * count, (part + 1) * count)
        inner = slice(part * weight.shape[1], (part + 1) * weight.shape[1])
        for tap in places(kernel):
            ranges = zip(tap, sizes, stride, dilation, strict=True)
            cut = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, n, s, d in ranges]
            out[:, rows] += np.einsum("nc...,mc->nm...", wide[:, inner, *cut], weight[rows, :, *tap])
    return out + bias.reshape(-1, *[1] * len(kernel))


def spread(x, weight, bias, stride, pad, dilation, group=1):
    """Return a transposed convolution over axes 2 and up, added kernel by kernel."""
    count, inner, kernel = weight.shape[1], x.shape[1] // group, weight.shape[2:]
    sizes = [
        s * (n - 1) + d * (k - 1) + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    out = np.zeros((x.shape[0], count * group, *sizes))
    for part, tap, place in itertools.product(range(group), places(kernel), places(x.shape[2:])):
        spot = [p * s + t * d for p, t, s, d in zip(place, tap, stride, dilation, strict=True)]
        rows = slice(part * inner, (part + 1) * inner)
        out[:, part * count : (part + 1) * count, *spot] += x[:, rows, *place] @ weight[rows, :, *tap]
    cut = [slice(p, size - p) for p, size in zip(pad, sizes, strict=True)]
    return out[:, :, *cut] + bias.reshape(-1, *[1] * len(kernel))


IMAGE, CUBE, LINE = normal(2, 4, 6, 7), normal(1, 2, 4, 5, 3), normal(2, 4, 9)
B4, B6, B8 = normal(4), normal(6), normal(8)
W1, W2, W3 = normal(6, 4, 3), normal(6, 2, 2, 3), normal(4, 2, 3, 2, 1)
CONVOLUTIONS = [
    (
        "Convolution",
        LINE,
        "num_output: 6 kernel_size: 3 stride: 2 pad: 1",
        [W1, B6],
        convolved(LINE, W1, B6, [2], [1], [1]),
    ),
    (
        "Convolution",
        IMAGE,
        "num_output: 6 group: 2 kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 1 dilation: [1, 2]",
        [W2, B6],
        convolved(IMAGE, W2, B6, [2, 1], [1, 0], [1, 2], 2),
    ),
    (
        "Convolution",
        CUBE,
        "num_output: 4 kernel_size: [3, 2, 1] stride: [1, 2, 1] pad: [1, 0, 1]",
        [W3, B4],
        convolved(CUBE, W3, B4, [1, 2, 1], [1, 0, 1], [1, 1, 1]),
    ),
    (
        "Convolution",
        IMAGE,
        "num_output: 6 group: 2 kernel_h: 2 kernel_w: 3 stride_h: 2 pad_w: 1",
        [W2, B6],
        convolved(IMAGE, W2, B6, [2, 1], [0, 1], [1, 1], 2),
    ),
    (
        "Convolution",
        CUBE,
        "axis: 2 num_output: 3 kernel_size: 2 bias_term: false",
        [W2[:3, :1].repeat(4, 1)[..., :2]],
        convolved(
            CUBE.reshape(2, 4, 5, 3), W2[:3, :1].repeat(4, 1)[..., :2], np.zeros(3), [1] * 2, [0] * 2, [1] * 2
        )[None],
    ),
    (
        "Convolution",
        LINE,
        "axis: 0 num_output: 3 kernel_size: [1, 2] bias_term: false",
        [normal(3, 2, 1, 2)],
        None,
    ),
    (
        "Convolution",
        LINE,
        "num_output: 6 kernel_size: 3 stride: 3 dilation: 5",  # of size 11, once over the 9 elements
        [W1, B6],
        convolved(np.pad(LINE, [(0, 0), (0, 0), (0, 2)]), W1, B6, [3], [0], [5]),
    ),
    (
        "Convolution",
        LINE[..., 0],
        "num_output: 6 kernel_size: 1",
        [W1[..., 0], B6],
        LINE[..., 0] @ W1[..., 0].T + B6,
    ),
    (
        "DepthwiseConvolution",
        IMAGE,
        "num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'msra' }",
        [normal(8, 1, 3, 3), B8],
        "grouped",
    ),
    (
        "Deconvolution",
        LINE,
        "num_output: 6 kernel_size: 3 stride: 2 pad: 1",
        [normal(4, 6, 3), B6],
        ([2], [1], [1], 1),
    ),
    (
        "Deconvolution",
        IMAGE,
        "num_output: 6 group: 2 kernel_size: [2, 3] stride: 2 pad: [0, 1] dilation: [1, 2]",
        [normal(4, 3, 2, 3), B6],
        ([2, 2], [0, 1], [1, 2], 2),
    ),
    (
        "Deconvolution",
        IMAGE,
        "num_output: 8 group: 4 kernel_size: 2 stride: 3",
        [normal(4, 2, 2, 2), B8],
        ([3, 3], [0, 0], [1, 1], 4),
    ),
    (
        "Deconvolution",
        CUBE,
        "num_output: 4 kernel_size: 2 stride: [1, 2, 1] dilation: 2",
        [normal(2, 4, 2, 2, 2), B4],
        ([1, 2, 1], [0] * 3, [2] * 3, 1),
    ),
]


def test_convolutions(tmp_path):
    text, inputs, weights, expected = "", {}, {}, {}
    for number, (type, x, params, blobs, result) in enumerate(CONVOLUTIONS):
        name = f"y{number}"
        inputs[f"x{number}"], weights[name] = x, blobs
        text += data(*x.shape, name=f"x{number}")
        text += layer(type, f"convolution_param {{ {params} }}", f"x{number}", name)
        if type == "Deconvolution":
            result = spread(x, *blobs, *result)
        elif result is None:
            result = convolved(x[None], *blobs, np.zeros(3), [1] * 2, [0] * 2, [1] * 2)[0]
        elif isinstance(result, str):
            result = convolved(x, *blobs, [1] * 2, [1] * 2, [1] * 2, x.shape[1])
        expected[name] = result
    check(tmp_path, text, inputs, weights, expected)


def windows(x, kernel, stride, pad, rounds_up=True):
    """Return the padded windows of each axis, as pooling_layer.cpp has them."""
    ranges = []
    for axis in range(2):
        room = x.shape[2 + axis] + 2 * pad[axis] - kernel[axis]
        count = (-(-room // stride[axis]) if rounds_up else room // stride[axis]) + 1
        if any(pad) and (count - 1) * stride[axis] >= x.shape[2 + axis] + pad[axis]:
            count -= 1
        starts = [each * stride[axis] - pad[axis] for each in range(count)]
        limit = x.shape[2 + axis] + pad[axis]
        ranges.append([(start, min(start + kernel[axis], limit)) for start in starts])
    return ranges


def pooled(x, method, kernel, stride=(1, 1), pad=(0, 0), rounds_up=True):
    rows, columns = windows(x, kernel, stride, pad, rounds_up)
    out = np.zeros((*x.shape[:2], len(rows), len(columns)))
    where = np.zeros_like(out)
    for (i, (top, bottom)), (j, (left, right)) in itertools.product(enumerate(rows), enumerate(columns)):
        part = x[:, :, max(top, 0) : bottom, max(left, 0) : right]
        flat = part.reshape(*x.shape[:2], -1)
        if method == "MAX":
            out[:, :, i, j] = flat.max(2)
            y, z = np.divmod(flat.argmax(2), part.shape[3])
            where[:, :, i, j] = (y + max(top, 0)) * x.shape[3] + z + max(left, 0)
        elif method == "AVE":
            out[:, :, i, j] = flat.sum(2) / ((bottom - top) * (right - left))
        else:
            out[:, :, i, j] = (flat * flat).sum(2) / np.maximum(flat.sum(2), np.finfo(np.float32).tiny)
    return out, where


POOLS = [
    ("kernel_size: 3 stride: 2", ("MAX", (3, 3), (2, 2))),
    ("kernel_size: 3 stride: 2 ceil_mode: false", ("MAX", (3, 3), (2, 2), (0, 0), False)),
    ("kernel_size: 2 stride: 3 pad: 1 round_mode: 1", ("MAX", (2, 2), (3, 3), (1, 1), False)),
    ("kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2", ("MAX", (2, 3), (2, 1), (0, 2))),
    ("kernel_size: 1 stride: 2", ("MAX", (1, 1), (2, 2))),
    ("kernel_h: 1 kernel_w: 3 stride_h: 3 stride_w: 2 pad_h: 0 pad_w: 1", ("MAX", (1, 3), (3, 2), (0, 1))),
    (
        "kernel_h: 1 kernel_w: 3 stride_h: 3 stride_w: 2 pad_h: 0 pad_w: 1 pool: AVE",
        ("AVE", (1, 3), (3, 2), (0, 1)),
    ),
    ("pool: AVE kernel_size: 3 stride: 2", ("AVE", (3, 3), (2, 2))),
    ("pool: AVE kernel_size: 4 stride: 3 pad: 3", ("AVE", (4, 4), (3, 3), (3, 3))),
    ("pool: AVE kernel_size: 8 stride: 4", ("AVE", (8, 8), (4, 4))),
    ("pool: 1 kernel_size: 5 stride: 1 pad: 2", ("AVE", (5, 5), (1, 1), (2, 2))),
    ("pool: AVE global_pooling: true", ("AVE", (5, 7))),
    ("global_pooling: true", ("MAX", (5, 7))),
    ("pool: STOCHASTIC kernel_size: 3 stride: 2", ("STOCHASTIC", (3, 3), (2, 2))),
]
PLANES = np.abs(normal(2, 3, 5, 7))
PLANES[0, 0, :3, :3] = 0


def test_pools(tmp_path):
    text, expected = data(*PLANES.shape), {}
    for number, (params, given) in enumerate(POOLS):
        tops = f"y{number} w{number}" if given[0] == "MAX" else f"y{number}"
        text += layer("Pooling", f"pooling_param {{ {params} }}", top=tops)
        expected.update(zip(tops.split(), pooled(PLANES, *given), strict=False))
        text += layer("Pooling", f"pooling_param {{ {params} }}", top=f"z{number}")
        expected[f"z{number}"] = expected[f"y{number}"]
    check(tmp_path, text, {"data": PLANES}, None, expected)


def test_pyramids_columns_products_and_rows(tmp_path):
    x, indices, v = PLANES, np.float32([[0, 3, 1], [2, 2, 0]]), normal(4)
    table, square, wide = normal(4, 6), normal(7, 4), normal(105, 4)
    level = [pooled(x, "MAX", (5, 7))[0], pooled(x, "MAX", (3, 4), (3, 4), (1, 1))[0]]
    taps = [
        np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])[:, :, i : i + 5 : 2, 2 * j : 2 * j + 5]
        for i in range(3)
        for j in range(2)
    ]
    cases = {
        "spp1": layer("SPP", "spp_param { pyramid_height: 1 pool: AVE }", top="spp1"),
        "spp2": layer("SPP", "spp_param { pyramid_height: 2 }", top="spp2"),
        "col": layer(
            "Im2col",
            "convolution_param { kernel_h: 3 kernel_w: 2 pad_h: 1 stride_h: 2 stride_w: 1 dilation: [1, 2] }",
            top="col",
        ),
        "fc": layer("InnerProduct", "inner_product_param { num_output: 4 }", top="fc"),
        "fc3": layer(
            "InnerProduct",
            "inner_product_param { num_output: 4 axis: 3 transpose: true bias_term: false }",
            top="fc3",
        ),
        "embed": layer(
            "Embed", "embed_param { num_output: 6 input_dim: 4 bias_term: false }", "indices", "embed"
        ),
    }
    weights = {"fc": [wide.T.reshape(1, 1, 4, 105), v.reshape(1, 1, 1, 4)], "fc3": [square], "embed": [table]}
    expected = {
        "spp1": pooled(x, "AVE", (5, 7))[0],
        "spp2": np.concatenate([each.reshape(2, -1) for each in level], 1),
        "col": np.stack(taps, 2).reshape(2, 18, 3, 5),
        "fc": x.reshape(2, -1) @ wide + v,
        "fc3": x @ square,
        "embed": table[indices.astype(int)],
    }
    text = data(*x.shape) + data(2, 3, name="indices") + "".join(cases.values())
    check(tmp_path, text, {"data": x, "indices": indices}, weights, expected)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_a_bilinear_filler_makes_missing_weights_with_a_notice(tmp_path, size):
    factor = (size + 1) // 2
    center = {2: 0, 3: 3 / 4, 4: 3 / 4, 5: 4 / 6, 6: 4 / 6}[size]  # of Caffe itself
    line = 1 - np.abs(np.arange(size) / factor - center)
    x = normal(1, 2, 3, 4)
    weight = np.broadcast_to(np.outer(line, line), (2, 3, size, size))
    fillers = 'weight_filler { type: "bilinear" } bias_filler { value: 2 }'
    params = f"num_output: 3 kernel_size: {size} stride: 2 {fillers}"
    text = data(*x.shape) + layer("Deconvolution", f"convolution_param {{ {params} }}")
    notices: list[str] = []
    convert(tmp_path, text, notify=notices.append)
    assert any("layer 'y' (Deconvolution, line 2)" in notice for notice in notices)
    wanted = spread(x, weight, np.full(3, 2.0), [2, 2], [0, 0], [1, 1])
    check(tmp_path, text, {"data": x}, None, {"y": wanted})


def test_weights_of_a_batch_norm_and_a_scale_are_folded(tmp_path):
    x, weight = normal(1, 3, 4, 4), normal(2, 3, 1, 1)
    text = data(*x.shape)
    text += layer(
        "Convolution", "convolution_param { num_output: 2 kernel_size: 1 bias_term: false }", top="c"
    )
    text += layer("BatchNorm", "", "c", "c", "bn") + layer(
        "Scale", "scale_param { bias_term: true }", "c", "c", "s"
    )
    text += layer("ReLU", "", "c", "c", "relu")
    stored = {
        "c": [weight],
        "bn": [normal(2), np.float32([1, 2]), np.float32([1])],
        "s": [normal(2), normal(2)],
    }
    model = convert(tmp_path, text, stored)
    assert [op.type for op in model.main.ops if op.type != "Transpose"] == ["Conv2d", "ElementWiseNeuron"]
    mean, variance, _ = stored["bn"]
    factor, term = (each[:, None, None] for each in stored["s"])
    flat = np.einsum("nchw,mc->nmhw", x, weight[:, :, 0, 0])
    scaled = (flat - mean[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None] * factor + term
    check(tmp_path, text, {"data": x}, stored, {"c": np.maximum(scaled, 0)})


@pytest.mark.parametrize(
    ("type", "params"),
    [
        ("Pooling", "pooling_param { kernel_size: 1 stride: 5 }"),
        ("Pooling", "pooling_param { kernel_size: 9 stride: 2 }"),
        ("Pooling", "pooling_param { kernel_size: 2 pad: 2 }"),
        ("Pooling", "pooling_param { kernel_size: 2 kernel_h: 2 kernel_w: 2 }"),
        ("Pooling", "pooling_param { kernel_size: 2 stride_h: 2 }"),
        ("Pooling", "pooling_param { kernel_size: 2 pad_h: 1 }"),
        ("Pooling", 'pooling_param { pool: "AVE" kernel_size: 2 }'),
        ("Pooling", "pooling_param { kernel_size: 2 round_mode: CEIL ceil_mode: true }"),
        ("Pooling", "pooling_param { global_pooling: true stride: 2 }"),
        ("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 pad: 1 }"),
        ("Pooling", "pooling_param { pool: MIN kernel_size: 2 }"),
        ("Pooling", ""),
        ("SPP", "spp_param { pyramid_height: 9 }"),
        ("Im2col", "convolution_param { kernel_size: 3 dilation: 4 }"),
        ("Convolution", "convolution_param { num_output: 4 }"),
        ("Convolution", "convolution_param { num_output: 4 kernel_size: [3, 3, 3] }"),
        ("Convolution", "convolution_param { num_output: 4 kernel_size: 3 stride: 0 }"),
        ("Convolution", "convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: 'msra' } }"),
        ("Deconvolution", "convolution_param { num_output: 4 kernel_size: 1 pad: 3 }"),
        ("DepthwiseConvolution", "convolution_param { num_output: 4 kernel_size: 1 }"),
        ("InnerProduct", "inner_product_param { num_output: 4 axis: 4 }"),
    ],
)
def test_windows_that_do_not_fit_are_refused_with_their_line(tmp_path, type, params):
    with pytest.raises(XdlcError, match=rf"layer 'y' \({type}, line 2\)"):
        convert(tmp_path, data(2, 3, 5, 7) + layer(type, params))


def test_tables_of_all_layers_are_limited_together(tmp_path, monkeypatch):
    monkeypatch.setattr("xdlc.converter.emitter.TABLES_LIMIT", 1000)
    columns = [
        layer("Im2col", "convolution_param { kernel_size: 4 }", top=f"y{index}") for index in range(3)
    ]  # 2 * 16 * 16 elements each
    convert(tmp_path, data(1, 2, 5, 7) + columns[0])
    with pytest.raises(XdlcError, match="table of 512"):
        convert(tmp_path, data(1, 2, 5, 7) + "".join(columns))
    with pytest.raises(XdlcError, match="table of"):
        convert(tmp_path, data(1, 1 << 28, 1, 1) + layer("MVN"))
