"""A source's encodings stay; the rest is quantized around them."""

import numpy as np
import pytest

from tests.support.running import run
from xdlc.ir import AxisScaleOffset, Model, ScaleOffset, parse
from xdlc.ir.dtype import SFIXED8, UFIXED8
from xdlc.quant import quantize

TEXT = """
graph partly {
  input %x ufixed8[1,4] per_tensor(scale=0.05, offset=-128)
  static %v sfixed8[3,4] per_tensor(scale=0.01) = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2]
  one = FullyConnected(%x, %v) {keep_dims=bool8 false} -> %a ufixed8[1,3] per_tensor(scale=0.03, offset=-90)
  d = Dequantize(%a) -> %real float32[1,3]
  gate = ElementWiseNeuron(%real) {operation=uint32 6} -> %gated float32[1,3]
  product = ElementWiseBinary(%real, %gated) {operation=uint32 13} -> %silu float32[1,3]
  q = Quantize(%silu) -> %b ufixed8[1,3] per_tensor(scale=0.02, offset=-20)
  e = Dequantize(%b) -> %again float32[1,3]
  static %w sfixed8[2,3] per_axis(axis=0, scales=[0.25,0.5]) = [1, 2, 3, 4, 5, 6]
  two = FullyConnected(%again, %w) {keep_dims=bool8 false} -> %y float32[1,2]
  return %y
}
"""


def test_the_rest_is_quantized_with_the_encodings_of_the_source():
    model = Model({"partly": parse(TEXT).main})
    rng = np.random.default_rng(0)
    samples = [{"x": rng.uniform(-3, 3, (1, 4)).astype(np.float32)} for _ in range(4)]
    quantized_model = quantize(model, samples)
    tensors = quantized_model.main.tensors
    assert {op.type for op in quantized_model.main.ops} == {
        "FullyConnected",
        "ElementWiseNeuron",
        "ElementWiseBinary",
    }
    assert (tensors["a"].dtype, tensors["a"].encoding) == (UFIXED8, ScaleOffset(0.03, -90))
    assert (tensors["silu"].dtype, tensors["silu"].encoding) == (UFIXED8, ScaleOffset(0.02, -20))
    assert (tensors["w"].dtype, tensors["w"].encoding) == (SFIXED8, AxisScaleOffset(0, (0.25, 0.5)))
    np.testing.assert_array_equal(tensors["w"].numpy(), [[1, 2, 3], [4, 5, 6]])
    for sample in samples:
        np.testing.assert_allclose(run(quantized_model, sample)["y"], run(model, sample)["y"], atol=0.2)


@pytest.mark.parametrize(
    "parts",
    [
        "split = Split(%x) {axis=uint32 1, split_index=uint32[1] = [2]} -> %a float32[1,2], %b float32[1,2]",
        "one = StridedSlice(%x) {ranges=int32[2,3] = [0, 1, 1, 0, 2, 1]} -> %a float32[1,2]\n"
        "  two = StridedSlice(%x) {ranges=int32[2,3] = [0, 1, 1, 2, 4, 1]} -> %b float32[1,2]",
    ],
)
def test_an_encoding_of_one_part_does_not_cut_off_the_others(parts):
    text = f"""
graph parts {{
  input %x float32[1,4]
  {parts}
  q = Quantize(%a) -> %low ufixed8[1,2] per_tensor(scale=0.01, offset=-20)
  d = Dequantize(%low) -> %again float32[1,2]
  y = ElementWiseBinary(%again, %b) {{operation=uint32 13}} -> %y float32[1,2]
  return %y
}}
"""
    model = Model({"parts": parse(text).main})
    samples = [{"x": np.array([[0.5, 2.0, -9.0, 9.0]], np.float32)}]
    made = quantize(model, samples)
    assert all(op.type not in ("Quantize", "Dequantize") for op in made.main.ops)
    assert made.main.tensors["a"].encoding == ScaleOffset(0.01, -20)
    np.testing.assert_allclose(run(made, samples[0])["y"], run(model, samples[0])["y"], atol=0.2)


def test_floats_out_of_16_bits_are_read_by_ops_of_8_bits():
    text = """
graph partly {
  input %x ufixed16[1,16] per_tensor(scale=0.0001, offset=-32768)
  moved = Reshape(%x) -> %moved ufixed16[4,4] per_tensor(scale=0.0001, offset=-32768)
  d = Dequantize(%moved) -> %real float32[4,4]
  static %w float32[4] = [0.5, -1.0, 2.0, 0.25]
  product = ElementWiseBinary(%real, %w) {operation=uint32 13} -> %y float32[4,4]
  return %y
}
"""
    samples = [{"x": np.linspace(-3, 3, 16, dtype=np.float32).reshape(1, 16)}] * 2
    quantized_model = quantize(Model({"partly": parse(text).main}), samples)
    assert [op.outputs[0].dtype for op in quantized_model.main.ops][1:] == [UFIXED8] * 2
