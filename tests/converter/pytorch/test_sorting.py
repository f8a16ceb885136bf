"""Handlers of sorting, quantiles, histograms, and of created tensors."""

import math

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram, results
from xdlc.errors import ModelError

INF, NAN = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


def i64(*values):
    return np.array(values, np.int64)


HOLES = f32(1, NAN, 3, INF, 2, NAN, 1)
GRID = f32([3, 1, 2, 2], [0, 5, 5, 4])
CASES = [
    ("argsort", (GRID, 1, True), [i64([0, 2, 3, 1], [1, 2, 3, 0])]),
    ("kthvalue", (GRID, 2, 0, True), [f32([3, 5, 5, 4]), i64([0, 1, 1, 1])]),
    ("median", (GRID,), [f32(2)[0]]),
    ("median.dim", (HOLES, 0), [f32(NAN)[0], i64(1)[0]]),
    ("mode", (i64([1, 1, 2, 2, 0, 2, 1], [3, 3, 3, 0, 0, 0, 1]), 1), [i64(1, 0), i64(6, 5)]),
    ("msort", (GRID,), [np.sort(GRID, 0)]),
    ("nanmedian.dim", (HOLES, 0), [f32(2)[0], i64(4)[0]]),
    ("sort", (GRID > 1, 1), [np.sort(GRID > 1, 1), np.argsort(GRID > 1, 1, kind="stable")]),
    ("sort.stable", (GRID,), {"stable": True}, [np.sort(GRID, 1), np.argsort(GRID, 1, kind="stable")]),
    ("sort", (np.array(3, np.float32),), [np.array(3, np.float32), np.array(0)]),
    ("topk", (i64(1, 7, 3), 2), {"largest": False}, [i64(1, 3), i64(0, 2)]),
    ("quantile", (GRID, f32(0.25, 1), 1, True), [np.quantile(GRID, [0.25, 1], 1, keepdims=True)]),
    ("quantile.scalar", (HOLES, 0.5), [f32(NAN)[0]]),
    ("quantile.scalar", (GRID, 0.3, 0), {"interpolation": "nearest"}, [f32(0, 1, 2, 2)]),
    ("nanquantile.scalar", (HOLES, 0.5), {"interpolation": "midpoint"}, [f32(2)[0]]),
    ("histc", (HOLES, 4, 0, 4), [f32(0, 2, 1, 1)]),
    ("histc", (f32(2, 2), 2), [f32(0, 2)]),
    ("bincount", (i64(3, 1, 3), f32(1, 2, 0.5), 6), [f32(0, 2, 0, 1.5, 0, 0)]),
    ("histogram.bin_ct", (f32(2, 2),), {"bins": 2}, [f32(0, 2), f32(1.5, 2, 2.5)]),
    ("histogram.bins_tensor", (f32(0, 1, 2), f32(0, 1, 2)), {"weight": f32(1, 2, 3), "density": True},
     [f32(1 / 6, 5 / 6), f32(0, 1, 2)]),
    ("full_like", (GRID, 7), [np.full_like(GRID, 7)]),
    ("linspace.Tensor_Scalar", (np.array(0, np.float32), 1, 5), [np.linspace(0, 1, 5)]),
    ("logspace.Tensor_Tensor", (np.array(0, np.float32), np.array(2, np.float32), 3), [f32(1, 10, 100)]),
    ("new_full", (i64(1), [2], 3), [i64(3, 3)]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_computes_what_pytorch_does(tmp_path, case):
    target, arguments, *named, want = case
    want = [each.astype(np.float32) if each.dtype == np.float64 else np.asarray(each) for each in want]
    got = results(tmp_path, target, *arguments, like=want, **(named[0] if named else {}))
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-5)


CREATED = [
    ("arange.start_step", (1, 8, 3), i64(1, 4, 7)),
    ("arange", (2.5,), f32(0, 1, 2)),
    ("bartlett_window", (4,), f32(0, 0.5, 1, 0.5)),
    ("fft_rfftfreq", (4, 0.5), f32(0, 0.5, 1)),
    ("kaiser_window.beta", (4, False, 5.0), np.kaiser(4, 5)),
    ("blackman_window", (4,), f32(0, 0.34, 1, 0.34)),
    ("eye.m", (2, 3), np.eye(2, 3, dtype=np.float32)),
    ("full", ([2], True), np.array([True, True])),
    ("hann_window.periodic", (3, False), f32(0, 1, 0)),
    ("linspace", (-3, 9, 7), i64(-3, -1, 1, 3, 5, 7, 9)),
    ("logspace", (0, 2, 3), {"base": 2.0}, f32(1, 2, 4)),
    ("range.step", (0, 4, 2), f32(0, 2, 4)),
    ("tril_indices", (2, 3), np.stack(np.tril_indices(2, 0, 3))),
    ("zeros", ([2, 1],), np.zeros((2, 1), np.float32)),
]  # fmt: skip


def test_creates_constants(tmp_path):
    net = TinyProgram()
    unused, ends = net.input("x", (1,)), []
    for target, arguments, *named, want in CREATED:
        dtype = "float32" if want.dtype == np.float64 else str(want.dtype)
        ends.append(net.op(target, *arguments, shape=want.shape, dtype=dtype, **(named[0] if named else {})))
    got = list(xdlc.run(net.convert(tmp_path, [*ends, unused]), {"x": f32(0)}).values())
    for (target, *_, want), one in zip(CREATED, got, strict=False):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-7, err_msg=target)


def test_refuses_a_histogram_of_falling_edges(tmp_path):
    net = TinyProgram()
    edges = net.weight("edges", f32(0, 2, 1))
    net.op(
        "histogram.bins_tensor",
        net.input("x", (4,)),
        edges,
        results=[((2,), "float32"), ((3,), "float32")],
    )
    with pytest.raises(ModelError):
        net.convert(tmp_path)
