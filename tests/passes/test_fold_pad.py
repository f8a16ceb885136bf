"""Folding Pads changes no number, and Pads stay where it would."""

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from tests.support.running import run
from xdlc import passes
from xdlc.ir import Model, parse

KINDS = ("Conv2d", "DepthWiseConv2d", "Conv3d", "PoolAvg2d", "PoolAvg3d", "PoolMax2d", "PoolMax3d")


def ints(values):
    shape = list(np.shape(values))
    return f"uint32[{','.join(map(str, shape))}] = {np.ravel(values).tolist()}"


def real(*shape):
    return f"float32[{','.join(map(str, shape))}]"


def padded(kind, spatial, kernel, pads, *, own=None, strides=None, dilation=None, channels=2, seed=0):
    """Return a graph of Relu, Pad of the spatial axes and an op with windows."""
    rank = len(spatial)
    own = np.zeros((rank, 2), int) if own is None else np.asarray(own)
    strides, dilation = strides or [1] * rank, dilation or [1] * rank
    pads = np.asarray(pads)
    inner = [dim + sum(pair) for dim, pair in zip(spatial, pads, strict=True)]
    reach = [step * (dim - 1) + 1 for dim, step in zip(kernel, dilation, strict=True)]
    out = [
        (dim + sum(pair) - span) // stride + 1
        for dim, pair, span, stride in zip(inner, own, reach, strides, strict=True)
    ]
    window = f"stride={ints(strides)}, pad_amount={ints(own)}"
    weight, reads = "", "%p_out"
    if kind.startswith("Pool"):
        window = f"filter_size={ints(kernel)}, {window}"
        window += f", count_pad_for_edges=bool8 {str(bool(own.any())).lower()}" * ("Avg" in kind)
    else:
        window += f", dilation={ints(dilation)}"
        window += ", group=uint32 1" * (not kind.startswith("Depth"))
        shape = [*kernel, 1 if kind.startswith("Depth") else channels, channels]
        values = np.random.default_rng(seed).integers(-4, 5, int(np.prod(shape))).tolist()
        weight, reads = f"static %w {real(*shape)} = {values}\n", "%p_out, %w"
    amounts = [[0, 0], *pads.tolist(), [0, 0]]
    return f"""
graph g {{
  input %x {real(1, *spatial, channels)}
  {weight}r = ElementWiseNeuron(%x) {{operation=uint32 4}} -> %r_out {real(1, *spatial, channels)}
  p = Pad(%r_out) {{scheme=uint32 0, pad_amount={ints(amounts)}, pad_constant_value=float32 0}} -> \
%p_out {real(1, *inner, channels)}
  k = {kind}({reads}) {{{window}}} -> %y {real(1, *out, channels)}
  return %y
}}
"""


def types(graph):
    return [op.type for op in graph.ops]


def drawn(kind, seed):
    """Return a random graph, and whether its Pad is one that folds."""
    rng = np.random.default_rng(seed)
    rank = int(kind[-2])
    kernel = rng.integers(1, 4, rank).tolist()
    dilation = [1] * rank if kind.startswith("Pool") else rng.integers(1, 3, rank).tolist()
    reach = np.array([step * (dim - 1) + 1 for dim, step in zip(kernel, dilation, strict=True)])
    own = rng.integers(0, reach[:, None].repeat(2, 1))
    pads = rng.integers(0, 3, (rank, 2))
    pads[0, 0] += not pads.any()
    spatial = (reach + rng.integers(0, 4, rank)).tolist()
    strides = rng.integers(1, 4, rank).tolist()
    text = padded(kind, spatial, kernel, pads, own=own, strides=strides, dilation=dilation, seed=seed)
    return text, bool(((own + pads) < reach[:, None]).all())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_random_windows_keep_their_numbers(kind, seed):
    text, folds = drawn(kind, seed)
    graph = parse(text).main
    feeds = {"x": np.random.default_rng(seed).standard_normal(graph.inputs[0].shape).astype(np.float32)}
    before = run(graph, feeds)["y"]
    assert passes.find("fold_pad").apply(graph) == folds
    assert ("Pad" not in types(graph)) == folds
    graph.verify()
    np.testing.assert_allclose(run(graph, feeds)["y"], before, rtol=1e-5, atol=1e-5)


@needs_htp
@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[3:4] + KINDS[5:6])
def test_htp_computes_what_is_folded(kind):
    graph = parse(padded(kind, [5, 6], [3, 3], [[1, 2], [2, 0]], channels=5)).main
    assert passes.find("fold_pad").apply(graph)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 5, 6, 5)).astype(np.float32)}
    ours, theirs = (run(Model({"g": graph}), feeds, runtime=name)["y"] for name in ("cpu", "htp"))
    assert np.linalg.norm(ours - theirs) <= 2e-3 * np.linalg.norm(ours)


CONV = padded("Conv2d", [4, 4], [3, 3], [[1, 1], [1, 1]])
MAX = padded("PoolMax2d", [4, 4], [3, 3], [[1, 1], [1, 1]])
AVERAGE = padded("PoolAvg2d", [4, 4], [3, 3], [[1, 1], [1, 1]])
COUNTED = padded("PoolAvg2d", [4, 4], [3, 3], [[1, 1], [1, 1]], own=[[1, 0], [1, 0]])
UNCOUNTED = COUNTED.replace("bool8 true", "bool8 false")
FILL = "pad_constant_value=float32"


