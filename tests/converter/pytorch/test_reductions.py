"""Handlers of reductions and running results: axes, types, odd values."""

import math

import numpy as np
import pytest

from tests.converter.pytorch.programs import results

INF, NAN = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


def i64(*values):
    return np.array(values, np.int64)


GRID = f32([1, -2, 3], [4, 0, -6])
HOLES = f32([1, NAN, 3], [NAN, 0, -6])
FLAGS = GRID > 0
CASES = [
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_reduces_as_pytorch_does(tmp_path, case):
    target, arguments, *named, want = case
    got = results(tmp_path, target, *arguments, like=want, **(named[0] if named else {}))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("case", SEVERAL, ids=lambda case: case[0])
def test_computes_several_results(tmp_path, case):
    target, arguments, named, want = case
    got = results(tmp_path, target, *arguments, like=[np.asarray(each) for each in want], **named)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
