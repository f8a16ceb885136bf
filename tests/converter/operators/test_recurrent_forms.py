"""Sums of a state and numbers, as the recognition of recurrent layers reads them."""

from types import SimpleNamespace

import numpy as np

from xdlc.converter.control_flow.recurrence import Reader
from xdlc.ir import parse

TEXT = """
graph body {
  input %h float32[2,3]
  static %half float32[1] = [0.5]
  static %w float32[2,3] = [1, 2, 3, 4, 5, 6]
  static %b float32[2] = [1, -1]
  static %rows float32[2,1] = [1, 2]
  a = ElementWiseBinary(%h, %half) {operation=uint32 0} -> %moved float32[2,3]
  f = FullyConnected(%moved, %w, %b) -> %made float32[2,2]
  r = ElementWiseBinary(%h, %rows) {operation=uint32 0} -> %uneven float32[2,3]
  return %made, %uneven
}
"""


def test_a_number_is_added_to_each_column():
    graph = parse(TEXT).main
    reader = Reader(SimpleNamespace(inputs={}, captured={}), {"h": 0})
    form = reader.form(graph.tensors["made"])
    assert form.kind == "linear"
    np.testing.assert_allclose(form.terms[0], [[1, 4], [2, 5], [3, 6]])
    np.testing.assert_allclose(form.bias, [4, 6.5])
    assert reader.form(graph.tensors["uneven"]) is None  # a number for each row is no bias
