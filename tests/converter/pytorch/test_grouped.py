"""Products of rows with one matrix for each group, against single products."""

import numpy as np
import pytest

from tests.converter.pytorch.programs import TinyProgram
from tests.support.htp_models import needs_htp
from tests.support.running import run
from xdlc.errors import XdlcError

FALLBACK = "transformers.grouped_mm_fallback"
RNG = np.random.default_rng(2)
GROUPS = {
    "rows of all groups": [3, 5, 6, 9],
    "empty groups": [0, 4, 4, 7],
    "rows after the last group": [2, 4, 5, 6],
    "fewer rows than groups": [0, 1, 1, 1, 2, 2, 3, 3],
    "fewer rows, one after the last group": [0, 1, 1, 1, 1, 1, 2, 2],
    "one group": [4],
}


def program(rows, weights, target, *, stored=True):
    builder = TinyProgram()
    x, ends = builder.input("x", rows.shape), builder.input("ends", (len(weights),), "int32")
    weight = builder.weight("w", weights) if stored else builder.input("w", weights.shape)
    shape = (len(rows), weights.shape[2])
    if target == FALLBACK:
        builder.op(target, shape=shape, named={"input": x, "weight": weight, "offs": ends})
    else:
        builder.op(target, x, weight, ends, shape=shape)
    return builder


def arrays(case):
    ends = np.array(GROUPS[case], np.int32)
    count = ends[-1] + case.count("after the last")
    rows, weights = RNG.normal(size=(count, 4)), RNG.normal(size=(len(ends), 4, 3))
    groups = np.searchsorted(ends, np.arange(count), side="right")
    want = [
        row @ weights[group] if group < len(ends) else np.zeros(3)
        for row, group in zip(rows, groups, strict=True)
    ]
    return ends, rows.astype("f4"), weights.astype("f4"), np.array(want, "f4")


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("target", ["_grouped_mm", FALLBACK])
@pytest.mark.parametrize("case", GROUPS)
def test_rows_meet_the_matrix_of_their_group(tmp_path, case, target, stored):
    ends, rows, weights, want = arrays(case)
    model = program(rows, weights, target, stored=stored).convert(tmp_path)
    feeds = {"x": rows, "ends": ends} | ({} if stored else {"w": weights})
    np.testing.assert_allclose(*run(model, feeds).values(), want, rtol=1e-5, atol=1e-5)
    gathers = [op.type for op in model.main.ops].count("Gather")
    assert gathers == (len(rows) < len(weights))


@pytest.mark.vendor
@needs_htp
@pytest.mark.parametrize("case", GROUPS)
def test_htp_computes_the_same(tmp_path, case):
    ends, rows, weights, want = arrays(case)
    model = program(rows, weights, FALLBACK).convert(tmp_path)
    (found,) = run(model, {"x": rows, "ends": ends}, runtime="htp").values()
    np.testing.assert_allclose(found, want, rtol=0, atol=4e-3 * np.abs(want).max())


def test_batches_have_no_groups(tmp_path):
    made = TinyProgram()
    x, w = RNG.normal(size=(2, 3, 4)).astype("f4"), RNG.normal(size=(2, 4, 5)).astype("f4")
    made.op("_grouped_mm", made.input("x", x.shape), made.weight("w", w), shape=(2, 3, 5))
    np.testing.assert_allclose(*run(made.convert(tmp_path), {"x": x}).values(), x @ w, rtol=1e-5, atol=1e-5)


def test_groups_along_the_inner_axis_are_refused(tmp_path):
    made = TinyProgram()
    ends = made.input("ends", (2,), "int32")
    made.op("_grouped_mm", made.input("x", (3, 4)), made.input("w", (4, 5)), ends, shape=(2, 3, 5))
    with pytest.raises(XdlcError, match="ranks 2 and 2"):
        made.convert(tmp_path)
