import numpy as np
import pytest

from tests.quant.conftest import Net
from xdlc.ir import static, u32
from xdlc.quant.widening.mixed_scales import parts_of, unlike_parts

SIGMOID, MULTIPLY = 6, 13


def bounds(net, out):
    net.done(out)
    return [(part.axis, part.start, part.stop) for part in parts_of(out)]


def head(net, name, cells=4):
    """Boxes and scores of one level, 1 x cells x 6, from all of what the net is given."""
    boxes = net.conv(net.x, 4, f"{name}_boxes")
    scores = net.neuron(net.conv(net.x, 2, f"{name}_classes"), SIGMOID, f"{name}_scores")
    return net.reshape(net.concat([boxes, scores], f"{name}_joined"), (1, cells, 6), f"{name}_flat")


def test_a_concat_parts_an_output_through_views_and_products():
    net = Net(1, 2, 2, 3)
    flat = head(net, "level")
    moved = net.op("Transpose", [flat], (1, 6, 4), "moved", perm=static("p", np.uint32([0, 2, 1])))
    assert bounds(net, net.binary(moved, static("half", np.float32([0.5])), MULTIPLY, "out")) == [
        (1, 0, 4),
        (1, 4, 6),
    ]


def test_levels_that_are_parted_alike_keep_the_parts_of_their_channels():
    net = Net(1, 2, 2, 3)
    levels = [head(net, name) for name in ("one", "two")]
    joined = net.op("Concat", levels, (1, 8, 6), "out", axis=u32(1))
    assert bounds(net, joined) == [(2, 0, 4), (2, 4, 6)]
    (boxes, scores) = parts_of(net.graph.tensors["out"])
    assert [source.name for source in scores.sources] == ["one_scores", "two_scores"]
    assert len(boxes.sources) == 2


def test_concats_in_concats_part_on_one_axis():
    net = Net(1, 2, 2, 3)
    pair = net.concat([net.conv(net.x, 2, "xy"), net.conv(net.x, 2, "wh")], "pair")
    assert bounds(net, net.concat([pair, net.conv(net.x, 1, "c")], "out")) == [
        (3, 0, 2),
        (3, 2, 4),
        (3, 4, 5),
    ]


def test_a_scatter_into_a_slice_parts_its_result():
    net = Net(1, 2, 2, 5)
    x = net.reshape(net.x, (4, 5), "flat")
    rows, columns = np.meshgrid(np.arange(4), [1, 2], indexing="ij")
    indices = static("where", np.stack([rows, columns], axis=-1).astype(np.int32))
    out = net.op("ScatterNd", [x, indices, net.weights("new", 4, 2)], (4, 5), "out")
    assert bounds(net, out) == [(1, 0, 1), (1, 1, 3), (1, 3, 5)]


def test_indices_of_fewer_rows_than_the_data_have_part_no_result():
    net = Net(1, 2, 2, 5)
    x = net.reshape(net.x, (4, 5), "flat")
    indices = static("where", np.array([[1, 0], [0, 1]], np.int32))
    out = net.op("ScatterElements", [x, indices, net.weights("new", 2, 2)], (4, 5), "out", axis=u32(1))
    assert bounds(net, out) == []


@pytest.mark.parametrize(
    ("factors", "expected"), [([640] * 4 + [1], [(3, 0, 4), (3, 4, 5)]), ([3, 2, 1, 1, 1], [])]
)
def test_factors_that_differ_per_channel_part_a_product(factors, expected):
    net = Net(1, 2, 2, 5)
    assert bounds(net, net.binary(net.x, static("by", np.float32(factors)), MULTIPLY, "out")) == expected


def test_what_computes_over_its_input_is_one_part():
    net = Net(1, 2, 2, 3)
    joined = net.concat([net.conv(net.x, 2, "a"), net.conv(net.x, 2, "b")], "joined")
    assert bounds(net, net.conv(joined, 4, "out")) == []


def test_neighbours_of_like_size_are_one_part():
    net = Net(1, 2, 2, 3)
    parts = [net.conv(net.x, 2, name) for name in ("xy", "wh", "scores")]
    net.done(net.concat(parts, "out"))
    values = np.full((1, 2, 2, 6), 0.5, np.float32)
    values[..., :2], values[..., 2:4] = 300.0, -90.0
    joined = unlike_parts(parts_of(net.graph.tensors["out"]), [np.zeros_like(values), values])
    assert [(part.start, part.stop) for part in joined] == [(0, 4), (4, 6)]
    np.testing.assert_array_equal(joined[1].of(values), 0.5)
