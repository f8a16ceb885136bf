"""A resized model equals its source converted with those dimensions."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.differences import differences
from tests.support.htp_models import add, cnn
from xdlc.errors import ConstraintError, ProblemList, UsageError
from xdlc.ir import Graph, Model, Tensor, static, u32
from xdlc.ir import dtype as dt
from xdlc.prepare.edit import edit
from xdlc.runtime.cpu import CpuSession

Shape = tuple[int, ...]
RNG = np.random.default_rng(5)
GLOBAL = "covered their whole input"


def node(kind: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs.split(), outputs.split(), outputs.split()[0], **attrs)


def weight(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


Part = tuple[list[Any], dict[str, Any]]


def classifier() -> Part:
    """Convolutions, a depthwise one, a pool, a global pool and a matrix."""
    nodes = [
        node("Conv", "x w1", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "a", "b"),
        node("MaxPool", "b", "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", "c w2", "d", pads=[1, 1, 1, 1], group=8),
        node("GlobalAveragePool", "d", "e"),
        node("Flatten", "e", "f"),
        node("Gemm", "f w3", "y", transB=1),
    ]
    return nodes, {"w1": weight(8, 3, 3, 3), "w2": weight(8, 1, 3, 3), "w3": weight(5, 8)}


def pyramid() -> Part:
    """Return resizes by a factor and to the size of a tensor, summed up."""
    nodes = [
        node("Conv", "x w1", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Conv", "a w2", "b", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Resize", "b  scales", "c", mode="nearest", coordinate_transformation_mode="asymmetric"),
        node("Concat", "a c", "d", axis=1),
        node("ConvTranspose", "d w3", "y", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    ]
    nodes[2].input[:] = ["b", "", "scales"]
    return nodes, {
        "w1": weight(4, 3, 3, 3),
        "w2": weight(6, 4, 3, 3),
        "w3": weight(10, 2, 3, 3),
        "scales": np.array([1, 1, 2, 2], "float32"),
    }


def detector() -> Part:
    """Slices of a focus layer, a head of anchors, elements in a row, a softmax."""
    nodes = [
        node("Slice", "x s0 e axes steps", "p"),
        node("Slice", "x s1 e axes steps", "q"),
        node("Concat", "p q", "r", axis=1),
        node("Conv", "r w1", "a"),
        node("Reshape", "a anchors", "b"),
        node("Transpose", "b", "c", perm=[0, 1, 3, 2]),
        node("Softmax", "c", "d", axis=-1),
        node("ReduceMax", "d", "y", axes=[3], keepdims=0),
    ]
    return nodes, {
        "s0": ints(0, 0),
        "s1": ints(1, 1),
        "e": ints(2**31, 2**31),
        "axes": ints(2, 3),
        "steps": ints(2, 2),
        "w1": weight(10, 6, 1, 1),
        "anchors": ints(0, 2, 5, -1),
    }


def attention() -> Part:
    """Tokens of an image attending to each other."""
    nodes = [
        node("Conv", "x w1", "a", strides=[4, 4]),
        node("Flatten", "a", "unused", axis=1),
        node("Reshape", "a rows", "t"),
        node("Transpose", "t", "u", perm=[0, 2, 1]),
        node("MatMul", "u w2", "q"),
        node("MatMul", "q t", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p u", "v"),
        node("LayerNormalization", "v g", "y", axis=-1),
    ]
    del nodes[1]
    rows = {"rows": ints(0, 8, -1)}
    return nodes, {"w1": weight(8, 3, 4, 4), "w2": weight(8, 8), "g": weight(8), **rows}


@pytest.mark.parametrize(
    ("part", "new", "warned"),
    [
        (classifier, (4, 3, 32, 32), False),
        (classifier, (1, 3, 48, 64), True),
        (classifier, (2, 3, 24, 24), True),
        (pyramid, (3, 3, 32, 32), False),
        (pyramid, (1, 3, 64, 40), False),
        (detector, (2, 3, 32, 32), False),
        (detector, (1, 3, 48, 20), False),
        (attention, (2, 3, 32, 32), False),
        (attention, (1, 3, 48, 16), False),
    ],
)
def test_it_is_the_model_converted_with_these_dimensions(
    models: Any, part: Callable[[], Part], new: Shape, warned: bool
) -> None:
    nodes, weights = part()
    path = models.save(models.make(nodes, {"x": ["n", 3, "h", "w"]}, {"y": None}, weights))
    base = xdlc.convert(path, input_dims={"x": (1, 3, 32, 32)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = edit(base, input_dimensions={"x": new})
    assert [GLOBAL in str(warning.message) for warning in caught] == [True] * warned
    wanted = xdlc.convert(path, input_dims={"x": new})
    assert differences(found.main, wanted.main, ["origins", "reasons"]) == []
    assert base.main.inputs[0].shape == (1, 3, 32, 32)


def test_items_of_a_batch_are_computed_as_before() -> None:
    model = cnn(quantized=True)
    batched = edit(model, input_dimensions={"x": (3, 8, 8, 4)})
    assert [tensor.encoding for tensor in batched.main.tensors.values()] == [
        tensor.encoding for tensor in model.main.tensors.values()
    ]
    x = RNG.uniform(-1, 1, (3, 8, 8, 4)).astype("float32")
    single = [CpuSession(model).run({"x": x[item : item + 1]})["y"] for item in range(3)]
    np.testing.assert_array_equal(CpuSession(batched).run({"x": x})["y"], np.concatenate(single))


def test_features_that_weights_do_not_take_are_refused() -> None:
    with pytest.raises(ConstraintError) as caught:
        edit(cnn(quantized=True), input_dimensions={"x": (1, 12, 12, 4)})
    said = str(caught.value)
    assert (
        "op 'fullyconnected_y' (FullyConnected): the op needs 128 elements in each row, but would get 288"
        in said
    )
    assert "fix: convert the source model again" in said
    with pytest.raises(ConstraintError, match="its weights need 4 channels, not 3"):
        edit(cnn(quantized=True), input_dimensions={"x": (1, 8, 8, 3)})


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ({"z": (1, 8, 8, 4)}, "names 'z', which is not an input\n  fix: use one of x"),
        ({"x": (8, 8, 4)}, "3 dimensions for 'x', but the input has 4"),
        ({"x": (1, 0, 8, 4)}, "the shape [1, 0, 8, 4]"),
        ({"x": (1, 2**32, 8, 4)}, "dimensions from 1 to"),
        ({"x": "1,8,8,4"}, "whole numbers"),
    ],
)
def test_wrong_dimensions_are_named(dims: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        edit(cnn(quantized=False), input_dimensions=dims)
    assert said in str(caught.value)


def test_the_same_dimensions_change_nothing() -> None:
    model = cnn(quantized=True)
    with pytest.warns(UserWarning, match="x of graph 'cnn' already has these dimensions"):
        edited = edit(model, input_dimensions={"x": (1, 8, 8, 4)})
    assert differences(edited.main, model.main) == []


def one_op(kind: str, shapes: list[Shape], out: list[Shape], **params: Any) -> Model:
    """Return a graph of one op; the first input is ``x``, the others are constants."""
    graph = Graph("g")
    inputs: list[Tensor | None] = [graph.add_input(Tensor("x", shapes[0], dt.FLOAT32))]
    inputs += [static(f"c{number}", np.ones(shape, "float32")) for number, shape in enumerate(shapes[1:])]
    outputs = [Tensor(f"y{number}", shape, dt.FLOAT32) for number, shape in enumerate(out)]
    add(graph, kind, inputs, outputs[0], **params)
    for tensor in outputs[1:]:
        graph.last._outputs.append(graph.add_tensor(tensor))
        tensor.producer = graph.last
    for tensor in outputs:
        graph.add_output(tensor)
    return Model({"g": graph})


def numbers(*values: Any, dtype: str = "uint32") -> Tensor:
    return static("", np.array(values, dtype))


@pytest.mark.parametrize(
    ("kind", "shapes", "out", "params", "new", "expected"),
    [
        ("Concat", [(1, 4, 2), (1, 1, 2)], [(1, 5, 2)], {"axis": u32(1)}, (3, 4, 2), [(3, 5, 2)]),
        ("Pack", [(1, 4), (1, 4)], [(2, 1, 4)], {"axis": u32(0)}, (3, 4), [(2, 3, 4)]),
        (
            "Split",
            [(1, 8)],
            [(1, 4), (1, 4)],
            {"axis": u32(1), "split_index": numbers(4)},
            (1, 12),
            [(1, 6)] * 2,
        ),
        ("Tile", [(1, 3)], [(2, 6)], {"multiples": numbers(2, 2)}, (5, 4), [(10, 8)]),
        ("Argmax", [(1, 3, 4)], [(1, 4)], {"axis": u32(1)}, (1, 7, 9), [(1, 9)]),
        ("TopK", [(1, 8)], [(1, 3), (1, 3)], {"k": u32(3)}, (2, 12), [(2, 3), (2, 3)]),
        (
            "SpaceToDepth",
            [(1, 4, 4, 2)],
            [(1, 2, 2, 8)],
            {"block_size": numbers(2, 2)},
            (1, 6, 8, 2),
            [(1, 3, 4, 8)],
        ),
        (
            "DepthToSpace",
            [(1, 4, 4, 8)],
            [(1, 8, 8, 2)],
            {"block_size": numbers(2, 2)},
            (2, 5, 4, 8),
            [(2, 10, 8, 2)],
        ),
        (
            "StridedSlice",
            [(1, 8, 6)],
            [(1, 4, 6)],
            {"ranges": numbers([0, 1, 1], [1, 8, 2], [5, -1, -1], dtype="int32")},
            (1, 12, 7),
            [(1, 6, 7)],
        ),
        ("Gather", [(1, 4, 3)], [(1, 1, 3)], {"axis": u32(1)}, (2, 6, 3), [(2, 1, 3)]),
        ("UnPack", [(2, 3)], [(3,), (3,)], {"axis": u32(0)}, (2, 5), [(5,), (5,)]),
    ],
)
def test_rules(
    kind: str,
    shapes: list[Shape],
    out: list[Shape],
    params: dict[str, Any],
    new: Shape,
    expected: list[Shape],
) -> None:
    model = one_op(kind, shapes, out, **params)
    if kind == "Gather":
        first = static("first", np.zeros(1, "int32"))
        model.main.set_inputs(model.main.last, [model.main.inputs[0], first])
    found = edit(model, input_dimensions={"x": new}).main
    assert [tensor.shape for tensor in found.outputs] == expected
    results = CpuSession(found).run({"x": np.zeros(new, "float32")})
    assert [results[tensor.name].shape for tensor in found.outputs] == expected


@pytest.mark.parametrize(
    ("kind", "shapes", "out", "params", "new", "said"),
    [
        (
            "ElementWiseBinary",
            [(1, 4, 2), (4, 2)],
            [(1, 4, 2)],
            {"operation": u32(0)},
            (1, 6, 2),
            "constant 'c0' belongs",
        ),
        ("Prelu", [(1, 4, 2), (4, 1)], [(1, 4, 2)], {}, (1, 6, 2), "constant 'c0' belongs to the old"),
        ("Concat", [(1, 4, 2), (1, 4, 2)], [(1, 4, 4)], {"axis": u32(2)}, (1, 6, 2), "do not fit together"),
        (
            "Split",
            [(1, 8)],
            [(1, 2), (1, 6)],
            {"axis": u32(1), "split_index": numbers(2)},
            (1, 12),
            "is unknown",
        ),
        (
            "Split",
            [(1, 8)],
            [(1, 4), (1, 4)],
            {"axis": u32(1), "split_index": numbers(4)},
            (1, 9),
            "is unknown",
        ),
        ("TopK", [(1, 8)], [(1, 8), (1, 8)], {"k": u32(8)}, (1, 12), "may mean all or this number"),
        ("TopK", [(1, 8)], [(1, 5), (1, 5)], {"k": u32(5)}, (1, 4), "it selects 5 of only 4 elements"),
        (
            "StridedSlice",
            [(1, 8)],
            [(1, 4)],
            {"ranges": numbers([0, 1, 1], [0, 4, 1], dtype="int32")},
            (1, 12),
            "it selects 0:4:1 of an axis of 8, now 12, may count from either end",
        ),
        (
            "Resize",
            [(1, 4, 4, 2)],
            [(1, 6, 6, 2)],
            {},
            (1, 5, 5, 2),
            "it resizes 4 to 6, so 5 may become nothing whole",
        ),
        (
            "SpaceToDepth",
            [(1, 4, 4, 2)],
            [(1, 2, 2, 8)],
            {"block_size": numbers(2, 2)},
            (1, 5, 4, 2),
            "do not divide 5x4",
        ),
        ("UnPack", [(2, 3)], [(3,), (3,)], {"axis": u32(0)}, (3, 3), "3 parts need as many outputs"),
        ("DetectionOutput", [(1, 2, 3)], [(1, 9)], {}, (2, 2, 3), "which has no rule for its results"),
    ],
)
def test_what_is_open_is_refused_with_the_op(
    kind: str, shapes: list[Shape], out: list[Shape], params: dict[str, Any], new: Shape, said: str
) -> None:
    with pytest.raises(ConstraintError) as caught:
        edit(one_op(kind, shapes, out, **params), input_dimensions={"x": new})
    assert said in caught.value.problem
    assert f"({kind})" in caught.value.where
    assert caught.value.fix.startswith("convert the source model again")


def test_an_op_of_the_host_is_refused_with_the_reason_for_it(models: Any) -> None:
    path = models.save(
        models.make([node("MatMul", "x w", "y")], {"x": ["n", 4]}, {"y": None}, {"w": weight(4, 2)})
    )
    with pytest.raises(
        ConstraintError, match=r"'x' \[3, 4\] reaches the op.*; it runs on the host only: .*open"
    ):
        edit(xdlc.convert(path), input_dimensions={"x": (3, 4)})


def pooled(kind: str, stride: int, *, flat: bool) -> Model:
    """Return a pool of 4x4 over a 4x4 image, maybe with a matrix after it."""
    graph = Graph("g")
    tensor: Tensor = graph.add_input(Tensor("x", (1, 4, 4, 2), dt.FLOAT32))
    sizes = {
        "filter_size": numbers(4, 4),
        "stride": numbers(stride, stride),
        "pad_amount": numbers([0, 0], [0, 0]),
    }
    tensor = add(graph, kind, [tensor], Tensor("p", (1, 1, 1, 2), dt.FLOAT32), **sizes)
    if flat:
        tensor = add(graph, "Reshape", [tensor], Tensor("f", (1, 2), dt.FLOAT32))
        matrix = static("m", np.ones((3, 2), "float32"))
        tensor = add(graph, "FullyConnected", [tensor, matrix], Tensor("y", (1, 3), dt.FLOAT32))
    graph.add_output(tensor)
    return Model({"g": graph})


@pytest.mark.parametrize("kind", ["PoolAvg2d", "PoolMax2d"])
def test_a_pool_is_global_where_nothing_else_goes_with_what_follows(kind: str) -> None:
    for stride in (1, 4):
        with pytest.warns(UserWarning, match="p covered their whole input, and become global"):
            found = edit(pooled(kind, stride, flat=True), input_dimensions={"x": (1, 9, 10, 2)}).main
        assert found.outputs[0].shape == (1, 3)
        assert found.tensors["p"].producer.param("filter_size").tolist() == [9, 10]


def test_a_pool_that_both_go_with_must_look_global() -> None:
    with pytest.warns(UserWarning, match="become global pools$"):
        edited = edit(pooled("PoolAvg2d", 4, flat=False), input_dimensions={"x": (1, 9, 9, 2)})
    assert edited.main.outputs[0].shape == (1, 1, 1, 2)
    for kind, stride in (("PoolAvg2d", 1), ("PoolMax2d", 4)):
        with pytest.raises(ConstraintError, match="both fit the new"):
            edit(pooled(kind, stride, flat=False), input_dimensions={"x": (1, 9, 9, 2)})


def test_a_factor_that_nothing_confirms_is_taken_with_a_warning() -> None:
    model = one_op("Resize", [(1, 4, 4, 2)], [(1, 6, 6, 2)])
    with pytest.warns(UserWarning, match=r"keeps its factors: \[1, 8, 10, 2\] to \[1, 12, 15, 2\]"):
        edited = edit(model, input_dimensions={"x": (1, 8, 10, 2)})
    assert edited.main.outputs[0].shape == (1, 12, 15, 2)


def test_one_pixel_spread_over_an_image_follows_the_image() -> None:
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 8, 8, 2), dt.FLOAT32))
    mean = Tensor("mean", (1, 1, 1, 2), dt.FLOAT32)
    add(graph, "ReduceMean", [x], mean, axes=numbers(1, 2), keep_dims=static("", np.array(True)))
    wide = add(graph, "ResizeBilinear", [mean], Tensor("wide", (1, 8, 8, 2), dt.FLOAT32))
    graph.add_output(add(graph, "Concat", [x, wide], Tensor("y", (1, 8, 8, 4), dt.FLOAT32), axis=u32(3)))
    found = edit(Model({"g": graph}), input_dimensions={"x": (1, 12, 10, 2)})
    assert found.main.outputs[0].shape == (1, 12, 10, 4)


def test_padding_that_may_follow_the_extent_is_refused_where_it_would_differ() -> None:
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 8, 8, 1), dt.FLOAT32))
    kernel = static("w", np.ones((3, 3, 1, 1), "float32"))
    sizes = {"stride": numbers(2, 2), "pad_amount": numbers([0, 1], [0, 1])}
    graph.add_output(add(graph, "Conv2d", [x, kernel], Tensor("y", (1, 4, 4, 1), dt.FLOAT32), **sizes))
    model = Model({"g": graph})
    assert edit(model, input_dimensions={"x": (1, 10, 12, 1)}).main.outputs[0].shape == (1, 5, 6, 1)
    with pytest.raises(ConstraintError, match=r"padding \[0, 1\] for the dimension 8 may be fixed or follow"):
        edit(model, input_dimensions={"x": (1, 9, 8, 1)})


def test_all_ops_that_do_not_fit_are_reported_at_once() -> None:
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 4), dt.FLOAT32))
    for number in range(2):
        held = static(f"c{number}", np.ones(4, "float32"))
        made = Tensor(f"y{number}", (1, 4), dt.FLOAT32)
        graph.add_output(add(graph, "ElementWiseBinary", [x, held], made, operation=u32(0)))
    with pytest.raises(ProblemList) as caught:
        edit(Model({"g": graph}), input_dimensions={"x": (1, 6)})
    assert [problem.node for problem in caught.value.problems] == [
        "elementwisebinary_y0",
        "elementwisebinary_y1",
    ]


@pytest.mark.parametrize(
    ("kind", "shapes", "out", "params"),
    [
        ("SpaceToDepth", [(1, 8)], [(1, 8)], {"block_size": numbers(2, 2)}),
        ("PoolAvg2d", [(1, 8)], [(1, 8)], {"filter_size": numbers(2), "stride": numbers(0)}),
        ("StridedSlice", [(1, 8)], [(1, 8)], {"ranges": numbers(0, 1, 1, dtype="int32")}),
        ("MatMul", [(1, 8)], [(1, 8)], {}),
        ("Concat", [(1, 8)], [(1, 8)], {"axis": u32(7)}),
        ("Gather", [(1, 8)], [(1, 8)], {"axis": u32(1)}),
        ("Gru", [(1, 8)], [(1, 8)], {}),
        ("Lstm", [(1, 8)], [(1, 8)], {}),
        ("Conv2d", [(1, 8), (2, 2)], [(1, 8)], {"stride": numbers(1, 1)}),
        ("Transpose", [(1, 8)], [(1, 8)], {"perm": numbers(0, 5)}),
    ],
)
def test_malformed_ops_are_refused_too(
    kind: str, shapes: list[Shape], out: list[Shape], params: dict[str, Any]
) -> None:
    with pytest.raises(ConstraintError) as caught:
        edit(one_op(kind, shapes, out, **params), input_dimensions={"x": (1, 12)})
    assert f"({kind})" in caught.value.where


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "base", "new"),
    [
        ("yolox_nano/yolox_nano.onnx", None, (1, 3, 320, 480)),
        ("mobilenet_v2_quant_nnstreamer/mobilenet_v2_quant.onnx", None, (1, 3, 256, 320)),
        ("light_squeezenet/light_squeezenet.onnx", None, (4, 3, 224, 224)),
        ("light_squeezenet/light_squeezenet.onnx", None, (1, 3, 256, 256)),
        ("ultraface_rfb320/version-RFB-320.onnx", None, (2, 3, 240, 320)),
        ("ppocrv3_det/ch_PP-OCRv3_det_infer.onnx", (1, 3, 320, 320), (1, 3, 640, 480)),
        ("ppocr_cls_v2/ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192), (4, 3, 64, 256)),
        ("mtcnn_pnet/pnet.onnx", (1, 48, 48, 3), (2, 96, 64, 3)),
        ("mlperf_kws/model.onnx", None, (4, 49, 10, 1)),
        ("magika_v3_3/model.onnx", (1, 2048), (4, 2048)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*covered their whole input")
def test_real_models_become_what_conversion_gives(
    corpus: Path, name: str, base: Shape | None, new: Shape
) -> None:
    import onnx

    path = corpus / "onnx" / name
    held = onnx.load(path).graph
    known = {tensor.name for tensor in held.initializer}
    (source,) = (entry.name for entry in held.input if entry.name not in known)
    model = xdlc.convert(path, input_dims=None if base is None else {source: base})
    found = edit(model, input_dimensions={source: new})
    wanted = xdlc.convert(path, input_dims={source: new})
    assert differences(found.main, wanted.main, ["origins", "reasons"]) == []
