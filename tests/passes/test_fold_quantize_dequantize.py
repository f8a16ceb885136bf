"""Fixed point made of a quantized source: HTP computes what the host does."""

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from tests.support.running import run
from xdlc import passes
from xdlc.ir import ArrayData, Dequantized, Model, ScaleOffset, Tensor, parse, to_text
from xdlc.ir import dtype as dt
from xdlc.ir.tensor import Role
from xdlc.passes.fold_quantize_dequantize import fold_quantize_dequantize

BYTES = """
graph bytes {
  input %x float32[1,4,4,8]
  q = Quantize(%x) -> %q_out ufixed8[1,4,4,8] per_tensor(scale=0.03, offset=-100)
  d = Dequantize(%q_out) -> %d_out float32[1,4,4,8]
  s = ElementWiseNeuron(%d_out) {operation=uint32 6} -> %s_out float32[1,4,4,8]
  r = Quantize(%s_out) -> %r_out ufixed8[1,4,4,8] per_tensor(scale=0.00390625)
  y = Reinterpret@xdlc(%r_out) -> %y uint8[1,4,4,8]
  return %y
}
"""


def folded(text):
    graph = parse(text).main
    passes.run(graph, passes.stage("converter"))
    return graph


UNREAD = """
graph unread {
  input %x float32[1,4,4,8]
  q = Quantize(%x) -> %q_out ufixed8[1,4,4,8] per_tensor(scale=0.03, offset=-100)
  d = Dequantize(%q_out) -> %d_out float32[1,4,4,8]
  s = ElementWiseNeuron(%d_out) {operation=uint32 6} -> %s_out float32[1,4,4,8]
  r = Quantize(%s_out) -> %r_out sfixed8[1,4,4,8] per_tensor(scale=0.0078125)
  i = Reinterpret@xdlc(%r_out) -> %i_out int8[1,4,4,8]
  c = Cast(%i_out) -> %c_out float32[1,4,4,8]
  b = Reinterpret@xdlc(%i_out) -> %b_out sfixed8[1,4,4,8] per_tensor(scale=0.0078125)
  e = Dequantize(%b_out) -> %y float32[1,4,4,8]
  return %y
}
"""


READ = "  z = ElementWiseNeuron(%y) {operation=uint32 4} -> %z ufixed8[1,4,4,8] per_tensor(scale=0.004)\n"


@pytest.mark.parametrize("line", ["", READ])
def test_an_output_that_is_stored_has_no_quantize_of_stored_values(line):
    text = BYTES.replace("r = Quantize(%s_out) -> %r_out ufixed8", "r = Quantize(%s_out) -> %y ufixed8")
    start, end = text.index("  y = "), text.index("  return")
    graph = folded(text[:start] + line + text[end:].replace("%y", "%y, %z" if line else "%y"))
    assert [op.type for op in graph.ops] == ["ElementWiseNeuron"] * (2 if line else 1)
    assert graph.outputs[0].producer.inputs[0].dtype is dt.UFIXED8


def test_signed_values_that_an_unread_operation_reads_are_unsigned():
    graph = folded(UNREAD)
    assert [op.type for op in graph.ops] == ["ElementWiseNeuron"]
    assert graph.outputs[0].dtype is dt.UFIXED8


@needs_htp
def test_stored_bytes_come_out_of_htp():
    graph = folded(BYTES)
    assert [op.type for op in graph.ops] == ["ElementWiseNeuron", "Reinterpret"]
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 4, 4, 8)).astype(np.float32)}
    ours, theirs = (run(Model({"bytes": graph}), feeds, runtime=name)["y"] for name in ("cpu", "htp"))
    assert theirs.dtype == ours.dtype == np.uint8
    assert np.abs(theirs.astype(int) - ours.astype(int)).max() <= 1


TWO_READERS = """
graph two_readers {
  input %x ufixed8[2,4] per_tensor(scale=0.02, offset=-128)
  d = Dequantize(%x) -> %d_out float32[2,4]
  static %w float32[4,4] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  m = MatMul(%d_out, %w) {transpose_in0=bool8 false, transpose_in1=bool8 false} -> %m_out float32[2,4]
  q = Quantize(%m_out) -> %q_out ufixed8[2,4] per_tensor(scale=0.1, offset=-128)
  e = Dequantize(%q_out) -> %y float32[2,4]
  n = MatMul(%m_real, %w) {transpose_in0=bool8 false, transpose_in1=bool8 false} -> %z float32[2,4]
  return %y, %z
}
"""


@pytest.fixture
def shared_weight():
    text = TWO_READERS.replace("%m_real", "%d_out")
    graph = parse(text).main
    stored = np.random.default_rng(1).integers(-128, 128, (4, 4)).astype(np.int8)
    weight = graph.tensors["w"]
    weight.data = Dequantized(ArrayData(stored), dt.SFIXED8, ScaleOffset(0.01))
    return graph


def test_a_weight_of_reals_and_fixed_point_is_kept_in_both_forms(shared_weight):
    feeds = {"x": np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)}
    before = run(shared_weight, feeds)
    passes.run(shared_weight, passes.stage("converter"))
    shared_weight.verify()
    statics = sorted(str(tensor.dtype) for tensor in shared_weight.tensors.values() if tensor.is_static)
    assert statics == ["float32", "sfixed8"]
    for name, values in run(shared_weight, feeds).items():
        np.testing.assert_array_equal(values, before[name])


def test_a_second_round_finds_nothing():
    graph = folded(BYTES)
    text = to_text(graph)
    assert not passes.run(graph, passes.stage("converter"))
    assert to_text(graph) == text


def test_graphs_without_encodings_are_left_alone():
    graph = parse("graph g {\n  input %x float32[2]\n  r = Relu(%x) -> %y float32[2]\n  return %y\n}").main
    assert not fold_quantize_dequantize(graph)


def test_a_constant_keeps_its_number_in_any_type():
    from xdlc.ir.quantization import float_data
    from xdlc.passes._static_fixed_point import stored_constant

    for number in (2.5, -0.125, 0.0):
        data = ArrayData(np.full((2, 1), number, np.float32))
        tensor = Tensor("c", (2, 1), dt.FLOAT32, data=data, role=Role.STATIC)
        for dtype in (dt.UFIXED8, dt.SFIXED8, dt.UFIXED16, dt.SFIXED16):
            np.testing.assert_array_equal(float_data(stored_constant(tensor, dtype)).numpy(), data.numpy())
    assert (
        stored_constant(Tensor("c", (2,), dt.FLOAT32, data=ArrayData(np.float32([1, 2]))), dt.UFIXED8) is None
    )


def test_an_operation_that_htp_has_no_form_of_two_types_of_stays_float():
    text = """
    graph products {
      input %x ufixed16[1,8] per_tensor(scale=0.001)
      d = Dequantize(%x) -> %d_out float32[1,8]
      s = ElementWiseBinary(%d_out, %d_out) {operation=uint32 13} -> %s_out float32[1,8]
      y = Quantize(%s_out) -> %y ufixed8[1,8] per_tensor(scale=0.1)
      return %y
    }
    """
    assert [op.type for op in folded(text).ops] == ["Dequantize", "ElementWiseBinary", "Quantize"]
