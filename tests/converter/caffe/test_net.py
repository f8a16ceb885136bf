"""Rules of Caffe nets: versions, phases, blobs in place, training layers."""

import h5py
import numpy as np
import pytest

from tests.converter.caffe.nets import caffemodel, data, double_blob, layer, old_blob
from xdlc.converter.caffe.net import source_graph
from xdlc.converter.caffe.weights_file import open_weights
from xdlc.converter.protobuf_text import parse_text
from xdlc.errors import ModelError, UsageError, XdlcError

KERNEL = np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1)
BIAS = np.array([1, 2, 3], np.float32)


def graph_of(text, weights=None, **options):
    notices = options.setdefault("notices", [])
    graph = source_graph(parse_text(text, "net"), "net", weights, **options)
    return graph, notices


def links(graph):
    return [(node.type, list(node.names), list(node.outputs)) for node in graph.nodes]


def inputs(graph):
    return {entry.name: entry.dims for entry in graph.inputs}


def stored(tmp_path, content):
    path = tmp_path / "net.caffemodel"
    path.write_bytes(content)
    return open_weights(path)


V1 = """
input: "data" input_dim: 1 input_dim: 2 input_dim: 4 input_dim: 4
layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" blobs_lr: 1 blobs_lr: 2 weight_decay: 0
  convolution_param { num_output: 3 kernel_size: 1 } }
layers { name: "r" type: 18 bottom: "c" top: "c" }
"""
V0 = """
input: "data" input_dim: 1 input_dim: 2 input_dim: 4 input_dim: 4
layers { layer { name: "p" type: "padding" pad: 1 } bottom: "data" top: "p" }
layers { layer { name: "c" type: "conv" num_output: 3 kernelsize: 1 biasterm: false blobs_lr: 1. }
  bottom: "p" top: "c" }
layers { layer { name: "r" type: "relu" } bottom: "c" top: "c" }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (V1, {"convolution_param.num_output": 3, "convolution_param.kernel_size": 1}),
        (
            V0,
            {
                "convolution_param.num_output": 3,
                "convolution_param.kernel_size": 1,
                "convolution_param.bias_term": "false",
                "convolution_param.pad": 1,
            },
        ),
    ],
)
def test_earlier_versions_become_the_current_one(text, expected):
    graph, _ = graph_of(text)
    assert links(graph) == [("Convolution", ["data"], ["c@c"]), ("ReLU", ["c@c"], ["c"])]
    assert graph.nodes[0].attributes == expected
    assert inputs(graph) == {"data": [1, 2, 4, 4]}


def test_padding_layers_have_no_other_reader():
    with pytest.raises(ModelError):
        graph_of(V0.replace('"conv"', '"innerproduct"'))


def test_blobs_written_in_place_are_values_of_their_own():
    text = data(1, 2, 4, 4) + "".join(
        layer("ReLU", bottom="data", top="data", name=f"r{n}") for n in range(2)
    )
    graph, notices = graph_of(text + layer("Power", name="end"))
    assert links(graph) == [
        ("ReLU", ["data"], ["data@r0"]),
        ("ReLU", ["data@r0"], ["data@r1"]),
        ("Power", ["data@r1"], ["y"]),
    ]
    assert (graph.outputs, notices) == (["y"], [])
    graph, notices = graph_of(text)
    assert graph.outputs == ["data@r1"]
    assert "data@r1" in notices[0]


@pytest.mark.parametrize(
    ("rule", "stays"),
    [
        ("", True),
        ("include { phase: TRAIN }", False),
        ("include { phase: 1 }", True),
        ("include { phase: TRAIN } include { phase: TEST }", True),
        ("exclude { phase: TEST }", False),
        ("exclude { phase: TRAIN }", True),
        ('include { stage: "deploy" }', False),
        ('include { not_stage: "deploy" }', True),
        ('exclude { stage: "deploy" }', True),
        ("include { min_level: 1 }", False),
        ("include { max_level: -1 }", False),
        ("include { min_level: -1 max_level: 0 }", True),
        ('include { stage: "of the net" }', True),
        ('include { stage: "of the net" stage: "deploy" }', False),
        ('include { not_stage: "of the net" }', False),
    ],
)
def test_rules_choose_the_layers_of_the_test_phase(rule, stays):
    text = 'state { stage: "of the net" phase: TRAIN level: 3 }' + data(1, 2)
    graph, _ = graph_of(text + layer("Power") + layer("ReLU", rule, top="z"))
    assert ("z" in graph.outputs) is stays


def test_inputs_of_every_form():
    two = 'layer { name: "d" type: "Input" top: "a" top: "b" input_param { shape { dim: 1 dim: 2 } } }\n'
    graph, _ = graph_of(two + layer("Eltwise", bottom="a b"))
    assert inputs(graph) == {"a": [1, 2], "b": [1, 2]}
    shapes = 'input: "a" input: "b" input_shape { dim: 3 } input_shape { dim: 4 dim: 5 }\n'
    graph, _ = graph_of(shapes + layer("Crop", bottom="a b"))
    assert inputs(graph) == {"a": [3], "b": [4, 5]}


def test_training_nets_lose_what_is_for_training():
    text = (
        'layer { name: "d" type: "Data" top: "data" top: "label" transform_param { scale: 0.1 } }\n'
        + layer("InnerProduct", "inner_product_param { num_output: 3 }", top="ip")
        + layer("SoftmaxWithLoss", "softmax_param { axis: 1 }", bottom="ip label", top="loss")
        + layer("Accuracy", bottom="ip label", top="accuracy")
    )
    with pytest.raises(ModelError) as refused:
        graph_of(text)
    assert "layer 'd' (Data, line 1)" in str(refused.value)
    graph, notices = graph_of(text, named=["data"])
    assert (inputs(graph), graph.outputs) == ({"data": None}, ["ip"])
    assert len(notices) == 3
    graph, _ = graph_of(text, ends=["loss"], named=["data"])
    assert links(graph)[1] == ("Softmax", ["ip"], ["loss"])
    assert graph.nodes[1].attributes == {"softmax_param.axis": 1}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (data(1, 2) + 'layer { name: "m" bottom: "data" top: "m" }', "layer 'm' (without a type, line 2)"),
        (data(1, 2) + layer("ReLU", bottom="dta", name="r"), "layer 'r' (ReLU, line 2)"),
        (data(1, 2) + layer("ReLU") + layer("ReLU", name="r"), "layer 'r' (ReLU, line 3)"),
        (data(1, 2) + layer("ReLU").replace('"ReLU"', "ReLU"), "layer 'y' (without a type, line 2)"),
        (data(1, 2) + 'layers { name: "r" type: RELU bottom: "data" top: "y" }', "line 2"),
        (data(1, 2) + layer("Split", top="data data", name="r"), "layer 'r' (Split, line 2)"),
        (data(1, 2) + layer("ReLU", name="r").replace('top: "y"', ""), "layer 'r' (ReLU, line 2)"),
        (data(1, 0) + layer("ReLU"), "layer 'data' (Input, line 1)"),
        (data(1, 2_000_000_000, 2_000_000_000) + layer("ReLU"), "layer 'data' (Input, line 1)"),
        (data(1, 2) + layer("ReLU", "include { } exclude { }", name="r"), "layer 'r'"),
        (data(1, 2) + layer("ReLU", 'type: "Two"', name="r"), "layer 'r'"),
        ('layers { name: "n" type: NONESUCH bottom: "data" top: "y" }', "'n', line 1"),
        ('input: "data" input_dim: 3\n' + layer("ReLU"), "net"),
        ('net: "train.prototxt" base_lr: 0.1', "net"),
        ('name: "empty"', "net"),
        (data(1, 2), "net"),
        (data(1, 2) + "nonsense: 3", "net"),
        ("layer: 3", "net"),
    ],
)
def test_nets_that_contradict_themselves_are_refused(text, place):
    with pytest.raises(XdlcError) as refused:
        graph_of(text)
    assert place in str(refused.value)


def test_a_shape_of_the_user_replaces_an_impossible_one():
    graph, _ = graph_of(data(1, 0) + layer("ReLU"), named=["data"])
    assert graph.outputs == ["y"]


@pytest.mark.parametrize(
    "content",
    [
        caffemodel({"c": [KERNEL, BIAS]}, 2),
        caffemodel({"c": [KERNEL, BIAS]}, 1),
        caffemodel({"c": [KERNEL, BIAS]}, 0),
        caffemodel({"other": [BIAS], "c": [KERNEL, BIAS]}, one=double_blob),
        caffemodel({"c": [KERNEL, BIAS]}, 1, old_blob),
    ],
)
def test_weights_of_every_version(tmp_path, content):
    kernel, bias = stored(tmp_path, content).blobs("c")
    np.testing.assert_array_equal(kernel.numpy(), KERNEL)
    np.testing.assert_array_equal(bias.numpy().reshape(-1), BIAS)
    assert stored(tmp_path, content).blobs("none") == []


def test_weights_of_hdf5(tmp_path):

    path = tmp_path / "net.caffemodel.h5"
    with h5py.File(path, "w") as file:
        file["data/block/c/0"], file["data/block/c/1"] = KERNEL, BIAS.astype(np.float64)
    kernel, bias = open_weights(path).blobs("block/c")
    np.testing.assert_array_equal(kernel.numpy(), KERNEL)
    assert bias.numpy().dtype == np.float32
    assert open_weights(path).blobs("c") == []


def test_two_layers_of_one_name_have_no_weights(tmp_path):
    text = data(1, 2, 4, 4) + layer("Convolution", name="c", top="a") + layer("Convolution", name="c")
    with pytest.raises(ModelError) as refused:
        graph_of(text, stored(tmp_path, caffemodel({"c": [KERNEL]})))
    assert "layer 'c' (Convolution, line 3)" in str(refused.value)
    graph, _ = graph_of(text, stored(tmp_path, caffemodel({"d": [KERNEL]})))
    assert len(graph.nodes) == 2


def test_weights_shared_by_name_are_those_of_the_last(tmp_path):
    shared = 'param { name: "w" } convolution_param { num_output: 3 }'
    text = data(1, 2, 4, 4) + layer("Convolution", shared, top="a") + layer("Convolution", shared, top="b")
    graph, _ = graph_of(text, stored(tmp_path, caffemodel({"a": [KERNEL, BIAS], "b": [KERNEL, BIAS]})))
    assert [list(node.names[1:]) for node in graph.nodes] == [["a.blob0", "a.blob1"], ["a.blob0", "b.blob1"]]
    graph, _ = graph_of(text, stored(tmp_path, caffemodel({"a": [KERNEL, BIAS], "b": [-KERNEL, BIAS]})))
    np.testing.assert_array_equal(graph.constants["a.blob0"].numpy(), -KERNEL)
    graph, _ = graph_of(text, stored(tmp_path, caffemodel({"a": [KERNEL]})))
    assert [list(node.names[1:]) for node in graph.nodes] == [["a.blob0"], ["a.blob0"]]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"layer { }", UsageError),
        (b"\x0a\x01t", ModelError),
        (caffemodel({"c": [KERNEL]})[:-1], ModelError),
        (b"\xa2\x06\xff\xff\xff\xff\xff\xff\xff\xff\x7f", ModelError),
        (b"\x89HDF\r\n\x1a\n", XdlcError),
        (b"", ModelError),
    ],
)
def test_files_without_weights_are_refused(tmp_path, content, error):
    with pytest.raises(error):
        stored(tmp_path, content)


@pytest.mark.parametrize(
    "one",
    [
        lambda array: b"\x3a\x04\x0a\x02\x63\x63" + b"\x2a\x04\0\0\0\0",  # 99 x 99 of one number
        lambda array: b"\x3a\x0b\x0a\x09" + b"\xff" * 8 + b"\x7f",
        lambda array: b"\x2a\x03\0\0\0",
        lambda array: b"\x32\x04\0\0\0\0",
        lambda array: b"\x3a\x02\x0a\x00",
        lambda array: b"\x38\x01",
    ],
)
def test_damaged_blobs_are_refused(tmp_path, one):
    with pytest.raises(ModelError):
        stored(tmp_path, caffemodel({"c": [KERNEL]}, one=one)).blobs("c")
