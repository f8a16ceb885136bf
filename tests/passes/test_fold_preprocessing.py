"""An order of channels is folded into layers that read all of them."""

import numpy as np
import pytest

from tests.support.onnx_models import check, floats, node
from xdlc import passes
from xdlc.ir import parse

GRAPH = """
graph g {{
  input %x float32[1,4,4,4]
  static %at int32[1] = [2]
  one = Gather(%x, %at) {{axis=int32 3}} -> %one_out float32[1,4,4,1]
  static %w float32[1,1,1,3] = [1, 2, 3]
  c = {kind}(%one_out, %w) {{stride=uint32[2] = [1, 1], pad_amount=uint32[2,2] = [0, 0, 0, 0], \
dilation=uint32[2] = [1, 1]{group}}} -> %y float32[1,4,4,3]
  return %y
}}
"""


def test_a_layer_of_one_channel_has_no_weights_for_others():
    plain = parse(GRAPH.format(kind="Conv2d", group=", group=uint32 1")).main
    assert passes.find("fold_preprocessing").apply(plain)
    plain.verify()
    assert next(iter(plain.ops)).inputs[1].shape == (1, 1, 4, 3)
    assert not passes.find("fold_preprocessing").apply(
        parse(GRAPH.format(kind="DepthWiseConv2d", group="")).main
    )


@pytest.mark.parametrize("layer", ["Conv", "Gemm"])
def test_one_factor_follows_views_of_other_ranks(models, layer):
    views = [node("Reshape", "s shape", "r"), node("Transpose", "r", "t", perm=[0, 2, 1, 3])]
    tail = node(layer, "t w")
    weights = {"factor": np.float32(0.5), "shape": np.array([1, 4, 3, 4]), "w": floats(2, 3, 1, 1)}
    if layer == "Gemm":
        weights |= {"shape": np.array([6, 4]), "w": floats(6, 5)}
        views[1] = node("Transpose", "r", "t", perm=[1, 0])
    x = floats(1, 12, 4) if layer == "Conv" else floats(2, 3, 4)
    found = check(models, [node("Mul", "x factor", "s"), *views, tail], {"x": x}, weights)
    assert "ElementWiseBinary" not in {op.type for op in found.main.ops}
