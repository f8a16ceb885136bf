"""Handlers of reductions, sorting and histograms, and of created tensors."""

import math

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.cases import INF, NAN, check, f32, i64, rows
from tests.converter.pytorch.programs import TinyProgram
from xdlc.errors import ModelError

GRID = f32([1, -2, 3], [4, 0, -6])
HOLES = f32([1, NAN, 3], [NAN, 0, -6])
FLAGS = GRID > 0
REDUCED = [
    ("all", (FLAGS,), np.array(False)),
    ("all.dim", (GRID, 1, True), (GRID != 0).all(1, keepdims=True)),
    ("amax", (GRID,), f32(4)[0]),
    ("amin", (FLAGS, [0]), FLAGS.min(0)),
    ("any.dim", (np.zeros((0, 2), bool), 0), np.array([False, False])),
    ("any.dims", (FLAGS, [0, -1]), np.array(True)),
    ("argmax", (GRID,), i64(3)[0]),
    ("argmax", (GRID, -1, True), GRID.argmax(1, keepdims=True)),
    ("argmin", (GRID, None, True), i64([5])),
    ("argmin", (np.array(3, np.float32), 0), i64(0)[0]),
    ("corrcoef", (GRID,), np.float32(np.corrcoef(GRID))),
    ("cov", (GRID,), {"correction": 0}, np.float32(np.cov(GRID, bias=True))),
    ("cov", (GRID,), {"fweights": i64(1, 2, 1), "aweights": f32(0.5, 1, 2)},
     np.float32(np.cov(GRID, fweights=[1, 2, 1], aweights=[0.5, 1, 2]))),
    ("count_nonzero", (GRID, 0), i64(2, 1, 2)),
    ("cumulative_trapezoid.x", (GRID, f32(0, 1, 3)), f32([-0.5, 0.5], [2, -4])),
    ("cumprod", (GRID, 1), GRID.cumprod(1)),
    ("cumsum", (FLAGS, 0), FLAGS.cumsum(0)),
    ("dist", (GRID, GRID + 2, 1), f32(12)[0]),
    ("linalg_matrix_norm", (GRID, 1.0), f32(9)[0]),
    ("linalg_norm", (GRID, -INF), f32(6)[0]),
    ("linalg_vector_norm", (GRID, 0.0), f32(5)[0]),
    ("linalg_vector_norm", (GRID, 3.0, [0]), (abs(GRID) ** 3).sum(0) ** np.float32(1 / 3)),
    ("linalg_vector_norm", (GRID, INF, [1], True), f32([3], [6])),
    ("logcumsumexp", (f32(-INF, 0, 1000, 0), 0), f32(-INF, 0, 1000, 1000)),
    ("logsumexp", (f32([-INF, -INF], [1000, 1000]), [1]), f32(-INF, 1000 + math.log(2))),
    ("mean.dim", (GRID, [0]), GRID.mean(0)),
    ("mean.dim", (np.zeros((0, 2), np.float32), [0]), f32(NAN, NAN)),
    ("nanmean", (HOLES, [0]), np.nanmean(HOLES, 0)),
    ("nansum", (HOLES,), f32(-2)[0]),
    ("norm.ScalarOpt_dim", (GRID, None, [1]), np.linalg.norm(GRID, axis=1).astype(np.float32)),
    ("prod", (i64(2, 3, 4),), i64(24)[0]),
    ("prod.dim_int", (FLAGS, 1), i64(0, 0)),
    ("renorm", (f32([3, 4], [1, 0]), 2, 0, 1), f32([0.6, 0.8], [1, 0])),
    ("std.correction", (GRID, [1]), {"correction": 0}, GRID.std(1)),
    ("std.correction", (f32(5), None), f32(NAN)[0]),
    ("sum", (FLAGS,), i64(3)[0]),
    ("sum.dim_IntList", (GRID, [], True), f32([0])),
    ("sum.dim_IntList", (i64(1, 2), None), {"dtype": np.float32}, f32(3)[0]),
    ("trapz.dx", (GRID, 0.5, 0), f32(1.25, -0.5, -0.75)),
    ("var", (GRID,), GRID.var(ddof=1)),
    ("var.dim", (GRID, [0], False, True), GRID.var(0, keepdims=True)),
]  # fmt: skip
SEVERAL = [
    ("gradient.scalarint", (GRID, 0.5), {},
     [f32([6, 4, -18], [6, 4, -18]), f32([-6, 2, 10], [-8, -10, -12])]),
    ("gradient.tensorarrayint", (GRID, [f32(0, 1, 3)], 1, 2), {},
     [np.gradient(GRID, f32(0, 1, 3), axis=1, edge_order=2)]),
    ("aminmax", (GRID,), {"dim": 0}, [GRID.min(0), GRID.max(0)]),
    ("cummax", (f32(1, 3, 2, 3, NAN, 5), 0), {}, [f32(1, 3, 3, 3, NAN, NAN), i64(0, 1, 1, 3, 4, 4)]),
    ("cummin", (i64(3, 1, 2, 1), -1), {}, [i64(3, 1, 1, 1), i64(0, 1, 1, 3)]),
    ("max.dim", (FLAGS, 0), {}, [FLAGS.max(0), FLAGS.argmax(0)]),
    ("min.dim", (GRID, 1, True), {}, [GRID.min(1, keepdims=True), GRID.argmin(1, keepdims=True)]),
    ("std_mean", (GRID,), {}, [GRID.std(ddof=1), GRID.mean()]),
    ("var_mean.correction", (GRID, [1]), {"keepdim": True},
     [GRID.var(1, ddof=1, keepdims=True), GRID.mean(1, keepdims=True)]),
]  # fmt: skip


