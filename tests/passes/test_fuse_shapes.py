"""Patterns whose last constant has more axes than their source stay as they are."""

import pytest

from xdlc import passes
from xdlc.ir import parse

THREE = "static %three float32[1] = [3]"
CLAMP = "operation=uint32 5, min_value=float32 0, max_value=float32"
ERF = """
  static %root float32[1] = [1.4142135]
  static %one float32[1] = [1]
  a = ElementWiseBinary(%x, %root) {operation=uint32 2} -> %a_out float32[2,4]
  b = Erf@xdlc(%a_out) -> %b_out float32[2,4]
  c = ElementWiseBinary(%b_out, %one) {operation=uint32 0} -> %c_out float32[2,4]
  d = ElementWiseBinary(%x, %c_out) {operation=uint32 13} -> %d_out float32[2,4]
"""
GATE = f"""
  {THREE}
  a = ElementWiseBinary(%x, %three) {{operation=uint32 0}} -> %a_out float32[2,4]
  b = ElementWiseNeuron(%a_out) {{{CLAMP} 6}} -> %b_out float32[2,4]
"""
TIMES = "  d = ElementWiseBinary(%x, %b_out) {operation=uint32 13} -> %d_out float32[2,4]\n"
SOFTMAX = """
  m = ReduceMax(%x) {axes=uint32[1] = [1], keep_dims=bool8 true} -> %m_out float32[2,1]
  s = ElementWiseBinary(%x, %m_out) {operation=uint32 18} -> %s_out float32[2,4]
  e = ElementWiseUnary(%s_out) {operation=uint32 5} -> %e_out float32[2,4]
  t = ReduceSum(%e_out) {axes=uint32[1] = [1], keep_dims=bool8 true} -> %t_out float32[2,1]
  d = ElementWiseBinary(%e_out, %t_out) {operation=uint32 2} -> %d_out float32[2,4]
"""


@pytest.mark.parametrize(
    ("name", "text", "last", "factor"),
    [
        ("fuse_gelu", ERF, "d", 0.5),
        ("fuse_hard_swish", GATE + TIMES, "d", 1 / 6),
        ("fuse_hard_sigmoid", GATE, "b", 1 / 6),
        ("fuse_softmax", SOFTMAX, "d", 1),
    ],
)
@pytest.mark.parametrize("rank", [2, 3])
def test_a_result_of_more_axes_is_not_fused(name, text, last, factor, rank):
    shape = ",".join(["1"] * (rank - 2) + ["2", "4"])
    graph = parse(
        f"graph g {{\n  input %x float32[2,4]{text}"
        f"  static %f float32[{','.join('1' * rank)}] = [{factor}]\n"
        f"  z = ElementWiseBinary(%{last}_out, %f) {{operation=uint32 13}} -> %y float32[{shape}]\n"
        "  return %y\n}\n"
    ).main
    changed = passes.run(graph, [passes.find(name)])
    graph.verify()
    assert changed == (rank == 2 or name == "fuse_softmax")
    assert graph.outputs[0].shape == tuple(map(int, shape.split(",")))
