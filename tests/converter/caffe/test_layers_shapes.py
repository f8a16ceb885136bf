"""Layers that join, cut, reshape, move, pad and resize, against formulas in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.caffe import nets
from xdlc.errors import XdlcError

X = np.random.default_rng(4).permutation(2 * 8 * 4 * 6).reshape(2, 8, 4, 6).astype(np.float32)


def reorg(x: np.ndarray, s: int) -> np.ndarray:
    """Return Darknet's reorg, element by element."""
    n, c, h, w = x.shape
    depth = c // s**2
    wide, out = x.reshape(n, depth, h * s, w * s), np.zeros(x.shape, x.dtype)
    for k in range(c):
        part, offset = k % depth, k // depth
        out[:, k] = wide[:, part, offset // s :: s, offset % s :: s]
    return out.reshape(n, c * s * s, h // s, w // s)


def corners(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return an image interpolated with its corners in place."""
    for axis, size in ((2, height), (3, width)):
        at = np.linspace(0, x.shape[axis] - 1, size) if size > 1 else np.zeros(1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        part = (at - low).reshape([-1 if held == axis else 1 for held in range(4)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x


def centers(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return an image interpolated between the centers of its elements."""
    for axis, size in ((2, height), (3, width)):
        n = x.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * n / size - 0.5, 0, n - 1)
        low = np.floor(at).astype(int)
        part = (at - low).reshape([-1 if held == axis else 1 for held in range(4)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, np.minimum(low + 1, n - 1), axis) * part
    return x


PADS = ((0, 0), (0, 0), (1, 2), (3, 0))
CASES = {
    "Concat one": ("Concat", "", lambda x: x),
    "Concat old": ("Concat", "concat_param { concat_dim: 2 }", lambda x: x),
    "Split": ("Split", "", lambda x: x),
    "Flatten part": ("Flatten", "flatten_param { axis: 1 end_axis: -2 }", lambda x: x.reshape(2, 32, 6)),
    "Reshape axis": (
        "Reshape",
        "reshape_param { shape { dim: 0 dim: -1 dim: 2 } axis: 1 num_axes: 2 }",
        lambda x: x.reshape(2, 8, 2, 2, 6),
    ),
    "Reshape insert": (
        "Reshape",
        "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }",
        lambda x: x[..., None],
    ),
    "Unsqueeze": ("Unsqueeze", "unsqueeze_param { dim: -2 }", lambda x: x[:, :, :, None]),
    "Permute part": ("Permute", "permute_param { order: 2 }", lambda x: x.transpose(2, 0, 1, 3)),
    "Tile": ("Tile", "tile_param { axis: -1 tiles: 3 }", lambda x: np.tile(x, 3)),
    "Pad": (
        "Pad",
        "pad_param { pad_u: 1 pad_d: 2 pad_l: 3 pad_value: 1.5 }",
        lambda x: np.pad(x, PADS, constant_values=1.5),
    ),
    "Pad reflect": (
        "Pad",
        "pad_param { pad_type: REFLECT pad_u: 1 pad_d: 2 pad_l: 3 }",
        lambda x: np.pad(x, PADS, "reflect"),
    ),
    "Pad replicate": (
        "Pad",
        "pad_param { pad_type: 1 pad_u: 1 pad_d: 2 pad_l: 3 }",
        lambda x: np.pad(x, PADS, "edge"),
    ),
    "Pad cut": (
        "Pad",
        "pad_param { pad_u: -1 pad_d: -1 pad_l: -2 pad_r: -1 }",
        lambda x: x[:, :, 1:-1, 2:-1],
    ),
    "ShuffleChannel": (
        "ShuffleChannel",
        "shuffle_channel_param { group: 4 }",
        lambda x: x.reshape(2, 4, 2, 4, 6).swapaxes(1, 2).reshape(x.shape),
    ),
    "PixelShuffle": (
        "PixelShuffle",
        "pixelshuffle_param { upscale_factor: 2 }",
        lambda x: x.reshape(2, 2, 2, 2, 4, 6).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 8, 12),
    ),
    "Reorg": ("Reorg", "reorg_param { stride: 2 }", lambda x: reorg(x, 2)),
    "Reorg back": (
        "ReorgYolo",
        "reorg_param { stride: 2 reverse: true }",
        lambda x: x.reshape(2, 2, 2, 2, 4, 6).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 8, 12),
    ),
    "ArgMax all": (
        "ArgMax",
        "argmax_param { top_k: 2 out_max_val: true }",
        lambda x: np.stack([np.argsort(-x.reshape(2, -1))[:, :2], -np.sort(-x.reshape(2, -1))[:, :2]], 1)[
            ..., None
        ],
    ),
    "ArgMax one": (
        "ArgMax",
        "argmax_param { axis: 2 }",
        lambda x: 3 - x[:, :, ::-1].argmax(2)[:, :, None],
    ),
    "ArgMax axis": (
        "ArgMax",
        "argmax_param { axis: -1 top_k: 3 }",
        lambda x: np.argsort(-x, axis=-1)[..., :3],
    ),
    "ArgMax values": (
        "ArgMax",
        "argmax_param { axis: 1 top_k: 2 out_max_val: true }",
        lambda x: -np.sort(-x, axis=1)[:, :2],
    ),
    "Upsample": ("Upsample", "upsample_param { scale: 3 }", lambda x: x.repeat(3, 2).repeat(3, 3)),
    "Interp": ("Interp", "interp_param { shrink_factor: 2 zoom_factor: 3 }", lambda x: corners(x, 4, 7)),
    "Interp cut": (
        "Interp",
        "interp_param { height: 1 width: 9 pad_beg: -1 }",
        lambda x: corners(x[:, :, 1:, 1:], 1, 9),
    ),
    "Bilinear": (
        "BilinearInterpolate",
        "bilinear_interpolate_param { scale_factor: 1.5 }",
        lambda x: corners(x, 6, 9),
    ),
    "Bilinear centers": (
        "BilinearInterpolate",
        "bilinear_interpolate_param { dst_h: 7 align_corners: false }",
        lambda x: centers(x, 7, 6),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_result(case: str, tmp_path: Path) -> None:
    type, params, formula = CASES[case]
    got = nets.run(tmp_path, nets.data(*X.shape) + nets.layer(type, params), {"data": X})["y"]
    wanted = formula(X)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)


def test_slice_points_and_a_silent_top(tmp_path: Path) -> None:
    cut = "slice_param { slice_point: 1 slice_point: 3 }"
    text = nets.data(*X.shape) + nets.layer("Slice", cut, top="a b c")
    got = nets.run(tmp_path, text + 'layer { name: "s" type: "Silence" bottom: "b" }', {"data": X})
    assert set(got) == {"a", "c"}
    for name, part in (("a", X[:, :1]), ("c", X[:, 3:])):
        np.testing.assert_array_equal(got[name], part)


def test_crop_takes_a_shape_and_no_data(tmp_path: Path) -> None:
    text = nets.data(*X.shape) + nets.data(2, 3, 2, 9, name="like")
    text += nets.layer("Slice", "slice_param { axis: 3 slice_point: 5 }", "like", "t u")
    text += nets.layer("Crop", "crop_param { axis: 1 offset: 4 offset: 1 offset: 0 }", "data t")
    got = nets.run(tmp_path, text, {"data": X, "like": np.zeros((2, 3, 2, 9))})
    np.testing.assert_array_equal(got["y"], X[:, 4:7, 1:3, :5])
    ops = nets.convert(tmp_path, text, out_name=["y"]).main.ops
    assert [op.type for op in ops] == ["StridedSlice"]


def test_places_of_maxima(tmp_path: Path) -> None:
    small, mask = X[:1, :2, :2, :3], np.array([0, 8, 5, 11, 7, 3, 1, 2, 4, 6, 9, 10], np.float32)
    text = nets.data(1, 2, 2, 3) + nets.data(1, 2, 2, 3, name="mask")
    text += nets.layer("MaxUnPool", "max_unpool_param { dst_h: 3 dst_w: 4 }", "data mask", "a")
    text += nets.layer("Upsample", "upsample_param { scale: 2 pad_out_h: true }", "data mask", "b")
    got = nets.run(tmp_path, text, {"data": small, "mask": mask.reshape(small.shape)})
    for name, shape in (("a", (1, 2, 3, 4)), ("b", (1, 2, 3, 6))):
        wanted = np.zeros((2, shape[2] * shape[3]), np.float32)
        np.put_along_axis(wanted, mask.reshape(2, 6).astype(int), small.reshape(2, 6), 1)
        np.testing.assert_array_equal(got[name], wanted.reshape(shape))


def test_constants(tmp_path: Path) -> None:
    shapes = "shape { dim: 2 dim: 3 } shape { dim: 2 dim: 1 }"
    text = nets.data(2, 3) + nets.layer(
        "DummyData", f"dummy_data_param {{ {shapes} data_filler {{ value: 0.5 }} }}", "", "a b"
    )
    text += nets.layer("Parameter", "parameter_param { shape { dim: 2 dim: 2 } }", "", "p")
    text += nets.layer("Concat", "", "data a b p")
    stored = np.arange(4, dtype=np.float32).reshape(2, 2)
    got = nets.run(tmp_path, text, {"data": X[0, 0, :2, :3]}, {"p": [stored]})["y"]
    np.testing.assert_array_equal(got, np.hstack([X[0, 0, :2, :3], np.full((2, 4), 0.5), stored]))


def test_bottoms_that_select_or_state_a_size(tmp_path: Path) -> None:
    text = nets.data(2, 3, 4, name="line") + nets.data(3, name="rows") + nets.data(1, 1, 3, 5, name="like")
    text += nets.data(*X.shape) + nets.layer("BatchReindex", "", "line rows", "picked")
    text += nets.layer("Upsample", "upsample_param { scale: 2 dims_num: 3 }", "line", "wide")
    text += nets.layer("Interp", "", "data like", "small")
    line = X[0, :6, 0, :4].reshape(2, 3, 4)
    inputs = {"line": line, "rows": np.float32([1, 0, 1]), "data": X, "like": np.zeros((1, 1, 3, 5))}
    got = nets.run(tmp_path, text, inputs)
    np.testing.assert_array_equal(got["picked"], line[[1, 0, 1]])
    np.testing.assert_array_equal(got["wide"], line.repeat(2, 2))
    np.testing.assert_allclose(got["small"], corners(X, 3, 5), rtol=1e-5, atol=1e-4)


BOTTOMS = {
    "a": (1, 2, 4, 6),
    "b": (2, 3, 4),
    "c": (1, 3),
    "d": (1, 2, 48),
    "e": (1, 18, 4, 6),
    "f": (1, 36, 4, 6),
    "s": (),
}


@pytest.mark.parametrize(
    ("type", "params", "bottom"),
    [
        ("Axpy", "", "c a a"),
        ("BatchReindex", "", "a b"),
        ("Concat", "", "a b"),
        ("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }", "a b"),
        ("Crop", "", "a c"),
        ("Crop", "crop_param { offset: 1 }", "a a"),
        ("DetectionOutput", "detection_output_param { num_classes: 5 }", "c c d"),
        ("DetectionOutput", "detection_output_param { num_classes: 1 }", "d c d"),
        ("Eltwise", "", "a b"),
        ("LSTM", "recurrent_param { num_output: 2 }", "b c"),
        ("LSTMUnit", "", "b b c"),
        ("MaxUnPool", "max_unpool_param { dst_h: 2 dst_w: 2 }", "a a"),
        ("PriorBox", "", "a a"),
        ("PriorBox", "prior_box_param { min_size: 3 max_size: 2 }", "a a"),
        ("PriorBox", "prior_box_param { min_size: 3 step: 2 step_h: 2 }", "a a"),
        ("PriorBox", "prior_box_param { min_size: inf }", "a a"),
        ("Proposal", "", "a a c"),
        ("Proposal", "proposal_param { feat_stride: 0 }", "e f c"),
        ("PSROIPooling", "psroi_pooling_param { spatial_scale: 1 output_dim: 2 group_size: 2 }", "a c"),
        ("ROIPooling", "roi_pooling_param { pooled_h: 2 pooled_w: 2 }", "a s"),
        ("Upsample", "upsample_param { scale: 2 }", "b b"),
    ],
)
def test_bottoms_that_do_not_fit_are_refused(type: str, params: str, bottom: str, tmp_path: Path) -> None:
    text = "".join(nets.data(*shape, name=name) for name, shape in BOTTOMS.items())
    with pytest.raises(XdlcError) as error:
        nets.convert(tmp_path, text + nets.layer(type, params, bottom))
    assert f"layer 'y' ({type}, line 8)" in error.value.where
    assert error.value.fix


@pytest.mark.parametrize(
    ("type", "params", "words"),
    [
        ("Reshape", "reshape_param { shape { dim: 5 dim: -1 } }", "elements"),
        ("Reshape", "reshape_param { shape { dim: 2 dim: -1 dim: 0 dim: 0 dim: 0 } }", "does not have"),
        ("Permute", "permute_param { order: 1 order: 1 }", "order"),
        ("Pad", "pad_param { pad_u: 1 pad_d: -1 }", "pad"),
        ("Pad", "pad_param { pad_type: REFLECT pad_u: 4 }", "reflects"),
        ("Tile", "tile_param { tiles: 0 }", "tiles"),
        ("ArgMax", "argmax_param { axis: 1 top_k: 9 }", "9"),
        ("Reorg", "reorg_param { stride: 3 }", "divide"),
        ("Interp", "interp_param { zoom_factor: 2 pad_end: 1 }", "pad"),
        ("Interp", "interp_param { height: 2147483647 width: 2147483647 }", "impossible"),
        ("Filter", "", "number"),
    ],
)
def test_refusal_names_layer_and_line(type: str, params: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(XdlcError) as error:
        nets.convert(tmp_path, nets.data(*X.shape) + nets.layer(type, params))
    assert f"layer 'y' ({type}, line 2)" in error.value.where
    assert words in error.value.problem