GAPS = f32(1, NAN, 3, INF, 2, NAN, 1)
TABLE = f32([3, 1, 2, 2], [0, 5, 5, 4])
SORTED = [
    ("argsort", (TABLE, 1, True), [i64([0, 2, 3, 1], [1, 2, 3, 0])]),
    ("kthvalue", (TABLE, 2, 0, True), [f32([3, 5, 5, 4]), i64([0, 1, 1, 1])]),
    ("median", (TABLE,), [f32(2)[0]]),
    ("median.dim", (GAPS, 0), [f32(NAN)[0], i64(1)[0]]),
    ("mode", (i64([1, 1, 2, 2, 0, 2, 1], [3, 3, 3, 0, 0, 0, 1]), 1), [i64(1, 0), i64(6, 5)]),
    ("msort", (TABLE,), [np.sort(TABLE, 0)]),
    ("nanmedian.dim", (GAPS, 0), [f32(2)[0], i64(4)[0]]),
    ("sort", (TABLE > 1, 1), [np.sort(TABLE > 1, 1), np.argsort(TABLE > 1, 1, kind="stable")]),
    ("sort.stable", (TABLE,), {"stable": True}, [np.sort(TABLE, 1), np.argsort(TABLE, 1, kind="stable")]),
    ("sort", (np.array(3, np.float32),), [np.array(3, np.float32), np.array(0)]),
    ("topk", (i64(1, 7, 3), 2), {"largest": False}, [i64(1, 3), i64(0, 2)]),
    ("quantile", (TABLE, f32(0.25, 1), 1, True), [np.quantile(TABLE, [0.25, 1], 1, keepdims=True)]),
    ("quantile.scalar", (GAPS, 0.5), [f32(NAN)[0]]),
    ("quantile.scalar", (TABLE, 0.3, 0), {"interpolation": "nearest"}, [f32(0, 1, 2, 2)]),
    ("nanquantile.scalar", (GAPS, 0.5), {"interpolation": "midpoint"}, [f32(2)[0]]),
    ("histc", (GAPS, 4, 0, 4), [f32(0, 2, 1, 1)]),
    ("histc", (f32(2, 2), 2), [f32(0, 2)]),
    ("bincount", (i64(3, 1, 3), f32(1, 2, 0.5), 6), [f32(0, 2, 0, 1.5, 0, 0)]),
    ("histogram.bin_ct", (f32(2, 2),), {"bins": 2}, [f32(0, 2), f32(1.5, 2, 2.5)]),
    ("histogram.bins_tensor", (f32(0, 1, 2), f32(0, 1, 2)), {"weight": f32(1, 2, 3), "density": True},
     [f32(1 / 6, 5 / 6), f32(0, 1, 2)]),
    ("full_like", (TABLE, 7), [np.full_like(TABLE, 7)]),
    ("linspace.Tensor_Scalar", (np.array(0, np.float32), 1, 5), [np.linspace(0, 1, 5)]),
    ("logspace.Tensor_Tensor", (np.array(0, np.float32), np.array(2, np.float32), 3), [f32(1, 10, 100)]),
    ("new_full", (i64(1), [2], 3), [i64(3, 3)]),
]  # fmt: skip


@rows(REDUCED, SEVERAL, SORTED)
def test_computes_what_pytorch_does(tmp_path, case):
    check(tmp_path, case)


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
