"""Dilated convolutions written with SpaceToBatch keep their numbers."""

import numpy as np
import pytest

from tests.support.running import run
from xdlc import passes
from xdlc.ir import parse


def ints(values):
    shape = list(np.shape(values))
    return f"uint32[{','.join(map(str, shape))}] = {np.ravel(values).tolist()}"


def real(*shape):
    return f"float32[{','.join(map(str, shape))}]"


def written(
    size, block, pads, crops, *, kind="Conv2d", own=((0, 0), (0, 0)), stride=1, kernel=3, middle=True
):
    """Return SpaceToBatch, a convolution, a Relu and BatchToSpace of images."""
    pads, crops = np.asarray(pads), np.asarray(crops)
    small = [(size + sum(pair)) // block for pair in pads]
    cut = [(dim + sum(pair) - kernel) // stride + 1 for dim, pair in zip(small, own, strict=True)]
    out = [dim * block - sum(pair) for dim, pair in zip(cut, crops, strict=True)]
    batch, width = 2 * block * block, 1 if kind.startswith("Depth") else 2
    weights = np.random.default_rng(0).integers(-4, 5, kernel * kernel * width * 2).tolist()
    window = f"stride={ints([stride, stride])}, pad_amount={ints(own)}, dilation={ints([1, 1])}"
    window += ", group=uint32 1" * (width == 2)
    last = "r" if middle else "k"
    relu = f"r = ElementWiseNeuron(%k_out) {{operation=uint32 4}} -> %r_out {real(batch, *cut, 2)}"
    return f"""
graph g {{
  input %x {real(2, size, size, 2)}
  static %w {real(kernel, kernel, width, 2)} = {weights}
  static %b float32[2] = [1, -2]
  s = SpaceToBatch(%x) {{block_size={ints([block, block])}, pad_amount={ints(pads)}}} -> \
%s_out {real(batch, *small, 2)}
  k = {kind}(%s_out, %w, %b) {{{window}}} -> %k_out {real(batch, *cut, 2)}
  {relu if middle else ""}
  t = BatchToSpace(%{last}_out) {{block_size={ints([block, block])}, crops={ints(crops)}}} -> \
%y {real(2, *out, 2)}
  return %y
}}
"""


@pytest.mark.parametrize(
    ("text", "folds"),
    [
        (written(8, 2, [[2, 2], [2, 2]], [[0, 0], [0, 0]]), True),
        (written(7, 2, [[2, 3], [2, 3]], [[0, 1], [0, 1]]), True),
        (written(7, 2, [[2, 3], [2, 3]], [[0, 1], [0, 1]], kind="DepthWiseConv2d"), True),
        (written(9, 3, [[3, 3], [0, 6]], [[1, 0], [0, 2]], middle=False), True),
        (written(8, 2, [[0, 0], [0, 0]], [[0, 0], [0, 0]], own=[[1, 1], [1, 1]]), True),
        (written(8, 2, [[0, 0], [0, 0]], [[1, 0], [0, 0]]), False),
        (written(8, 2, [[2, 2], [2, 2]], [[0, 0], [0, 0]], stride=2), False),
    ],
    ids=["same", "odd", "depthwise", "crops", "padding of its own", "crops of data", "strides"],
)
def test_a_dilated_convolution_keeps_its_numbers(text, folds):
    graph = parse(text).main
    feeds = {"x": np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)}
    before = run(graph, feeds)["y"]
    assert passes.find("fuse_dilation").apply(graph) == folds
    graph.prune()
    graph.verify()
    assert ("BatchToSpace" not in [op.type for op in graph.ops]) == folds
    np.testing.assert_allclose(run(graph, feeds)["y"], before, rtol=1e-5, atol=1e-5)
