"""Hoisting Transposes changes no number, wherever the parts have the cut axis."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from tests.support.running import run
from xdlc import passes
from xdlc.ir import parse

ORDERS = list(permutations(range(3)))


def cut(orders, sizes):
    """Return a graph that cuts a tensor [6, 4, N] into two parts and transposes each."""
    texts = []
    for name, order, size in zip("ab", orders, sizes, strict=True):
        shape = [[6, 4, size][axis] for axis in order]
        dims = ",".join(map(str, shape))
        texts.append(
            f"turn_{name} = Transpose(%{name}) {{perm=uint32[3] = {list(order)}}} -> "
            f"%{name}t float32[{dims}]\n"
            f"  end_{name} = ElementWiseNeuron(%{name}t) {{operation=uint32 4}} -> %{name}y float32[{dims}]"
        )
    first, second = sizes
    return f"""
graph g {{
  input %x float32[6,4,{first + second}]
  cut = Split(%x) {{axis=uint32 2, split_index=uint32[1] = [{first}]}} -> \
%a float32[6,4,{first}], %b float32[6,4,{second}]
  {texts[0]}
  {texts[1]}
  return %ay, %by
}}
"""


@pytest.mark.parametrize("sizes", [(2, 3), (1, 1), (1, 3)])
def test_parts_keep_their_numbers(sizes):
    x = np.random.default_rng(0).standard_normal((6, 4, sum(sizes))).astype(np.float32)
    parts = [np.maximum(part, 0) for part in np.split(x, [sizes[0]], axis=2)]
    for orders in [*zip(ORDERS, ORDERS, strict=True), *pairwise(ORDERS)]:
        graph = parse(cut(orders, sizes)).main
        passes.find("hoist_transposes").apply(graph)
        graph.verify()
        found = run(graph, {"x": x})
        for name, part, order in zip(("ay", "by"), parts, orders, strict=True):
            np.testing.assert_array_equal(found[name], part.transpose(order))
