"""Bools and bytes on the emulation of HTP, which has few operations on them."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import xdlc
from tests.support.htp_models import needs_htp
from tests.support.running import run_htp

# Masks as exporters write them: gathered, selected, expanded, sliced, joined, and turned into numbers.
MASKS = """<ir_version: 8, opset_import: ["" : 17]>
    g (int64[2,4] ids, bool[2,4] given, uint8[1,3,4,4] image)
    => (float[4,3] sums, bool[2,2,4] expanded, bool[2,4] chosen, bool[2] corners,
        float[1,4,4,3] pixels, int64[2,4] back)
    <int64[2] rows = {1,0}, int64[2,4] at = {1,1,0,0,1,0,1,0}, int64[1] start = {1}, int64[1] end = {4},
     int64[1] axis = {1}, int64 pad = {0}, int64[3] shape = {2,2,4}, int64[2,2] places = {0,1,1,-1}> {
        is_pad = Equal(ids, pad)
        kept = Not(is_pad)
        picked = Gather<axis=0>(kept, rows)
        elements = GatherElements<axis=0>(picked, at)
        both = And(elements, given)
        joined = Concat<axis=0>(both, picked)
        sliced = Slice(joined, start, end, axis)
        sums = Cast<to=1>(sliced)
        same = Equal(both, picked)
        chosen = Where(same, elements, given)
        deep = Unsqueeze(chosen, axis)
        expanded = Expand(deep, shape)
        turned = Transpose<perm=[0,2,3,1]>(image)
        pixels = Cast<to=1>(turned)
        corners = GatherND(kept, places)
        back = Gather<axis=0>(ids, rows)
    }"""


# The values that a mask of int64 keeps, as in the pooling of sentence encoders.
POOLING = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4,8] x, int64[1,4] mask, uint8[1,4,8] image, float[1,4] flags)
    => (float[1,4,8] y, bool[1,4,8] negative, bool[1,4] set)
    <int64[1] axis = {2}, int64[1] tokens = {1}, float half = {0.5}> {
        deep = Unsqueeze(mask, axis)
        weight = Cast<to=1>(deep)
        pixels = Cast<to=1>(image)
        small = Mul(pixels, half)
        sum = Add(x, small)
        y = Mul(sum, weight)
        flat = Cast<to=9>(x)
        negative = Identity(flat)
        set = Cast<to=9>(flags)
    }"""


@needs_htp
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("soc", ["sm8650", "qcs6490"])
def test_casts_to_fixed_point_are_those_of_the_host(tmp_path: Path, bits: int, soc: str) -> None:
    onnx.save(onnx.parser.parse_model(POOLING), tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    samples = [
        {
            "x": rng.standard_normal((1, 4, 8)).astype(np.float32),
            "mask": np.array([[1, 1, number % 2, 0]]),
            "image": rng.integers(0, 256, (1, 4, 8), np.uint8),
            "flags": np.array([[1, 0, -0.25, 60000]], np.float32),
        }
        for number in range(4)
    ]
    model = xdlc.quantize(xdlc.convert(tmp_path / "m.onnx"), samples, act_bitwidth=bits, target=soc)
    expected = xdlc.run(model, samples[0])
    found = run_htp(model, samples[0], soc=soc)
    for name in ("negative", "set"):
        np.testing.assert_array_equal(found[name], expected[name])
    step = model.main.tensors["y"].encoding.scale
    np.testing.assert_allclose(found["y"], expected["y"], atol=(1 if bits == 8 else 16) * step)


@needs_htp
def test_masks_and_images_are_those_of_the_host(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MASKS), tmp_path / "m.onnx")
    model = xdlc.convert(tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    feeds = {
        "ids": rng.integers(0, 3, (2, 4)),
        "given": rng.integers(0, 2, (2, 4)).astype(np.bool_),
        "image": rng.integers(0, 256, (1, 3, 4, 4), np.uint8),
    }
    expected = xdlc.run(model, feeds)
    np.testing.assert_array_equal(expected["pixels"], feeds["image"].transpose(0, 2, 3, 1))
    for name, array in run_htp(model, feeds).items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_allclose(array, expected[name], rtol=1e-6, err_msg=name)  # a bit of float16
