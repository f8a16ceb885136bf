"""Convolutions, pools, resizes and normalizations against loops in numpy."""

import itertools

import numpy as np
import pytest


def _conv(x, w, stride, pads, dilation=(1, 1), group=1):
    x = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)])
    kh, kw, cin, cout = w.shape
    rows = (x.shape[1] - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    columns = (x.shape[2] - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    out = np.zeros((x.shape[0], rows, columns, cout))
    share = cout // group
    for i, j, c in itertools.product(range(rows), range(columns), range(cout)):
        top, left, first = i * stride[0], j * stride[1], c // share * cin
        window = x[
            :,
            top : top + (kh - 1) * dilation[0] + 1 : dilation[0],
            left : left + (kw - 1) * dilation[1] + 1 : dilation[1],
            first : first + cin,
        ]
        out[:, i, j, c] = (window * w[None, :, :, :, c]).sum((1, 2, 3))
    return out


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 2))])
def test_conv2d(one_op, rng, group, stride, dilation):
    x = rng.normal(size=(2, 6, 7, 6)).astype(np.float32)
    w = rng.normal(size=(3, 2, 6 // group, 6)).astype(np.float32)
    bias = rng.normal(size=6).astype(np.float32)
    pads = ((1, 0), (2, 1))
    want = _conv(x, w, stride, pads, dilation, group) + bias
    params = {"stride": stride, "pad_amount": pads, "dilation": dilation, "group": group}
    for weights in ((1, 2), ()):
        found = one_op("Conv2d", [x, w, bias], [want.shape], params, static_inputs=weights)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_depthwise_conv2d_with_two_outputs_a_channel(one_op, rng):
    x = rng.normal(size=(1, 5, 5, 3)).astype(np.float32)
    w = rng.normal(size=(3, 3, 1, 6)).astype(np.float32)
    want = _conv(x, w, (1, 1), ((0, 0), (0, 0)), group=3)
    params = {"stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}
    found = one_op("DepthWiseConv2d", [x, w], [want.shape], params, static_inputs=(1,))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_conv1d_and_conv3d_agree_with_conv2d(one_op, rng):
    x = rng.normal(size=(1, 6, 3)).astype(np.float32)
    w = rng.normal(size=(3, 3, 4)).astype(np.float32)
    want = _conv(x[:, None], w[None], (1, 2), ((0, 0), (1, 1)))
    line = one_op("Conv1d", [x, w], [want[:, 0].shape], {"stride": 2, "pad_amount": (1, 1)})
    np.testing.assert_allclose(line, want[:, 0], rtol=1e-4, atol=1e-5)
    params = {"stride": (1, 1, 2), "pad_amount": ((0, 0), (0, 0), (1, 1))}
    cube = one_op("Conv3d", [x[:, None, None], w[None, None]], [want[:, None].shape], params)
    np.testing.assert_allclose(cube, want[:, None], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("group", [1, 2])
def test_transpose_conv2d(one_op, rng, group):
    x = rng.normal(size=(1, 3, 4, 4)).astype(np.float32)
    w = rng.normal(size=(3, 3, 4, 6 // group)).astype(np.float32)
    full = np.zeros((1, 3 * 2 + 2, 4 * 2 + 2, 6))
    for i, j, c in itertools.product(range(3), range(4), range(4)):
        lead = c // (4 // group) * (6 // group)
        full[0, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3, lead : lead + 6 // group] += x[0, i, j, c] * w[:, :, c]
    want = full[:, 1 : 1 + 6, 1 : 1 + 8]
    params = {"stride": (2, 2), "pad_amount": ((1, 1), (1, 1)), "output_padding": (1, 1), "group": group}
    found = one_op("TransposeConv2d", [x, w], [want.shape], params, static_inputs=(1,))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def _pool(x, size, stride, pads, shape, reduce, fill):
    reach = [(n - 1) * s + k for n, s, k in zip(shape, stride, size, strict=True)]
    after = [
        max(after, need - before - dim)
        for (before, after), need, dim in zip(pads, reach, x.shape[1:3], strict=True)
    ]
    x = np.pad(x, [(0, 0), (pads[0][0], after[0]), (pads[1][0], after[1]), (0, 0)], constant_values=fill)
    out = np.zeros((x.shape[0], *shape, x.shape[3]), np.float32)
    for i, j in itertools.product(range(shape[0]), range(shape[1])):
        top, left = i * stride[0], j * stride[1]
        out[:, i, j] = reduce(x[:, top : top + size[0], left : left + size[1]], axis=(1, 2))
    return out


@pytest.mark.parametrize(("ceil", "shape"), [(0, (3, 4)), (1, (4, 4))])
def test_pools(one_op, rng, ceil, shape):
    x = rng.normal(size=(1, 6, 7, 3)).astype(np.float32)
    pads = ((1, 1), (1, 1))
    params = {"filter_size": (3, 3), "stride": (2, 2), "pad_amount": pads, "rounding_mode": ceil}
    expected = {
        ("PoolMax2d", None): _pool(x, (3, 3), (2, 2), pads, shape, np.max, -np.inf),
        ("PoolAvg2d", False): _pool(x, (3, 3), (2, 2), pads, shape, np.nanmean, np.nan),
        ("PoolAvg2d", True): _pool(x, (3, 3), (2, 2), pads, shape, np.mean, 0),
    }
    for (type, counts), want in expected.items():
        given = params if counts is None else {**params, "count_pad_for_edges": counts}
        found = one_op(type, [x], [want.shape], given)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_pool_over_everything(one_op, rng):
    x = rng.normal(size=(2, 5, 3, 4)).astype(np.float32)
    params = {"filter_size": (5, 3), "stride": (5, 3), "pad_amount": ((0, 0), (0, 0))}
    found = one_op("PoolAvg2d", [x], [(2, 1, 1, 4)], params)
    np.testing.assert_allclose(found, x.mean((1, 2), keepdims=True), rtol=1e-5, atol=1e-6)


def test_l2_pool(one_op, rng):
    x = rng.normal(size=(1, 4, 4, 2)).astype(np.float32)
    params = {"filter_size": (2, 2), "stride": (2, 2), "pad_amount": ((0, 0), (0, 0))}
    want = np.sqrt((x.reshape(1, 2, 2, 2, 2, 2) ** 2).sum((2, 4)))
    np.testing.assert_allclose(one_op("L2Pool2d", [x], [(1, 2, 2, 2)], params), want, rtol=1e-5)


def _positions(dim, size, align, half):
    out = np.arange(size, dtype=np.float64)
    if align:
        return out * (dim - 1) / max(size - 1, 1)
    return (out + 0.5) * dim / size - 0.5 if half else out * dim / size


MODES = [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize(("align", "half"), MODES)
@pytest.mark.parametrize(("dim", "size"), [(4, 7), (7, 4), (5, 10)])
def test_resize_bilinear(one_op, rng, align, half, dim, size):
    x = rng.normal(size=(1, dim, dim, 2)).astype(np.float32)
    at = np.clip(_positions(dim, size, align, half), 0, dim - 1)
    low = np.floor(at).astype(int)
    high, part = np.minimum(low + 1, dim - 1), at - low
    rows = x[:, low] * (1 - part)[:, None, None] + x[:, high] * part[:, None, None]
    want = rows[:, :, low] * (1 - part)[:, None] + rows[:, :, high] * part[:, None]
    params = {"align_corners": align, "half_pixel_centers": half}
    found = one_op("ResizeBilinear", [x], [want.shape], params)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("align", "half"), MODES)
@pytest.mark.parametrize(("dim", "size"), [(4, 7), (7, 4), (5, 10), (3, 5), (30, 32)])
def test_resize_nearest(one_op, rng, align, half, dim, size):
    """Half up with aligned corners, else the element around the point, as on HTP."""
    x = rng.normal(size=(1, dim, dim, 2)).astype(np.float32)
    at = _positions(dim, size, align, half)
    index = np.floor(at + (0.5 if align or half else 0)).astype(int).clip(0, dim - 1)
    params = {"align_corners": align, "half_pixel_centers": half}
    found = one_op("ResizeNearestNeighbor", [x], [(1, size, size, 2)], params)
    np.testing.assert_array_equal(found, x[:, index][:, :, index])


def test_resize_with_modes_by_number(one_op, rng):
    x = rng.normal(size=(1, 4, 4, 2)).astype(np.float32)
    for transformation, (align, half) in ((0, (False, True)), (2, (True, False)), (3, (False, False))):
        numbers = {"transformation_mode": transformation, "interpolation_mode": 1}
        plain = one_op(
            "ResizeBilinear", [x], [(1, 7, 9, 2)], {"align_corners": align, "half_pixel_centers": half}
        )
        np.testing.assert_array_equal(one_op("Resize", [x], [(1, 7, 9, 2)], numbers), plain)
        np.testing.assert_array_equal(one_op("ResizeBilinear", [x], [(1, 7, 9, 2)], numbers), plain)


@pytest.mark.parametrize("region", [0, 1])
def test_lrn(one_op, rng, region):
    """Alpha multiplies the plain sum (seen on HTP's emulation)."""
    x = rng.normal(size=(1, 5, 4, 6)).astype(np.float32)
    radius, square, total = 1, x.astype(np.float64) ** 2, np.zeros(x.shape)
    for i, j, c in itertools.product(range(5), range(4), range(6)):
        near = [slice(max(0, at - radius), at + radius + 1) for at in (i, j, c)]
        total[0, i, j, c] = (
            square[0, i, j, near[2]] if region == 0 else square[0, near[0], near[1], c]
        ).sum()
    want = x / (0.75 + 0.5 * total) ** 0.6
    params = {"radius": radius, "alpha": 0.5, "beta": 0.6, "bias": 0.75, "region": region}
    np.testing.assert_allclose(one_op("Lrn", [x], [x.shape], params), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("align", [False, True])
def test_grid_sample_at_the_pixels_gives_the_image(one_op, rng, align):
    x = rng.normal(size=(1, 3, 4, 2)).astype(np.float32)
    along = [np.linspace(-1, 1, n) if align else (np.arange(n) + 0.5) * 2 / n - 1 for n in (3, 4)]
    grid = np.stack(np.meshgrid(along[1], along[0]), -1)[None].astype(np.float32)
    for mode in (0, 1):
        found = one_op("GridSample", [x, grid], [x.shape], {"align_corners": align, "mode": mode})
        np.testing.assert_allclose(found, x, atol=1e-5)