@pytest.mark.parametrize(
    "text",
    [
        CONV.replace(f"{FILL} 0", f"{FILL} 1"),
        CONV.replace("scheme=uint32 0", "scheme=uint32 2"),
        CONV.replace("return %y", "return %y, %p_out"),
        CONV.replace("return", "t = Relu(%p_out) -> %t float32[1,6,6,2]\n  return"),
        MAX.replace("operation=uint32 4", "operation=uint32 8"),
        MAX.replace(f"{FILL} 0", f"{FILL} -1"),
        UNCOUNTED,
        AVERAGE.replace("bool8 false", "bool8 false, rounding_mode=uint32 1"),
        padded("PoolAvg2d", [4, 4], [3, 3], [[1, 1], [1, 1]], channels=1),
        padded("Conv2d", [4, 4], [3, 3], [[0, 0], [3, 0]]),
    ],
    ids=[
        "another number",
        "mirrored",
        "an output",
        "two readers",
        "zeros above the largest",
        "a number that may be the largest",
        "padding that does not count",
        "windows that hang over",
        "an average of one channel",
        "windows in the padding",
    ],
)  # fmt: skip
def test_pads_that_are_needed_stay(text):
    graph = parse(text).main
    assert not passes.find("fold_pad").apply(graph)
    assert "Pad" in types(graph)


@pytest.mark.parametrize("amounts", [[1, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 0]])
def test_pads_of_batches_and_channels_stay(amounts):
    count, channels = 1 + amounts[0], 2 + sum(amounts[6:])
    graph = parse(f"""
graph g {{
  input %x float32[1,4,4,2]
  p = Pad(%x) {{scheme=uint32 0, pad_amount=uint32[4,2] = {amounts}, {FILL} 0}} -> \
%p_out float32[{count},4,6,{channels}]
  k = PoolAvg2d(%p_out) {{filter_size=uint32[2] = [3, 3], stride=uint32[2] = [1, 1], \
pad_amount=uint32[2,2] = [0, 0, 0, 0], count_pad_for_edges=bool8 false}} -> %y float32[{count},2,4,{channels}]
  return %y
}}""").main
    assert not passes.find("fold_pad").apply(graph)


@pytest.mark.parametrize("fill", ["-inf", "-3.4028234663852886e38"])
def test_a_border_below_all_numbers_is_that_of_a_maximum(fill):
    graph = parse(
        MAX.replace("operation=uint32 4", "operation=uint32 8").replace(f"{FILL} 0", f"{FILL} {fill}")
    )
    feeds = {"x": -1 - np.random.default_rng(0).random((1, 4, 4, 2), np.float32)}
    before = run(graph, feeds)["y"]
    assert passes.find("fold_pad").apply(graph.main)
    np.testing.assert_array_equal(run(graph, feeds)["y"], before)


FIXED = """
graph g {
  input %x ufixed8[1,4,4,2] per_tensor(scale=0.5, offset=OFFSET)
  p = Pad(%x) {scheme=uint32 0, pad_amount=uint32[4,2] = [0, 0, 1, 1, 1, 1, 0, 0], FILL} -> \
%p_out ufixed8[1,6,6,2] per_tensor(scale=SCALE, offset=OFFSET)
  k = PoolAvg2d(%p_out) {filter_size=uint32[2] = [3, 3], stride=uint32[2] = [1, 1], \
pad_amount=uint32[2,2] = [0, 0, 0, 0], count_pad_for_edges=bool8 false} -> \
%y ufixed8[1,4,4,2] per_tensor(scale=0.5, offset=OFFSET)
  return %y
}
"""


@pytest.mark.parametrize(
    ("offset", "scale", "fill", "folds"),
    [
        (-100, 0.5, f"{FILL} 0", True),
        (-300, 0.5, f"{FILL} 0", False),
        (-100, 0.25, f"{FILL} 0", False),
        (-100, 0.5, "pad_constant_value=int32 0", False),
    ],
    ids=["zero", "no zero in the encoding", "two encodings", "a stored integer"],
)
def test_fixed_point_folds_where_the_border_is_zero(offset, scale, fill, folds):
    text = FIXED.replace("OFFSET", str(offset)).replace("SCALE", str(scale)).replace("FILL", fill)
    graph = parse(text).main
    feeds = {"x": np.random.default_rng(0).integers(0, 100, (1, 4, 4, 2)).astype(np.uint8)}
    before = run(graph, feeds, native=True)["y"]
    assert passes.find("fold_pad").apply(graph) == folds
    np.testing.assert_array_equal(run(graph, feeds, native=True)["y"], before)


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_a_border_of_zeros_is_no_maximum_of_what_a_clamp_keeps_above(low):
    clamp = f"operation=uint32 5, min_value=float32 {low}, max_value=float32 6"
    graph = parse(MAX.replace("operation=uint32 4", clamp)).main
    assert passes.find("fold_pad").apply(graph) == (low == 0)
