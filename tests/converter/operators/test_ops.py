"""Each ONNX operator in a DLC on disk, compared with onnxruntime on the source."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import xdlc
from tests.support.onnx_models import RNG, check, floats, node


def positive(*shape):
    return (np.abs(RNG.standard_normal(shape)) + 0.5).astype(np.float32)


UNARY = (
    "Abs Atan Ceil Cos Exp Floor Neg Round Sign Sin Relu Sigmoid Tanh Softplus Elu HardSigmoid HardSwish "
    "LeakyRelu Erf Identity"
).split()


@pytest.mark.parametrize("type", UNARY)
def test_unary(models, type):
    check(models, [node(type)], {"x": floats(2, 3, 4)}, native=type != "Erf")


@pytest.mark.parametrize("type", ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (5,), (3, 1, 1), (1,), ()])
def test_binary_with_a_constant(models, type, shape):
    check(models, [node(type, "x c")], {"x": positive(2, 3, 4, 5)}, {"c": positive(*shape)})


@pytest.mark.parametrize(("type", "neutral"), [("Max", -np.inf), ("Min", np.inf)])
@pytest.mark.parametrize(
    ("inputs", "value", "shape", "kept"),
    [
        ("c x", 1, (), 0),
        ("x c", 1, (3, 1), 0),
        ("c x x", 1, (3,), 0),  # equal inputs count once
        ("c x z", 1, (3,), 1),
        ("x c", 1, (2, 1, 1), 1),  # makes the result larger
        ("x c", -1, (), 1),
    ],
)
def test_only_an_infinity_that_changes_nothing_is_dropped(models, type, neutral, inputs, value, shape, kept):
    x = floats(3, 3)
    x[0] = np.nan, -np.inf, np.inf
    weights = {"c": np.full(shape, value * neutral, np.float32)}
    feeds = {"x": x} | ({"z": floats(3, 3)} if "z" in inputs else {})
    converted = check(models, [node(type, inputs, "m"), node("Abs", "m")], feeds, weights)
    assert [op.type for op in converted.main.ops][:-1] == ["ElementWiseBinary"] * kept


@pytest.mark.parametrize("type", ["Max", "Min"])
def test_an_infinity_in_part_stays(models, type):
    converted = check(models, [node(type, "x c")], {"x": floats(2, 2)}, {"c": np.float32([-np.inf, np.inf])})
    assert len(converted.main.ops) == 1


@pytest.mark.parametrize("shape", [(5,), (1,), ()])
def test_binary_with_a_constant_of_higher_rank(models, shape):
    check(models, [node("Mul", "c x")], {"x": floats(*shape)}, {"c": floats(1, 1, 5)})


@pytest.mark.parametrize(
    "type",
    "Acos Celu Cosh LeakyRelu Mean Mish ReduceLogSumExp Reciprocal Selu Shrink Softsign".split(),
)
def test_operand_of_rank_0(models, type):
    check(models, [node(type)], {"x": np.asarray(0.4, np.float32)}, opset=18)


@pytest.mark.parametrize("shape", [(2, 3), ()])
@pytest.mark.parametrize(
    ("type", "inputs", "attributes"),
    [
        ("ArgMax", "x", {"axis": 5}),
        ("Concat", "x x", {"axis": 5}),
        ("Gather", "x k", {"axis": 5}),
        ("GatherElements", "x x", {"axis": 5}),
        ("LogSoftmax", "x", {"axis": 5}),
        ("ReduceMax", "x axes", {}),
        ("ReduceSum", "x axes", {}),
        ("Slice", "x k axes axes", {}),
        ("CumSum", "x axes", {}),
    ],
)
def test_an_axis_beyond_the_rank_is_refused(models, type, inputs, attributes, shape):
    weights = {"k": np.asarray([1]), "axes": np.asarray([5])}
    made = models.make([node(type, inputs, **attributes)], {"x": shape}, {"y": None}, weights, opset=18)
    with pytest.raises(xdlc.XdlcError, match=rf"axis 5 does not fit rank {len(shape)}"):
        xdlc.convert(models.save(made))


@pytest.mark.parametrize("limits", [("low", "high"), ("low", ""), ("", "high"), ("", "")])
def test_clip(models, limits):
    weights = {"low": np.float32(-0.5), "high": np.float32(0.5)}
    names = " ".join(["x", *(limit or "-" for limit in limits)])
    check(models, [node("Clip", names)], {"x": floats(4, 5)}, weights)


def test_clip_of_old_opsets_and_of_integers(models):
    check(models, [node("Clip", min=-0.25, max=0.75)], {"x": floats(4, 5)}, opset=10)
    weights = {"low": np.int32(-2), "high": np.int32(3)}
    feeds = {"x": np.arange(-6, 6, dtype=np.int32)}
    check(models, [node("Clip", "x low high")], feeds, weights)


CONVOLUTIONS = [
    dict(x=(1, 3, 9, 8), w=(6, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]),
    dict(x=(2, 4, 9, 8), w=(4, 1, 3, 3), group=4, pads=[0, 1, 2, 1]),
    dict(x=(1, 4, 9, 8), w=(8, 1, 3, 3), group=4, auto_pad="SAME_UPPER", strides=[2, 2]),
    dict(x=(1, 4, 9, 8), w=(6, 2, 3, 2), group=2, auto_pad="SAME_LOWER", strides=[2, 1]),
    dict(x=(1, 3, 12, 11), w=(2, 3, 3, 3), dilations=[2, 3]),
    dict(x=(1, 3, 5, 5), w=(2, 3, 5, 5), auto_pad="VALID"),
    dict(x=(2, 3, 12), w=(5, 3, 4), pads=[1, 2], strides=[2]),
    dict(x=(1, 4, 12), w=(4, 1, 3), group=4),
    dict(x=(1, 2, 5, 6, 7), w=(3, 2, 2, 3, 2), pads=[0, 1, 0, 1, 0, 1]),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_conv(models, case, bias):
    attributes = {key: value for key, value in case.items() if key not in "xw"}
    weights = {"w": floats(*case["w"]), **({"b": floats(case["w"][0])} if bias else {})}
    check(models, [node("Conv", f"x w{' b' * bias}", **attributes)], {"x": floats(*case["x"])}, weights)


TRANSPOSED = [
    dict(x=(1, 3, 5, 4), w=(3, 4, 3, 3), strides=[2, 2], pads=[1, 0, 1, 2], output_padding=[1, 1]),
    dict(x=(1, 4, 5, 4), w=(4, 3, 2, 3), group=2, strides=[2, 3]),
    dict(x=(1, 3, 5, 4), w=(3, 4, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    dict(x=(1, 3, 5, 4), w=(3, 4, 3, 3), strides=[3, 2], output_shape=[14, 9]),
    dict(x=(1, 2, 6), w=(2, 3, 4), strides=[2], pads=[1, 1]),
    dict(x=(1, 3, 3, 3), w=(3, 2, 3, 3), strides=[3, 2], output_shape=[10, 8]),
]


@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv_transpose(models, case):
    attributes = {key: value for key, value in case.items() if key not in "xw"}
    channels = case["w"][1] * case.get("group", 1)
    weights = {"w": floats(*case["w"]), "b": floats(channels)}
    check(models, [node("ConvTranspose", "x w b", **attributes)], {"x": floats(*case["x"])}, weights)


POOLS = [
    dict(kernel_shape=[2, 2], strides=[2, 2]),
    dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    dict(kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1], ceil_mode=1),
    dict(kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    dict(kernel_shape=[2, 2]),
]


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("type", ["MaxPool", "AveragePool"])
def test_pool(models, type, case):
    check(models, [node(type, **case)], {"x": floats(2, 3, 9, 8)})


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3), (2, 3, 4)])
def test_batch_normalization(models, shape):
    weights = {"s": floats(3), "b": floats(3), "m": floats(3), "v": positive(3)}
    check(models, [node("BatchNormalization", "x s b m v")], {"x": floats(*shape)}, weights)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 1, 3, 4), (5, 4, 2)),
    ],
)
@pytest.mark.parametrize("static", [True, False])
def test_matmul(models, left, right, static):
    right_value = {"w": floats(*right)}
    feeds = {"x": floats(*left), **({} if static else right_value)}
    check(models, [node("MatMul", "x w")], feeds, right_value if static else None)


@pytest.mark.parametrize(
    "attributes", [{}, {"transB": 1}, {"transA": 1}, {"alpha": 0.5, "beta": 2.0, "transB": 1}]
)
@pytest.mark.parametrize("bias", [(5,), (1, 5), (3, 1), (1,), (), None])
@pytest.mark.parametrize("static", [True, False])
def test_gemm(models, attributes, bias, static):
    weight = {"w": floats(*((5, 4) if attributes.get("transB") else (4, 5)))}
    constants = {**(weight if static else {}), **({} if bias is None else {"b": floats(*bias)})}
    feeds = {"x": floats(*((4, 3) if attributes.get("transA") else (3, 4))), **({} if static else weight)}
    check(models, [node("Gemm", f"x w{' b' * (bias is not None)}", **attributes)], feeds, constants)


@pytest.mark.parametrize("shape", [[6, 4], [2, -1], [0, 12], [1, 2, 3, 4, 1], [-1]])
def test_reshape(models, shape):
    check(models, [node("Reshape", "x s")], {"x": floats(2, 3, 4)}, {"s": np.asarray(shape, np.int64)})


def test_views(models):
    check(models, [node("Flatten", axis=2)], {"x": floats(2, 3, 4)})
    check(models, [node("Squeeze", "x a")], {"x": floats(2, 1, 4, 1)}, {"a": np.asarray([1, -1])})
    check(models, [node("Squeeze")], {"x": floats(2, 1, 4, 1)})
    check(models, [node("Squeeze", axes=[1])], {"x": floats(2, 1, 4)}, opset=11)
    check(models, [node("Unsqueeze", "x a")], {"x": floats(2, 4)}, {"a": np.asarray([0, -1])})
    check(models, [node("Transpose", perm=[2, 0, 1])], {"x": floats(2, 3, 4)})
    check(models, [node("Transpose")], {"x": floats(2, 3, 4)})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_split(models, axis):
    check(
        models,
        [node("Concat", "a b c", axis=axis)],
        {"a": floats(2, 3), "b": floats(2, 3)},
        {"c": floats(2, 3)},
    )
    nodes = [node("Split", "x s", "p q", axis=axis)]
    check(models, nodes, {"x": floats(6, 6, 6)}, {"s": np.asarray([2, 4])}, outputs=("p", "q"))
    check(models, [node("Split", "x", "p q", axis=axis)], {"x": floats(4, 4, 4)}, outputs=("p", "q"))


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [0], [1]),
        ([0, -3], [100, -1], [1, 2], [2, 1]),
        ([-1], [-100], [2], [-1]),
        ([3], [0], [0], [-2]),
    ],
)
def test_slice(models, starts, ends, axes, steps):
    weights = {
        name: np.asarray(value) for name, value in zip("seap", (starts, ends, axes, steps), strict=True)
    }
    check(models, [node("Slice", "x s e a p")], {"x": floats(4, 5, 6)}, weights)


def test_slice_of_old_opsets(models):
    check(models, [node("Slice", starts=[1], ends=[3], axes=[1])], {"x": floats(4, 5)}, opset=9)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [np.asarray([2, 0, -1]), np.asarray(1), np.asarray([[0, 1], [1, 0]])])
def test_gather(models, axis, indices):
    check(models, [node("Gather", "x i", axis=axis)], {"x": floats(3, 4, 5)}, {"i": indices})


def test_gather_of_a_table(models):
    check(models, [node("Gather", "t i")], {"i": np.asarray([[1, 3, 2]])}, {"t": floats(5, 4)})
    check(
        models,
        [node("GatherElements", "x i", axis=1)],
        {"x": floats(2, 3)},
        {"i": np.asarray([[0, 2], [1, 1]])},
    )


def test_known_places_are_gathered_by_rows(models):
    x, mask = floats(2, 3, 4), np.asarray([[0, 1, 1], [1, 1, 0]])
    check(models, [node("GatherND", "x i")], {"x": x}, {"i": np.asarray([[0, 1], [1, -1]])})
    check(models, [node("GatherND", "x i", batch_dims=1)], {"x": x}, {"i": np.asarray([[[1]], [[-1]]])})
    places = np.stack(np.meshgrid([0, 1], 0, 0, [0, 1, 2], indexing="ij"), -1)[..., [0, 3]]  # as torch writes
    nodes = [node("Cast", "x", "seen", to=TensorProto.BOOL), node("GatherND", "seen i")]
    converted = check(models, nodes, {"x": mask}, {"i": places})
    assert not {"Gather", "GatherNd"} & {op.type for op in converted.main.ops}


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(models, mode):
    amounts = {"p": np.asarray([0, 0, 1, 2, 0, 0, 2, 1])}
    check(models, [node("Pad", "x p", mode=mode)], {"x": floats(1, 2, 5, 6)}, amounts)


def test_pad_with_a_value_and_by_negative_amounts(models):
    weights = {"p": np.asarray([-1, 2, 1, -2]), "v": np.float32(3.5)}
    check(models, [node("Pad", "x p v")], {"x": floats(5, 6)}, weights)
    check(models, [node("Pad", pads=[1, 0, 0, 1], value=2.0)], {"x": floats(3, 4)}, opset=10)


REDUCTIONS = [f"Reduce{name}" for name in "Mean Sum Max Min Prod L1 L2 SumSquare LogSumExp".split()]


@pytest.mark.parametrize("type", REDUCTIONS)
@pytest.mark.parametrize(("axes", "keep"), [([1], 1), ([0, 2], 0), ([-1], 0), (None, 0), (None, 1)])
def test_reduce(models, type, axes, keep):
    if type == "ReduceSum":
        weights = {"a": np.asarray(axes)} if axes else None
        check(models, [node(type, "x a" if axes else "x", keepdims=keep)], {"x": floats(2, 3, 4)}, weights)
    else:
        attributes = {"axes": axes} if axes else {}
        check(models, [node(type, keepdims=keep, **attributes)], {"x": floats(2, 3, 4)})


@pytest.mark.parametrize("type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("axis", "opset"), [(-1, 17), (1, 17), (0, 17), (1, 11), (2, 11)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1, 1), (3, 5, 1), (2, 2, 3)])
def test_softmax(models, type, axis, opset, shape):
    check(models, [node(type, axis=axis)], {"x": floats(*shape)}, opset=opset)


RESIZES = [
    (mode, transform, nearest, scale)
    for mode, nearest in (
        ("nearest", "floor"),
        ("nearest", "round_prefer_floor"),
        ("nearest", "ceil"),
        ("linear", "floor"),
    )
    for transform in ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")
    for scale in (2.0, 0.5, 1.5)
]


@pytest.mark.parametrize(("mode", "transform", "nearest", "scale"), RESIZES)
def test_resize(models, mode, transform, nearest, scale):
    attributes = {"coordinate_transformation_mode": transform, "mode": mode}
    if mode == "nearest":
        attributes["nearest_mode"] = nearest
    check(
        models,
        [node("Resize", "x - s", **attributes)],
        {"x": floats(1, 2, 6, 8)},
        {"s": np.asarray([1, 1, scale, scale], np.float32)},
    )


def test_resize_by_sizes_and_of_old_opsets(models):
    check(
        models,
        [node("Resize", "x - - s", mode="linear")],
        {"x": floats(1, 2, 6, 8)},
        {"s": np.asarray([1, 2, 11, 5])},
    )
    scales = {"s": np.asarray([1, 1, 2, 2], np.float32)}
    check(models, [node("Upsample", "x s", mode="nearest")], {"x": floats(1, 2, 3, 4)}, scales, opset=9)
    check(models, [node("Resize", "x s", mode="linear")], {"x": floats(1, 2, 3, 4)}, scales, opset=10)


def test_expand_and_tile(models):
    check(models, [node("Expand", "x s")], {"x": floats(3, 1)}, {"s": np.asarray([2, 1, 4])})
    check(models, [node("Tile", "x r")], {"x": floats(2, 3)}, {"r": np.asarray([2, 3])})


def test_attributes_that_are_not_understood_are_refused(models):
    model = models.make([node("Relu", surprise=3)], {"x": [2]}, {"y": None})
    with pytest.raises(xdlc.XdlcError, match="attribute surprise is not supported"):
        xdlc.convert(models.save(model))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(models, axis, largest):
    nodes = [node("TopK", "x k", "y i", axis=axis, largest=largest)]
    check(models, nodes, {"x": floats(4, 5, 6)}, {"k": np.asarray([3])}, outputs=("y", "i"))


def test_cumulative_sum(models):
    for attributes in ({}, {"exclusive": 1}, {"reverse": 1}):
        check(models, [node("CumSum", "x a", **attributes)], {"x": floats(3, 4)}, {"a": np.asarray(1)})


def test_scatter(models):
    updates = {"u": floats(2, 3), "i": np.asarray([[0, 2, 1], [1, 0, -1]])}
    check(models, [node("ScatterElements", "x i u", axis=0)], {"x": floats(3, 3)}, updates)
    places = {"i": np.asarray([[0, 1], [2, 0]]), "u": floats(2, 4)}
    check(models, [node("ScatterND", "x i u")], {"x": floats(3, 2, 4)}, places)
    one = {"x": floats(3), "u": np.asarray(2, np.float32)}
    check(models, [node("ScatterND", "x i u")], one, {"i": np.asarray([1])})


@pytest.mark.parametrize("type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("dim", "kernel", "stride"),
    [(1, 3, 1), (2, 3, 2), (3, 5, 4), (5, 3, 7), (2, 3, 1), (2, 5, 2), (3, 7, 1)],
)
def test_pool_of_one_result_has_no_padding(models, type, dim, kernel, stride):
    pads = [kernel // 2] * 4
    nodes = [node(type, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)]
    converted = check(models, nodes, {"x": floats(1, 2, dim, dim)})
    (pool,) = (op for op in converted.main.ops if op.type.startswith("Pool"))
    assert not pool.param("pad_amount").any()


def test_a_rule_for_no_axes_means_nothing_where_axes_are_given(models):
    weights = {"axes": np.array([1], np.int64)}
    summed = node("ReduceSum", "x axes", "y", noop_with_empty_axes=0)
    model = check(models, [summed], {"x": floats(2, 3, 4)}, weights)
    assert [op.package for op in model.main.ops] == ["qti.aisw"]
