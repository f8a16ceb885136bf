"""Known values that do not fit 32 bits are all named, and nothing is changed then."""

import pytest

from xdlc.errors import ConstraintError, ProblemList
from xdlc.ir import parse, to_text
from xdlc.ir.dtype import FLOAT32, INT32, INT64
from xdlc.passes.narrow_integers import narrow_integers

TEXT = """
graph wide {
  input %ids int64[2]
  static %table int64[3] = [0, 4294967296, 1]
  static %fine int64[1] = [2147483647]
  gather = Gather(%table, %ids) {axis=int32 0} -> %found int64[2]
  plus = ElementWiseBinary(%found, %fine) {operation=uint32 0} -> %sum int64[2]
  again = ElementWiseBinary(%sum, %table) {operation=uint32 0} -> %more int64[3]
  hot = OneHot(%ids) {axis=uint32 1, depth=uint32 4, off_value=int64 0, on_value=int64 -2147483649}
    -> %y int64[2,4]
  return %more, %y
}
"""


def test_every_misfit_is_named_once() -> None:
    graph = parse(" ".join(TEXT.split("\n    "))).main
    before = to_text(graph, data="inline")
    with pytest.raises(ProblemList) as caught:
        narrow_integers(graph)
    assert [(problem.where, problem.problem) for problem in caught.value.problems] == [
        (
            "graph 'wide': op 'gather' (Gather)",
            "input 0 ('table') holds 4294967296, but HTP's integers have 32 bits",
        ),
        (
            "graph 'wide': op 'hot' (OneHot)",
            "parameter 'on_value' holds -2147483649, but HTP's integers have 32 bits",
        ),
    ]
    assert to_text(graph, data="inline") == before


def test_what_the_host_alone_computes_keeps_its_type() -> None:
    graph = parse(
        """
graph shapes {
  input %x float32[2,3]
  static %one int64[1] = [1]
  shape = Shape@xdlc(%x) -> %dims int64[2]
  plus = ElementWiseBinary(%dims, %one) {operation=uint32 0} -> %more int64[2]
  spread = Expand@xdlc(%x, %more) -> %y float32[3,4]
  return %y
}
"""
    ).main
    before = to_text(graph)
    assert not narrow_integers(graph)
    assert to_text(graph) == before


def test_what_computes_nothing_wide_reads_results_of_the_host_in_32_bits() -> None:
    graph = parse(
        """
graph places {
  input %x float32[2,3]
  static %one int64[1] = [1]
  shape = Shape@xdlc(%x) -> %dims int64[2]
  less = BitwiseAnd@xdlc(%dims, %one) -> %places int64[2]
  gather = Gather(%x, %places) {axis=int32 0} -> %y float32[2,3]
  equal = ElementWiseBinary(%places, %one) {operation=uint32 3} -> %z bool8[2]
  return %y, %z
}
"""
    ).main
    assert narrow_integers(graph)
    graph.verify()
    gather, equal = (graph.tensors[name].producer for name in ("y", "z"))
    assert gather is not None
    assert equal is not None
    assert {tensor.dtype for op in (gather, equal) for tensor in op.inputs if tensor} == {FLOAT32, INT32}
    assert [op.type for op in graph.ops].count("Cast") == 2
    assert graph.tensors["places"].dtype is INT64


def test_a_misfit_that_an_op_of_the_host_shares_is_named() -> None:
    text = """
graph wide {
  input %x int64[1]
  static %c int64[1] = [1099511627776]
  z = BitwiseAnd@xdlc(%x, %c) -> %z int64[1]
  same = ElementWiseBinary(%z, %c) {operation=uint32 3} -> %y bool8[1]
  return %y
}
"""
    with pytest.raises(ConstraintError) as caught:
        narrow_integers(parse(text).main)
    assert caught.value.node == "same"
