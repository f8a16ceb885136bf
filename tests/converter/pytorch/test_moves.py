"""Operators that move elements: against what NumPy does to the same arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram, results
from xdlc.errors import UnsupportedOp

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SQUARE = np.arange(12, dtype=np.float32).reshape(3, 4)
ROW = np.arange(5, dtype=np.float32)
INTS = np.arange(6).reshape(2, 3)
INDEX = np.asarray([[2, 0], [1, 1]])
MASK = SQUARE % 2 == 0

ONES = np.ones(5, np.int64)


def _filled(array: np.ndarray, places: Any, values: Any) -> np.ndarray:
    made = array.copy()
    made[places] = values
    return made


def _put(array: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    made = array.copy()
    for place, to in np.ndenumerate(index):
        made[place[0], to] = values[place]
    return made


VIEWS: dict[str, tuple[str, list[Any], Any]] = {
    "view": ("view", [X, [4, -1]], X.reshape(4, 6)),
    "reshape": ("reshape", [X, [24]], X.reshape(24)),
    "flatten": ("flatten.using_ints", [X, 1, -1], X.reshape(2, 12)),
    "flatten a scalar": ("flatten.using_ints", [np.asarray(3, np.float32), 0, -1], np.float32([3])),
    "unflatten": ("unflatten.int", [X, 2, [2, -1]], X.reshape(2, 3, 2, 2)),
    "squeeze": ("squeeze.dims", [X[:, :1], [0, 1]], X[:, 0]),
    "unsqueeze": ("unsqueeze", [X, -1], X[..., None]),
    "permute": ("permute", [X, [2, 0, -2]], X.transpose(2, 0, 1)),
    "movedim": ("movedim.intlist", [X, [0, 1], [2, 0]], np.moveaxis(X, [0, 1], [2, 0])),
    "expand": ("expand", [X[:1], [5, 2, -1, -1]], np.broadcast_to(X[:1], (5, 2, 3, 4))),
    "bits": ("view.dtype", [X, np.dtype("int32")], X.view(np.int32)),
    "bits of halves": ("view.dtype", [X, np.dtype("int16")], X.view(np.int16)),
    "atleast": ("atleast_3d", [ROW], ROW[None, :, None]),
}
PARTS: dict[str, tuple[str, list[Any], Any]] = {
    "select": ("select.int", [X, 1, -1], X[:, -1]),
    "slice": ("slice.Tensor", [X, 2, -3, 100, 2], X[..., -3::2]),
    "narrow": ("narrow", [X, -1, -3, 2], X[..., 1:3]),
    "diagonal": ("diagonal", [X, 1, 2, 0], np.diagonal(X, 1, 2, 0)),
    "diag_embed": ("diag_embed", [ROW, -2], np.diag(ROW, -2)),
    "diag_embed turned round": ("diag_embed", [ROW, 1, 1, 0], np.diag(ROW, 1).T),
    "unfold": ("unfold", [ROW, 0, 3, 2], np.stack([ROW[:3], ROW[2:]])),
    "as_strided": ("as_strided", [X, [2, 3], [1, 5], 2], np.asarray([[2, 7, 12], [3, 8, 13]], np.float32)),
    "tril": ("tril", [SQUARE, 1], np.tril(SQUARE, 1)),
    "select_scatter": (
        "select_scatter",
        [SQUARE, ROW[:4], 0, -1],
        np.concatenate([SQUARE[:2], ROW[None, :4]]),
    ),
    "slice_scatter": (
        "slice_scatter",
        [ROW, ROW[3:], 0, 1, None, 2],
        np.asarray([0, 3, 2, 4, 4], np.float32),
    ),
    "chunk": ("chunk", [ROW, 3], [ROW[:2], ROW[2:4], ROW[4:]]),
    "split": ("split.Tensor", [X, 3, 2], [X[..., :3], X[..., 3:]]),
    "unbind": ("unbind.int", [X, 1], [X[:, 0], X[:, 1], X[:, 2]]),
    "tensor_split": ("tensor_split.indices", [ROW, [1, -1]], [ROW[:1], ROW[1:-1], ROW[-1:]]),
}
JOINED: dict[str, tuple[str, list[Any], Any]] = {
    "cat promotes": (
        "cat",
        [[INTS, INTS.astype(np.float32)], -1],
        np.concatenate([INTS, INTS], 1, dtype="f4"),
    ),
    "cat skips what is empty": ("cat", [[SQUARE, np.zeros(0, np.float32)], 1], SQUARE),
    "stack": ("stack", [[ROW, -ROW], -1], np.stack([ROW, -ROW], -1)),
    "dstack": ("dstack", [[ROW, -ROW]], np.dstack([ROW, -ROW])),
    "block_diag": (
        "block_diag",
        [[np.ones(2, np.float32), SQUARE[:2, :1]]],
        np.asarray([[1, 1, 0], [0, 0, 0], [0, 0, 4]], np.float32),
    ),
    "cartesian_prod": (
        "cartesian_prod",
        [[ROW[:2], ROW[3:]]],
        np.asarray([[0, 3], [0, 4], [1, 3], [1, 4]], np.float32),
    ),
    "repeat": ("repeat", [SQUARE, [2, 1, 3]], np.tile(SQUARE, (2, 1, 3))),
    "roll": ("roll", [X, [1, -5], [0, 2]], np.roll(X, (1, -5), (0, 2))),
    "roll flat": ("roll", [SQUARE, [5], []], np.roll(SQUARE, 5)),
    "rot90": ("rot90", [X, 3, [2, 0]], np.rot90(X, 3, (2, 0))),
    "meshgrid": ("meshgrid.indexing", [[ROW[:2], ROW], "xy"], list(np.meshgrid(ROW[:2], ROW))),
}
PADDED: dict[str, tuple[str, list[Any], Any]] = {
    "constant": (
        "pad",
        [X, [1, -1, 0, 2], "constant", 7.0],
        np.pad(X, ((0, 0), (0, 2), (1, 0)), constant_values=7)[..., :-1],
    ),
    "reflect": ("reflection_pad1d", [SQUARE, [2, 1]], np.pad(SQUARE, ((0, 0), (2, 1)), "reflect")),
    "replicate": ("pad", [X, [2, 0, 1, 1], "replicate"], np.pad(X, ((0, 0), (1, 1), (2, 0)), "edge")),
    "replicate what is cut": ("replication_pad1d", [SQUARE, [-4, 2]], SQUARE[:, [3, 3]]),
    "reflect what is cut": ("reflection_pad1d", [SQUARE, [-2, 2]], SQUARE[:, [2, 3, 2, 1]]),
    "circular": ("pad", [X, [0, 4], "circular"], np.pad(X, ((0, 0), (0, 0), (0, 4)), "wrap")),
    "truth values": (
        "constant_pad_nd",
        [MASK, [1, 0], True],
        np.pad(MASK, ((0, 0), (1, 0)), constant_values=True),
    ),
}
TAKEN: dict[str, tuple[str, list[Any], Any]] = {
    "index_select": ("index_select", [X, 1, np.asarray([2, 0, 2])], X[:, [2, 0, 2]]),
    "gather": ("gather", [SQUARE, 1, INDEX], np.take_along_axis(SQUARE[:2], INDEX, 1)),
    "take": ("take", [SQUARE, INDEX - 1], SQUARE.reshape(-1)[INDEX - 1]),
    "index": ("index.Tensor", [X, [None, INDEX]], X[:, INDEX]),
    "indices of one shape": ("index.Tensor", [X, [INDEX % 2, INDEX]], X[INDEX % 2, INDEX]),
    "indices apart": ("index.Tensor", [X, [INDEX[0] % 2, None, INDEX]], X[INDEX[0] % 2, :, INDEX]),
    "indices at the end": ("index.Tensor", [X, [None, INDEX, INDEX[:1]]], X[:, INDEX, INDEX[:1]]),
    "a mask": ("index.Tensor", [SQUARE, [MASK]], SQUARE[MASK]),
    "a mask and an index": ("index.Tensor", [X, [MASK[0, :2], INDEX[0, :1]]], X[[True, False], [2]]),
    "masked_select": ("masked_select", [SQUARE, MASK[:1]], SQUARE[:, ::2].reshape(-1)),
    "nonzero": ("nonzero", [MASK], np.argwhere(MASK)),
    "one_hot": ("one_hot", [INDEX, 3], np.eye(3, dtype=np.int64)[INDEX]),
    "embedding of one": ("embedding", [SQUARE, np.asarray(1)], SQUARE[1]),
    "embedding": ("embedding", [SQUARE, INDEX], SQUARE[INDEX]),
}
ONE = np.ones((3, 4), np.float32)
WRITTEN: dict[str, tuple[str, list[Any], Any]] = {
    "scatter": ("scatter.src", [SQUARE, 1, INDEX, -SQUARE], _put(SQUARE, INDEX, -SQUARE)),
    "scatter a number": ("scatter.value", [SQUARE, 1, INDEX, 5], _put(SQUARE, INDEX, 5 * ONE)),
    "sum": ("scatter_add", [ROW, 0, ONES, ROW], np.asarray([0, 11, 2, 3, 4], np.float32)),
    "mean": (
        "scatter_reduce.two",
        [ROW, 0, ONES, ROW, "mean", False],
        np.asarray([0, 2, 2, 3, 4], np.float32),
    ),
    "least": (
        "scatter_reduce.two",
        [ROW, 0, ONES, ROW + 2, "amin", False],
        np.asarray([0, 2, 2, 3, 4], np.float32),
    ),
    "mean of integers": (
        "scatter_reduce.two",
        [INTS[0], 0, ONES[:2], INTS[1], "mean"],
        np.asarray([0, 2, 2]),
    ),
    "index_add": ("index_add", [SQUARE, 1, INDEX[0], ONE[:, :2]], SQUARE + np.float32([1, 0, 1, 0])),
    "index_fill": ("index_fill.int_Scalar", [X, 2, INDEX[0], 9], _filled(X, np.s_[..., [2, 0]], 9)),
    "index_put": ("index_put", [X, [None, INDEX[0]], ROW[:4]], _filled(X, np.s_[:, [2, 0]], ROW[:4])),
    "index_put apart": (
        "index_put",
        [X, [INDEX[1], None, INDEX[0]], ROW[:3], True],
        _filled(X, np.s_[1, :, [2, 0]], X[1, :, [2, 0]] + ROW[:3]),
    ),
    "index_put of one number": ("index_put", [SQUARE, [MASK], ROW[1:2]], np.where(MASK, 1, SQUARE)),
    "index_put of rows": ("index_put", [SQUARE, [MASK[0, :3]], -ONE[:2]], _filled(SQUARE, [0, 2], -1)),
    "masked_scatter": ("masked_scatter", [SQUARE, MASK, -SQUARE], _filled(SQUARE, MASK, -np.arange(6))),
    "put": ("put", [SQUARE, INDEX[0] - 1, ROW[:2]], _filled(SQUARE, np.s_[[0, 2], [1, 3]], [0, 1])),
}
STEPPED: dict[str, tuple[str, list[Any], Any]] = {
    "diff": ("diff", [SQUARE, 1, 0, SQUARE[:1]], np.diff(SQUARE, axis=0, prepend=SQUARE[:1])),
    "diff of truth values": ("diff", [MASK], np.diff(MASK)),
}
RUNS = np.asarray([3, 3, 1, 3, 3, 3], np.float32)
GROUPED: dict[str, tuple[str, list[Any], Any]] = {
    "unique": (
        "_unique2",
        [RUNS, True, True, True],
        list(np.unique(RUNS, return_inverse=True, return_counts=True)),
    ),
    "unique in a row": (
        "unique_consecutive",
        [RUNS, True],
        [RUNS[[0, 2, 3]], np.asarray([0, 0, 1, 2, 2, 2])],
    ),
    "places of a number": (
        "nonzero_static",
        [INTS > 3, 3],
        [np.asarray([[1, 1], [1, 2], [-1, -1]])],
    ),
    "padded sequences": (
        "pad_sequence",
        [[ROW[:1], ROW[2:4]], True, 7.0, "left"],
        [np.float32([[7, 0], [2, 3]])],
    ),
    "combinations": ("combinations", [ROW[1:4]], [ROW[[[1, 2], [1, 3], [2, 3]]]]),
    "powers": ("vander", [ROW[1:4]], [np.float32(np.vander(ROW[1:4]))]),
    "repeat each": ("repeat_interleave.self_int", [SQUARE, 2, 1], np.repeat(SQUARE, 2, 1)),
    "repeat by": (
        "repeat_interleave.self_Tensor",
        [ROW[:3], INDEX[0, [0, 1, 0]]],
        np.repeat(ROW[:3], [2, 0, 2]),
    ),
    "bags": (
        "embedding_bag.padding_idx",
        [SQUARE, INDEX.reshape(-1), np.asarray([0, 0, 3]), False, 1, False, None, False, 0],
        [np.stack([0 * ROW[:4], (SQUARE[2] + SQUARE[1]) / 2, SQUARE[1]])],
    ),
    "bags of one size": (
        "embedding_bag",
        [SQUARE, INDEX.reshape(-1), np.asarray([0, 2, 4]), False, 2, False, None, True],
        [np.maximum(SQUARE[INDEX[:, 0]], SQUARE[INDEX[:, 1]])],
    ),
}
CASES = (
    GROUPED
    | WRITTEN
    | VIEWS
    | PARTS
    | JOINED
    | {f"pad {name}": case for name, case in PADDED.items()}
    | TAKEN
    | STEPPED
)


@pytest.mark.parametrize("name", CASES)
def test_elements_are_those_of_numpy(tmp_path: Path, name: str) -> None:
    """Each operator outputs the elements that NumPy has at the same places."""
    target, arguments, wanted = CASES[name]
    found = results(tmp_path, target, *arguments, like=wanted)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, list) else [(found, wanted)]
    for got, want in pairs:
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def test_strided_views_look_at_the_storage(tmp_path: Path) -> None:
    """A strided view of a transposed tensor reads its storage; others are refused."""
    builder = TinyProgram()
    turned = builder.op("t", builder.input("x", (3, 4)), shape=(4, 3))
    builder.op("as_strided", turned, [2, 2], [1, 2], None, shape=(2, 2))
    model = builder.convert(tmp_path)
    results = xdlc.run(model, {"x": SQUARE})[model.main.outputs[0].name]
    np.testing.assert_array_equal(results, [[0, 2], [1, 3]])
    builder = TinyProgram()
    part = builder.op("slice.Tensor", builder.input("x", (3, 4)), 0, 1, shape=(2, 4))
    builder.op("as_strided", part, [2, 2], [1, 2], None, shape=(2, 2))
    with pytest.raises(UnsupportedOp):
        builder.convert(tmp_path)
    for offset in (None, 6):  # counted from the start of the storage, in which the parameter is not first
        builder = TinyProgram()
        held = builder.weight("w", np.arange(8, dtype=np.float32), sizes=[4], strides=[1], storage_offset=4)
        builder.op(
            "add.Tensor",
            builder.op("as_strided", held, [2], [1], offset, shape=(2,)),
            builder.input("x", (2,)),
        )
        if offset is None:
            model = builder.convert(tmp_path)
            results = xdlc.run(model, {"x": np.zeros(2, np.float32)})[model.main.outputs[0].name]
            np.testing.assert_array_equal(results, [4, 5])
        else:
            with pytest.raises(UnsupportedOp):
                builder.convert(tmp_path)


OPEN: dict[str, tuple[str, list[Any], dict[str, Any], Callable[[np.ndarray], np.ndarray]]] = {
    "view": ("view", [[-1, 2, 2]], {"shape": ("n", 2, 2)}, lambda x: x.reshape(-1, 2, 2)),
    "flatten": ("flatten.using_ints", [0, -1], {"shape": ("4*n",)}, lambda x: x.reshape(-1)),
    "expand": ("expand", [[2, -1, -1]], {"shape": (2, "n", 4)}, lambda x: np.stack([x, x])),
    "select": ("select.int", [0, -1], {"shape": (4,)}, lambda x: x[-1]),
    "slice": ("slice.Tensor", [0, 1, -1], {"shape": ("n - 2", 4)}, lambda x: x[1:-1]),
    "roll": ("roll", [[1], [0]], {}, lambda x: np.roll(x, 1, 0)),
    "repeat": ("repeat", [[2, 1]], {"shape": ("2*n", 4)}, lambda x: np.tile(x, (2, 1))),
    "unbind": ("unbind.int", [1], {"results": [(("n",), "float32")] * 4, "listed": True}, lambda x: x[:, 0]),
}


@pytest.mark.parametrize("name", OPEN)
def test_dimensions_may_stay_open(tmp_path: Path, name: str) -> None:
    """A dimension that is kept open takes other sizes than in the example."""
    target, arguments, stated, expected = OPEN[name]
    made = TinyProgram({"n": 3})
    ends = made.op(target, made.input("x", ("n", 4)), *arguments, **stated)
    model = made.convert(tmp_path, ends if isinstance(ends, list) else [ends], input_dims={"x": [-1, 4]})
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_array_equal(xdlc.run(model, {"x": x})[model.main.outputs[0].name], expected(x))


def test_sizes_are_computed_with(tmp_path: Path) -> None:
    """Arithmetic of Python with an open dimension is done when the graph runs."""
    builder = TinyProgram({"n": 3})
    x = builder.input("x", ("n", 4))
    size = builder.op("sym_size.int", x, 0, number="n")
    half = builder.op("_operator.floordiv", a=size, b=2, number="n//2")
    builder.op(
        "slice.Tensor", x, 0, builder.op("_operator.neg", a=half, number="-1*(n//2)"), shape=("n//2", 4)
    )
    model = builder.convert(tmp_path, input_dims={"x": [-1, 4]})
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_array_equal(xdlc.run(model, {"x": x})[model.main.outputs[0].name], x[-2:])


def test_changes_take_functional_forms_of_other_names(tmp_path: Path) -> None:
    """Operators that write have functional forms with other overloads, or none."""
    builder = TinyProgram()
    x = builder.input("x", (3, 4))
    held = builder.op("clone", x)
    builder.op("pow_.Tensor", held, x)
    builder.op("fill_diagonal_", held, 7)
    model = builder.convert(tmp_path, [held])
    wanted = SQUARE**SQUARE
    np.fill_diagonal(wanted, 7)
    np.testing.assert_allclose(xdlc.run(model, {"x": SQUARE})[model.main.outputs[0].name], wanted, 1e-5)


def test_parts_are_written_at_computed_places(tmp_path: Path) -> None:
    """A place that the data decides counts from the end where it is negative."""
    made = TinyProgram()
    x, row = made.input("x", (3, 4)), made.input("row", (4,))
    at = made.op("item", made.input("at", (1,), "int64"), number="u0")
    made.op("select_scatter", x, row, 0, at, shape=(3, 4))
    model = made.convert(tmp_path)
    for place in (1, -1):
        fed = {"x": SQUARE, "row": ROW[:4], "at": np.asarray([place])}
        found = xdlc.run(model, fed)[model.main.outputs[0].name]
        np.testing.assert_array_equal(found, _filled(SQUARE, place, ROW[:4]))


@pytest.mark.parametrize("target", ["masked_scatter", "index_put"])
def test_masks_without_a_true_element_write_nothing(tmp_path: Path, target: str) -> None:
    made = TinyProgram()
    x, mask = made.input("x", (3, 4)), made.input("mask", (3, 4), "bool")
    values = made.op("masked_select", x, mask, shape=("u0",))
    made.op(target, x, [mask] if target == "index_put" else mask, values, shape=(3, 4))
    model = made.convert(tmp_path)
    result = xdlc.run(model, {"x": SQUARE, "mask": MASK & False})[model.main.outputs[0].name]
    np.testing.assert_array_equal(result, SQUARE)
