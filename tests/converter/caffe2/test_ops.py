"""Caffe2's operators against numpy formulas; refusal of wrong arguments."""

import numpy as np
import pytest

import xdlc
from tests.converter.caffe2.operators import LAST, model_of, pooled, run, some, windows
from tests.support.formulas import normalized, sigmoid, softmax
from xdlc.errors import ModelError, UnsupportedOp


def convolved(x, weight, bias, stride=1, before=(0, 0), after=(0, 0), group=1):
    share = x.shape[1] // group
    count = weight.shape[0] // group
    parts = []
    for index in range(group):
        inner = x[:, index * share : (index + 1) * share]
        own = weight[index * count : (index + 1) * count]
        taken = dict(windows(inner, weight.shape[2:], stride, before, after, 0))
        rows, columns = (max(place[axis] for place in taken) + 1 for axis in (0, 1))
        sums = [np.einsum("ncij,mcij->nm", part, own) for part in taken.values()]
        parts.append(np.stack(sums, -1).reshape(len(x), count, rows, columns))
    return np.concatenate(parts, 1) + bias.reshape(1, -1, 1, 1)


X = some(2, 3, 4, 5)
POSITIVE = np.abs(X) + np.float32(0.1)
INSIDE = (X / 10).astype(np.float32)


UNARY = {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Cbrt": np.cbrt,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Cube": lambda x: x**3,
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "Floor": np.floor,
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "LeakyRelu": lambda x: np.where(x > 0, x, 0.01 * x),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "Negative": np.negative,
    "ReluN": lambda x: np.clip(x, 0, 6),
    "Scale": lambda x: x,
    "Selu": lambda x: 1.05070098 * np.where(x > 0, x, 1.67326324 * np.expm1(x)),
    "Sigmoid": sigmoid,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqr": np.square,
    "Swish": lambda x: x * sigmoid(x),
    "Tan": np.tan,
    "ThresholdedRelu": lambda x: np.where(x > 1, x, 0),
}


def test_unary_operators():
    types = list(UNARY)
    nodes = [(type, ["x"], [type], {}) for type in types]
    got = xdlc.run(model_of(nodes, {"x": X}, {}, types), {"x": X})
    for type, formula in UNARY.items():
        np.testing.assert_allclose(got[type], formula(X.astype(float)), rtol=1e-4, atol=1e-5, err_msg=type)


C = some(3)
W = some(6, 3, 3, 3)
B = some(6)
M = some(4, 5)
G = some(2, 4, 3, 5)
IDS = np.array([[2, 0], [1, 1]], np.int32)


def batch_norm(x, scale, bias, mean, variance):
    return (x - mean) / np.sqrt(variance + 0.01) * scale + bias


