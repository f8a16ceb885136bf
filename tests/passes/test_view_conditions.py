"""Conditions of passes that move or drop views."""

import numpy as np
import pytest

from tests.support.running import run
from xdlc import passes
from xdlc.ir import Model, parse


@pytest.mark.parametrize(
    "lines",
    [
        "t = Tile@mine(%x) {multiples=uint32[2] = [2, 1]} -> %t float32[2,2]\n"
        "  y = ElementWiseBinary(%t, %z) {operation=uint32 0} -> %y float32[2,2]",
        "t = Tile(%x) {multiples=uint32[2] = [2, 1]} -> %t float32[2,2]\n"
        "  y = ElementWiseBinary(%t, %z) {operation=uint32 8} -> %y float32[2,2]",
    ],
)
def test_tiles_of_others_and_before_extremes_stay(lines):
    text = f"graph g {{\n  input %x float32[1,2]\n  input %z float32[2,2]\n  {lines}\n  return %y\n}}\n"
    assert not passes.run(parse(text).main, [passes.find("drop_neutral")])


@pytest.mark.parametrize(
    "lines",
    ["s = Softmax(%t) -> %s float32[2,4,3]", "s = Gather(%t, %places) {axis=int32 -3} -> %s float32[2,4,3]"],
)
def test_optional_and_negative_axes(lines):
    text = f"""
graph g {{
  input %x float32[4,2,3]
  static %places int32[2] = [1, 0]
  t = Transpose(%x) {{perm=uint32[3] = [1, 0, 2]}} -> %t float32[2,4,3]
  {lines}
  u = Transpose(%s) {{perm=uint32[3] = [1, 0, 2]}} -> %u float32[4,2,3]
  y = ElementWiseBinary(%u, %x) {{operation=uint32 0}} -> %y float32[4,2,3]
  return %y
}}
"""
    _check(text, passes.find("merge_views_around"))


def test_a_constant_on_both_sides():
    text = """
graph g {
  input %x float32[2,3,4]
  static %zero float32[1,1,4] = [1, 2, 3, 4]
  cut = Split(%x) {axis=uint32 0, split_index=uint32[1] = [1]} -> %a float32[1,3,4], %b float32[1,3,4]
  c = Concat(%zero, %a, %zero) {axis=uint32 1} -> %c float32[1,5,4]
  d = Concat(%zero, %b, %zero) {axis=uint32 1} -> %d float32[1,5,4]
  p = Transpose(%c) {perm=uint32[3] = [0, 2, 1]} -> %p float32[1,4,5]
  q = Transpose(%d) {perm=uint32[3] = [0, 2, 1]} -> %q float32[1,4,5]
  y = Concat(%p, %q) {axis=uint32 0} -> %y float32[2,4,5]
  return %y
}
"""
    _check(text, passes.find("hoist_transposes"))


def _check(text, each):
    graph = parse(text).main
    feeds = {"x": np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)}
    before = run(Model({"g": parse(text).main}), feeds)["y"]
    assert passes.run(graph, [each])
    np.testing.assert_allclose(run(Model({"g": graph}), feeds)["y"], before, rtol=1e-6)