def lrn_scale(x, size=3):
    padded = np.pad(x**2, [(0, 0), (size // 2, size // 2), (0, 0), (0, 0)])
    return 2 + 0.3 / size * sum(padded[:, start : start + x.shape[1]] for start in range(size))


def nearest(x, height, width):
    rows = np.minimum((np.arange(int(x.shape[2] * height)) / height).astype(int), x.shape[2] - 1)
    columns = np.minimum((np.arange(int(x.shape[3] * width)) / width).astype(int), x.shape[3] - 1)
    return x[:, :, rows][..., columns]


def corner_aligned(n, m):
    place = np.arange(m) * ((n - 1) / (m - 1))
    first = np.minimum(place.astype(int), n - 2)
    table = np.zeros((m, n))
    table[np.arange(m), first] = 1 - (place - first)
    table[np.arange(m), first + 1] = place - first
    return table


def to_batch(x, block):
    n, c, h, w = x.shape
    apart = x.reshape(n, c, h // block, block, w // block, block)
    return apart.transpose(3, 5, 0, 1, 2, 4).reshape(-1, c, h // block, w // block)


CASES = {
    "conv pads of each side": (
        "Conv",
        [X, W, B],
        {"kernels": [3, 3], "stride": 2, "pad_t": 0, "pad_l": 1, "pad_b": 2, "pad_r": 1},
        lambda x, w, b: convolved(x, w, b, 2, (0, 1), (2, 1)),
    ),
    "conv SAME of an even kernel": (
        "Conv",
        [X, some(2, 3, 2, 2), B[:2]],
        {"kernel_h": 2, "kernel_w": 2, "legacy_pad": 2},
        lambda x, w, b: convolved(x, w, b, 1, (0, 0), (1, 1)),
    ),
    "conv SAME whose stride passes its kernel": (
        "Conv",
        [some(1, 3, 6, 6), some(2, 3, 1, 1), B[:2]],
        {"kernel": 1, "stride": 3, "legacy_pad": 2},
        lambda x, w, b: convolved(x[..., 1:, 1:], w, b, 3),
    ),
    "conv VALID NHWC of groups": (
        "Conv",
        [X.transpose(LAST), some(6, 3, 3, 1), B],
        {"kernel": 3, "legacy_pad": 1, "order": "NHWC", "group": 3},
        lambda x, w, b: convolved(x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2), b, group=3).transpose(
            LAST
        ),
    ),
    "conv transposed NHWC": (
        "ConvTranspose",
        [some(1, 1, 1, 2), some(2, 2, 3, 4), some(4)],
        {"kernels": [2, 3], "stride": 2, "adj_h": 1, "adj_w": 0, "order": "NHWC"},
        lambda x, w, b: np.pad(np.einsum("nijc,chwm->nhwm", x, w), [(0, 0), (0, 1), (0, 0), (0, 0)]) + b,
    ),
    "average pool": (
        "AveragePool",
        [X],
        {"kernel": 3, "stride": 2, "pad": 1},
        lambda x: pooled(x, np.nanmean, stride=2, before=(1, 1), after=(1, 1)),
    ),
    "average pool that counts its padding": (
        "AveragePool",
        [X],
        {"kernel": 3, "stride": 2, "pads": [1, 1, 1, 1], "count_include_pad": 1},
        lambda x: pooled(x, np.mean, stride=2, before=(1, 1), after=(1, 1), fill=0),
    ),
    "average pool of Caffe": (
        "AveragePool",
        [some(1, 2, 6, 7)],
        {"kernel": 2, "stride": 2, "pad": 1, "legacy_pad": 3},
        lambda x: pooled(x, np.nanmean, (2, 2), 2, (1, 1), (1, 0)),
    ),
    "max pool of Caffe NHWC": (
        "MaxPool",
        [some(1, 6, 7, 2)],
        {"kernel": 3, "stride": 2, "legacy_pad": 3, "order": "NHWC"},
        lambda x: pooled(x.transpose(0, 3, 1, 2), np.nanmax, stride=2, after=(1, 0)).transpose(LAST),
    ),
    "max pool SAME": (
        "MaxPool",
        [X],
        {"kernel": 2, "stride": 1, "legacy_pad": 2},
        lambda x: pooled(x, np.nanmax, (2, 2), after=(1, 1)),
    ),
    "max pool 1D": ("MaxPool1D", [M[None]], {"kernel": 5}, lambda x: x.max(2, keepdims=True)),
    "pool over all": (
        "AveragePool3D",
        [some(1, 2, 2, 3, 2)],
        {"global_pooling": 1},
        lambda x: x.mean((2, 3, 4), keepdims=True),
    ),
    "lp pool": (
        "LpPool",
        [X],
        {"kernel": 2, "stride": 2, "p": 3.0},
        lambda x: pooled(np.abs(x) ** 3, np.sum, (2, 2), 2) ** (1 / 3),
    ),
    "lp pool of no integer": (
        "LpPool",
        [X],
        {"kernel": 2, "p": 1.5},
        lambda x: pooled(np.abs(x) ** 1.5, np.sum, (2, 2)) ** (1 / 1.5),
    ),
    "fc from axis 2, weights from axis 2": (
        "FC",
        [X, some(2, 3, 4, 5), some(6)],
        {"axis": 2, "axis_w": 2},
        lambda x, w, b: np.einsum("ncij,opij->ncop", x, w).reshape(2, 3, 6) + b,
    ),
    "fc transposed": (
        "FCTransposed",
        [X, some(60, 4), some(4)],
        {},
        lambda x, w, b: x.reshape(2, 60) @ w + b,
    ),
    "matmul of views": (
        "MatMul",
        [some(2, 3, 4), some(4, 3, 2)],
        {"axis_a": 2, "axis_b": 1},
        lambda a, b: a.reshape(6, 4) @ b.reshape(4, 6),
    ),
    "batch matmul transposed": (
        "BatchMatMul",
        [some(2, 4, 3), some(2, 5, 4)],
        {"trans_a": 1, "trans_b": 1},
        lambda a, b: a.transpose(0, 2, 1) @ b.transpose(0, 2, 1),
    ),
    "batch matmul that broadcasts": (
        "BatchMatMul",
        [some(2, 3, 4), some(4, 5)],
        {"broadcast": 1},
        np.matmul,
    ),
    "add as numpy": ("Add", [X, some(4, 1)], {}, np.add),
    "sub from an axis": (
        "Sub",
        [X, C],
        {"broadcast": 1, "axis": 1},
        lambda x, y: x - y.reshape(3, 1, 1),
    ),
    "div with sizes of 1 around": (
        "Div",
        [X, POSITIVE[0, 0, 0].reshape(1, 5)],
        {"broadcast": 1},
        np.divide,
    ),
    "mul by the letter of an axis": (
        "Mul",
        [X, some(4)],
        {"broadcast": 1, "axis_str": "H", "order": "NCHW"},
        lambda x, y: x * y.reshape(4, 1),
    ),
    "mul by one element": ("Mul", [X, some(1)], {"broadcast": 1, "axis": 3}, np.multiply),
    "comparison": ("GE", [M, M[::-1].copy()], {}, np.greater_equal),
    "unequal": ("NE", [IDS, IDS.T.copy()], {}, np.not_equal),
    "bits of bool": ("BitwiseXor", [M > 0, M > 0.5], {}, np.logical_xor),
    "pow of two": ("Pow", [POSITIVE, C], {"broadcast": 1, "axis": 1}, lambda x, y: x ** y.reshape(3, 1, 1)),
    "weighted sum": ("WeightedSum", [X, C[:1], POSITIVE, C[1:2]], {}, lambda a, u, b, v: a * u + b * v),
    "mean": ("Mean", [X, POSITIVE, INSIDE], {}, lambda *values: np.mean(values, 0)),
    "clip": ("Clip", [X], {"min": -0.5, "max": 0.25}, lambda x: np.clip(x, -0.5, 0.25)),
    "logit": ("Logit", [sigmoid(X).astype(np.float32)], {}, lambda x: np.log(x / (1 - x))),
    "cast": ("Cast", [X * 3], {"to": 10}, lambda x: x.astype(np.int64)),
    "cast by name": ("Cast", [IDS], {"to": "FLOAT"}, lambda x: x.astype(np.float32)),
    "where rows": (
        "Where",
        [np.array([True, False, True, False]), M, M * 2],
        {"broadcast_on_rows": 1},
        lambda c, x, y: np.where(c[:, None], x, y),
    ),
    "fill like": ("ConstantFill", [IDS], {"value": 2.5}, lambda x: np.full(x.shape, 2.5)),
    "batch norm NHWC": (
        "SpatialBN",
        [X.transpose(LAST), C, C * 2, C + 1, np.abs(C)],
        {"is_test": 1, "order": "NHWC", "epsilon": 0.01},
        batch_norm,
    ),
    "instance norm": (
        "InstanceNorm",
        [G, some(4), some(4)],
        {"epsilon": 0.1},
        lambda x, s, b: normalized(x, (2, 3), 0.1) * s.reshape(4, 1, 1) + b.reshape(4, 1, 1),
    ),
    "group norm NHWC": (
        "GroupNorm",
        [G.transpose(LAST), some(4), some(4)],
        {"group": 2, "epsilon": 0.1, "order": "NHWC"},
        lambda x, s, b: normalized(x.reshape(2, 3, 5, 2, 2), (1, 2, 4), 0.1).reshape(x.shape) * s + b,
    ),
    "layer norm with weights": (
        "LayerNorm",
        [X, some(4, 5), some(4, 5)],
        {"axis": 2, "elementwise_affine": 1},
        lambda x, s, b: normalized(x, (2, 3), 1e-5) * s + b,
    ),
    "normalize": ("Normalize", [X], {"axis": 1}, lambda x: x / np.sqrt((x**2).sum(1, keepdims=True))),
    "normalize L1": ("NormalizeL1", [X], {}, lambda x: x / np.abs(x).sum(-1, keepdims=True)),
    "affine NHWC": ("AffineChannel", [X.transpose(LAST), C, C], {"order": "NHWC"}, lambda x, s, b: x * s + b),
    "prelu NHWC": (
        "PRelu",
        [X.transpose(LAST), C],
        {"order": "NHWC"},
        lambda x, s: np.where(x > 0, x, x * s),
    ),
    "softmax of all axes": ("Softmax", [X], {}, lambda x: softmax(x.reshape(2, 60), 1).reshape(x.shape)),
    "log softmax": ("LogSoftmax", [X], {"axis": 3}, lambda x: np.log(softmax(x, 3))),
    "concat NHWC": ("Concat", [X, X * 2], {"order": "NHWC"}, lambda a, b: np.concatenate([a, b], 3)),
    "slice beyond the end": ("Slice", [X], {"starts": [0, -3], "ends": [1, 9]}, lambda x: x[:1, 1:]),
    "slice by inputs": (
        "Slice",
        [X, np.array([0, 0, 1, 0]), np.array([-1, -1, 3, -2])],
        {},
        lambda x, *_: x[:, :, 1:3, :4],
    ),
    "reshape by an input": ("Reshape", [X, np.array([0, -1, 5])], {}, lambda x, _: x.reshape(2, 12, 5)),
    "flatten from axis 0": ("Flatten", [X], {"axis": 0}, lambda x: x.reshape(1, -1)),
    "flatten to a vector": ("FlattenToVec", [X], {}, lambda x: x.reshape(-1)),
    "expand dims": ("ExpandDims", [M], {"dims": [0, 3]}, lambda x: x[None, :, :, None]),
    "squeeze": ("Squeeze", [M[None, :, None]], {"dims": [0, 2]}, lambda x: x[0, :, 0]),
    "transpose without axes": ("Transpose", [X], {}, lambda x: x.T),
    "resize like": ("ResizeLike", [M, some(2, 10)], {}, lambda x, y: x.reshape(2, 10)),
    "shape": ("Shape", [X], {}, lambda x: np.array(x.shape)),
    "tile": ("Tile", [M], {"tiles": 2, "axis": 1}, lambda x: np.tile(x, (1, 2))),
    "numpy tile": ("NumpyTile", [M, np.array([2, 3])], {}, lambda x, n: np.tile(x, (2, 3))),
    "expand": ("Expand", [M, np.array([3, 1, 5])], {}, lambda x, n: np.broadcast_to(x, (3, 4, 5))),
    "glu": ("Glu", [G], {"dim": 1}, lambda x: x[:, :2] * sigmoid(x[:, 2:])),
    "gather": ("Gather", [X, IDS], {"axis": 1}, lambda x, i: x[:, i]),
    "batch gather": ("BatchGather", [X, IDS], {}, lambda x, i: x[:, i]),
    "one hot": ("OneHot", [IDS[0], np.array([4], np.int32)], {}, lambda i, n: np.eye(n[0])[i]),
    "resize by fractions": (
        "ResizeNearest",
        [X],
        {"height_scale": 1.7, "width_scale": 0.6},
        lambda x: nearest(x, 1.7, 0.6),
    ),
    "resize NHWC by an input": (
        "ResizeNearest",
        [X.transpose(LAST), np.array([2, 3], np.float32)],
        {"order": "NHWC"},
        lambda x, _: nearest(x.transpose(0, 3, 1, 2), 2, 3).transpose(LAST),
    ),
    "upsample nearest": ("UpsampleNearest", [X], {"scale": 3}, lambda x: nearest(x, 3, 3)),
    "upsample bilinear": (
        "UpsampleBilinear",
        [X],
        {"height_scale": 2.0, "width_scale": 1.5},
        lambda x: np.einsum("pi,qj,ncij->ncpq", corner_aligned(4, 8), corner_aligned(5, 7), x),
    ),
    "pad NHWC": (
        "PadImage",
        [X.transpose(LAST)],
        {"pads": [1, 0, 0, 2], "value": 1.5, "order": "NHWC"},
        lambda x: np.pad(x, [(0, 0), (1, 0), (0, 2), (0, 0)], constant_values=1.5),
    ),
    "pad that cuts": (
        "PadImage",
        [X],
        {"pads": [-1, 2, 1, 0], "mode": "reflect"},
        lambda x: np.pad(x[:, :, 1:], [(0, 0), (0, 0), (0, 1), (2, 0)], mode="reflect"),
    ),
    "channel shuffle": (
        "ChannelShuffle",
        [G],
        {"group": 2},
        lambda x: x.reshape(2, 2, 2, 3, 5).swapaxes(1, 2).reshape(x.shape),
    ),
    "space to batch": (
        "SpaceToBatch",
        [some(2, 3, 4, 6)],
        {"block_size": 2, "pad": 1},
        lambda x: to_batch(np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]), 2),
    ),
    "reduce min of all": ("ReduceMin", [X], {"axes": []}, lambda x: x.min(keepdims=True)),
    "reduce L2": ("ReduceL2", [X], {"axes": [-1, 0], "keepdims": 0}, lambda x: np.sqrt((x**2).sum((0, 3)))),
    "reduce front": ("ReduceFrontSum", [X], {"num_reduce_dim": 2}, lambda x: x.sum((0, 1))),
    "reduce back": ("ReduceBackMax", [X], {}, lambda x: x.max(3)),
    "arg min": ("ArgMin", [X], {"keepdims": 0}, lambda x: x.argmin(-1)),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    type, values, args, formula = CASES[name]
    known = [index for index, value in enumerate(values) if index and value.dtype != np.bool_]
    (got,) = run(type, values, args, constants=known if name not in ("sub from an axis", "mean") else ())
    want = np.asarray(formula(*(x.astype(float) if x.dtype == np.float32 else x for x in values)))
    assert got.shape == want.shape or (got.size == want.size == 1)
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-4, atol=1e-5)


def test_further_outputs():
    x = some(2, 5, 3, 3)
    got = run("LRN", [x], {"size": 3, "alpha": 0.3, "beta": 0.75, "bias": 2.0}, 2)
    np.testing.assert_allclose(got[1], lrn_scale(x), rtol=1e-5)
    np.testing.assert_allclose(got[0], x / lrn_scale(x) ** 0.75, rtol=1e-5)
    got = run("LayerNorm", [x], {"axis": 2, "epsilon": 0.1}, 3)
    np.testing.assert_allclose(got[1], x.mean((2, 3))[..., None], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[2], np.sqrt(x.var((2, 3)) + 0.1)[..., None], rtol=1e-4)
    got = run("Concat", [x, x[:, :2].copy()], {"axis": 1}, 2)
    np.testing.assert_array_equal(got[1], [5, 2])
    got = run("Concat", [M, M], {"axis": -1, "add_axis": 1}, 2)
    np.testing.assert_array_equal(got[0], np.stack([M, M], -1))
    got = run("Split", [M], {"axis": 1, "split": [1, 3, 1]}, 3)
    np.testing.assert_array_equal(got[1], M[:, 1:4])
    got = run("TopK", [M], {"k": 2, "axis": 0}, 3)
    order = np.argsort(-M, 0)[:2]
    np.testing.assert_array_equal(got[1], order)
    np.testing.assert_array_equal(got[2], (order * 5 + np.arange(5)).reshape(-1))
    got = run("Reshape", [M], {"shape": [20]}, 2)
    np.testing.assert_array_equal(got[1], [4, 5])
    back = run("BatchToSpace", [to_batch(x[:, :, :2, :2], 2)], {})
    np.testing.assert_array_equal(back[0], x[:, :, :2, :2])


WRONG = {
    "both kernels": ("Conv", [X, W, B], {"kernel": 3, "kernels": [3, 5]}),
    "kernel of other weights": ("Conv", [X, W, B], {"kernel": 5}),
    "channels": ("Conv", [X, some(6, 5, 3, 3), B], {"kernel": 3}),
    "bias": ("Conv", [X, W, C], {"kernel": 3}),
    "legacy_pad with pad": ("MaxPool", [X], {"kernel": 3, "pad": 1, "legacy_pad": 2}),
    "legacy_pad 4": ("MaxPool", [X], {"kernel": 3, "legacy_pad": 4}),
    "pad of a whole kernel": ("MaxPool", [X], {"kernel": 2, "pad": 2}),
    "half a kernel": ("MaxPool", [X], {"kernel_h": 2}),
    "one side": ("MaxPool", [X], {"kernel": 3, "pad_t": 1}),
    "a dilated pool": ("MaxPool", [X], {"kernel": 2, "dilation": 2}),
    "no kernel": ("MaxPool", [X], {}),
    "kernel 0": ("MaxPool", [X], {"kernel": 0}),
    "order": ("MaxPool", [X], {"kernel": 2, "order": "HWCN"}),
    "unknown argument": ("Relu", [X], {"slope": 1}),
    "three inputs": ("Relu", [X, X, X], {}),
    "batches": ("BatchMatMul", [M, X], {}),
    "columns": ("FC", [M, some(3, 4), C], {}),
    "axis without broadcast": ("Add", [X, C], {"axis": 1}),
    "shapes": ("Add", [X, C], {}),
    "shapes with broadcast": ("Add", [X, C], {"broadcast": 1}),
    "sums of two shapes": ("Sum", [X, M], {}),
    "training": ("SpatialBN", [X, C, C, C, C], {}),
    "reshape": ("Reshape", [X], {"shape": [7, -1]}),
    "huge reshape": ("Reshape", [X], {"shape": [1 << 40, -1]}),
    "split": ("Split", [X], {"axis": 1, "split": [1, 1]}),
    "empty slice": ("Slice", [X], {"starts": [1], "ends": [1]}),
    "squeeze": ("Squeeze", [X], {"dims": [0]}),
    "text for a number": ("Clip", [X], {"min": "low"}),
    "exchanged limits": ("Clip", [X], {"min": 1.0, "max": 0.0}),
    "cast to text": ("Cast", [X], {"to": 4}),
    "a net in a net": ("RecurrentNetwork", [X], {}),
    "training operator": ("ConvGradient", [X], {}),
    "optimizer": ("MomentumSGDUpdate", [X, X, X, C], {}),
    "count of boxes": ("BoxWithNMSLimit", [M, M], {}),
    "reflection": ("PadImage", [X], {"pad": 4, "mode": "reflect"}),
    "floats for Int8": ("Int8Relu", [X], {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_nodes_are_refused_with_their_name_and_a_fix(name):
    type, values, args = WRONG[name]
    with pytest.raises((ModelError, UnsupportedOp)) as caught:
        run(type, values, args)
    assert caught.value.fix
    assert f"operator 'y0' ({type})" in str(caught.value.where)


def test_arguments_without_effect_are_accepted_and_dropout_is_noticed():
    notices = []
    nodes = [
        ("Relu", ["x"], ["y"], {"ws_nbytes_limit": 5, "order": "NCHW", "use_cudnn": 1}),
        ("Dropout", ["y"], ["z"], {"ratio": 0.5}),
        ("CopyCPUToGPU", ["z"], ["c"], {}),
        ("Exp", ["c"], ["w"], {}),
    ]
    made = model_of(nodes, {"x": X}, {}, ["w"], notices)
    assert [op.type for op in made.main.ops] == ["ElementWiseNeuron", "ElementWiseUnary"]
    assert any("is_test" in notice for notice in notices)
