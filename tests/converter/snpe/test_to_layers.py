"""QNN operations as layers of SNPE 1, written, read, translated back and run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.custom_ops import custom, place
from tests.section_models import Net, feeds_of, residual, window
from xdlc import api
from xdlc.container import udo
from xdlc.container.aip_record import OWN_FLAVOUR, Engine, parse_aip
from xdlc.converter.snpe import foreign, to_layers, translate
from xdlc.converter.snpe.inverse import _TABLE
from xdlc.errors import ConstraintError, ProblemList, UnsupportedOp
from xdlc.ir import (
    AxisScaleOffset,
    Graph,
    Model,
    ScaleOffset,
    Tensor,
    b8,
    f32,
    i32,
    make_op,
    static,
    string,
    u32,
    u32s,
)
from xdlc.ir.data import raw_data
from xdlc.ir.dtype import BFLOAT16, FLOAT32, INT32, INT64, SFIXED8, SFIXED32, UFIXED8
from xdlc.ir.equality import differences
from xdlc.opdefs import Collection
from xdlc.opdefs.source_match import Kernel
from xdlc.prepare.hta import prepare
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.sections import SectionSession

RELU, RELU_MIN_MAX, SIGMOID = 4, 5, 6


def written(model: Model, folder: Path) -> Model:
    """Return what a file of format 3 gives back of a model."""
    api.save(model, folder / "a.dlc", "3")
    return xdlc.load(folder / "a.dlc")


def assert_same(a: Model, b: Model) -> None:
    feeds = feeds_of(a)
    expected, found = (CpuSession(model, threads=1).run(feeds, native=True) for model in (a, b))
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def _argmax(net: Net, x: Tensor) -> Tensor:
    positions = Tensor("positions", x.shape[:-1], INT32)
    net.graph.append(make_op(net.graph, "Argmax", [x], [positions], {"axis": u32(3)}, name="argmax"))
    return net.op("Cast", [positions], x.shape[:-1])


def _ranges(*rows: tuple[int, int, int]) -> Any:
    return static("", np.array(rows, np.int32))


def _split(net: Net, x: Tensor) -> Tensor:
    outs = [Tensor(f"part{width}", (*x.shape[:-1], width), FLOAT32) for width in (1, 3)]
    params = {"axis": u32(3), "split_index": u32s([1])}
    net.graph.append(make_op(net.graph, "Split", [x], outs, params, name="split"))
    return net.concat(outs[1], outs[0])


def _deconv(net: Net, x: Tensor) -> Tensor:
    params = {**window([2, 2], [[1, 0], [0, 1]]), "output_padding": u32s([1, 0])}
    shape = (1, 2 * x.shape[1] + 1, 2 * x.shape[2], 3)
    return net.op("TransposeConv2d", [x, net.weights(3, 3, x.shape[3], 3), net.weights(3)], shape, **params)


def _resize(net: Net, x: Tensor) -> Tensor:
    return net.op("ResizeBilinear", [x], (1, 11, 9, x.shape[3]), align_corners=b8(True))


def _pool(net: Net, x: Tensor, type: str) -> Tensor:
    params = {**window([2, 2], [[1, 0], [0, 1]]), "filter_size": u32s([3, 2])}
    if type == "PoolAvg2d":
        params["count_pad_for_edges"] = b8(True)
    return net.op(type, [x], (1, 4, 4, x.shape[3]), **params)


def _slice(net: Net, x: Tensor) -> Tensor:
    ranges = _ranges((0, 1, 1), (1, 6, 2), (0, 8, 1), (0, 3, 1))
    return net.op("StridedSlice", [x], (1, 3, 8, 3), ranges=ranges)


def _clamped(net: Net, x: Tensor) -> Tensor:
    bounds = {"min_value": f32(-0.5), "max_value": f32(1.5)}
    return net.op("ElementWiseNeuron", [x], x.shape, operation=u32(RELU_MIN_MAX), **bounds)


def _group(net: Net, x: Tensor) -> Tensor:
    weights = [net.weights(1, 3, 2, 6), net.weights(6)]
    params = {**window([1, 1], [[0, 0], [1, 1]]), "group": u32(2), "dilation": u32s([1, 1])}
    return net.op("Conv2d", [x, *weights], (*x.shape[:3], 6), **params)


def _absolute(net: Net, x: Tensor) -> Tensor:
    return net.op("ElementWiseUnary", [x], x.shape, operation=u32(0))


Build = Callable[[Net, Tensor], Tensor]
# What is built on an image of 8 x 8 and 4 channels, and the layers that it becomes.
LAYERS: dict[str, tuple[Build, list[str]]] = {
    "convolution": (lambda net, x: net.conv(x, 5, taps=3, stride=2), ["Convolutional"]),
    "groups": (_group, ["Convolutional"]),
    "depthwise": (Net.depthwise, ["Convolutional"]),
    "deconvolution": (_deconv, ["Deconvolution"]),
    "maximum": (lambda net, x: _pool(net, x, "PoolMax2d"), ["Pooling"]),
    "average": (lambda net, x: _pool(net, x, "PoolAvg2d"), ["Pooling"]),
    "relu": (lambda net, x: net.neuron(net.conv(x, 5), RELU), ["Convolutional", "Neuron"]),
    "clamp": (_clamped, ["Neuron"]),
    "sigmoid": (lambda net, x: net.neuron(x, SIGMOID), ["Neuron"]),
    "sum": (lambda net, x: net.binary(x, net.neuron(x, RELU), 0), ["Neuron", "ElementwiseBinaryOp"]),
    "constant": (lambda net, x: net.binary(x, net.weights(1, 1, 1, 4), 0), ["Const", "ElementwiseBinaryOp"]),
    "absolute": (_absolute, ["ElementwiseUnaryOp"]),
    "concat": (lambda net, x: net.concat(x, net.neuron(x, RELU)), ["Neuron", "Concat"]),
    "split": (_split, ["Slice", "Concat"]),
    "slice": (_slice, ["StridedSlice"]),
    "reshape": (lambda net, x: net.op("Reshape", [x], (1, 64, 4)), ["Reshape"]),
    "resize": (_resize, ["Scaling"]),
    "argmax": (_argmax, ["ArgMax"]),
}  # fmt: skip


def built(build: Build) -> Net:
    net = Net()
    net.last = build(net, net.input(1, 8, 8, 4))
    return net


def float_model(net: Net) -> Model:
    net.graph.add_output(net.last)
    return Model({net.graph.name: net.graph})


CASES = [(name, kind) for name in LAYERS for kind in ("float", "bytes", "wide")]
CASES.remove(("constant", "wide"))  # a layer holds no constant of 16 bits


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_layers_compute_what_operations_do(tmp_path, name, kind):
    build, types = LAYERS[name]
    net = built(build)
    width = {"bytes": 8, "wide": 16}.get(kind)
    model = net.quantized(net.last, act_bitwidth=width) if width else float_model(net)
    if name == "argmax":
        (position,) = model.main.outputs
        position.dtype, position.encoding = FLOAT32, None
    layers = to_layers(model, strict=True)
    assert [op.type for op in layers.main.ops] == types
    held = written(model, tmp_path)
    assert [line for line in differences(held, layers) if not line.startswith("metadata")] == []
    assert_same(model, translate(held))


def test_every_family_has_a_case():
    qnn = {op.type for name in LAYERS for op in built(LAYERS[name][0]).graph.ops}
    assert set(_TABLE.all()) <= qnn


def test_what_no_file_of_snpe_shows_is_kept_as_it_is(tmp_path):
    model = residual()
    held = written(model, tmp_path)
    assert {op.type for op in foreign(held)} == {
        f"qti.aisw::{type}"
        for type in ("ElementWiseBinary", "FullyConnected", "Prelu", "Softmax", "Transpose")
    }
    back = translate(held)
    for old, new in zip(model.main.ops, back.main.ops, strict=True):
        assert (new.type, new.name) == (old.type, old.name)
        assert [tensor.name for tensor in new.outputs] == [tensor.name for tensor in old.outputs]
        assert new.params.keys() >= old.params.keys()
    assert_same(model, back)
    again = written(back, tmp_path)
    assert differences(again.main, held.main, origin=False) == []


def test_strict_refuses_all_of_it_at_once():
    with pytest.raises(ProblemList) as caught:
        to_layers(residual(), strict=True)
    problems = [str(problem) for problem in caught.value.problems]
    assert len(problems) == len(foreign(to_layers(residual())))
    assert any("computes Multiply; the only layer of two inputs known is a sum" in text for text in problems)
    assert any("(Softmax): no layer is known from files of SNPE 1" in text for text in problems)


def test_what_translating_back_would_refuse_is_not_written():
    net = built(_resize)
    (op,) = net.graph.ops
    op.params["transformation_mode"] = u32(3)
    with pytest.raises(ConstraintError, match="transformation_mode"):
        to_layers(float_model(net))


def one_op(
    op_type: str, inputs: list[Any], outputs: list[Tensor], params: Any = None, package: str = "p"
) -> Model:
    graph = Graph("g")
    for tensor in inputs:
        if tensor is not None and not tensor.is_static:
            graph.add_input(tensor)
    graph.append(make_op(graph, op_type, inputs, outputs, params, name="op", package=package))
    for tensor in outputs:
        graph.add_output(tensor)
    return Model({"g": graph})


def test_custom_operations_come_back_with_all_they_have(tmp_path):
    wide = static("wide", np.array([1 << 30, -7], np.int32), SFIXED32, AxisScaleOffset(0, (0.5, 0.25)))
    few = static("few", np.arange(4, dtype=np.int8), SFIXED8, ScaleOffset(0.5, 3, 4))
    half = static("half", np.array([[1.5]], np.float16))
    x = Tensor("x", (2,), FLOAT32)
    params = {
        "flag": b8(True),
        "number": i32(-3),
        "natural": u32(1 << 31),
        "real": f32(0.25),
        "text": string("t"),
        "naturals": u32s([[1, 2], [3, (1 << 32) - 1]]),
        "reals": static("", np.array([0.5], np.float32)),
        "none": static("", np.zeros((0, 3), np.int32)),
        "flags": static("", np.array([True, False])),
    }
    outputs = [Tensor("y", (2,), FLOAT32), Tensor("i", (2, 3), INT64)]
    model = one_op("Custom", [wide, x, None, few, half], outputs, params)
    back = translate(written(model, tmp_path))
    back.main.name = "g"
    assert differences(back.main, model.main, origin=False) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"x": {"dtype": INT32}}, "tensor 'x'.*inputs are float32"),
        ({"x": {"dtype": SFIXED8, "encoding": ScaleOffset(1.0)}}, "tensor 'x'.*inputs are float32"),
        ({"x": {"dynamic_axes": (0,)}}, "open extents"),
        ({"y": {"dtype": SFIXED8, "encoding": ScaleOffset(1.0)}}, "gives 'y' as sfixed8"),
    ],
)
def test_what_has_no_form_is_refused(change, problem):
    model = one_op("Custom", [Tensor("x", (2,), FLOAT32)], [Tensor("y", (2,), FLOAT32)])
    for name, values in change.items():
        for key, value in values.items():
            setattr(model.main.tensors[name], key, value)
    with pytest.raises(UnsupportedOp, match=problem):
        to_layers(model)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"a.b": i32(1)}, "parameter 'a.b'"),
        ({"a": static("", np.array([1], np.int64))}, "'a' of int64"),
        ({"a": static("", np.array([1], np.float16), BFLOAT16)}, "'a' of bfloat16"),
    ],
)
def test_parameters_without_a_form_are_refused(params, problem):
    model = one_op("Custom", [Tensor("x", (2,), FLOAT32)], [Tensor("y", (2,), FLOAT32)], params)
    with pytest.raises(UnsupportedOp, match=problem):
        to_layers(model)


def test_caches_and_several_graphs_are_refused():
    model = residual()
    model.records["htp.cache.sm8550.0"] = raw_data(b"c")
    with pytest.raises(UnsupportedOp, match="holds HTP caches"):
        to_layers(model)
    model.add_graph(Graph("other"))
    with pytest.raises(UnsupportedOp, match="holds 2 graphs"):
        to_layers(model)


def test_bias_that_real_numbers_cannot_hold_stays_whole(tmp_path):
    net = built(lambda net, x: net.conv(x, 2))
    model = net.quantized(net.last)
    (conv,) = model.main.ops
    bias = conv.inputs[2]
    bias.data = static("", np.array([(1 << 25) + 1, -5], np.int32)).data
    held = written(model, tmp_path)
    assert [op.type for op in held.main.ops] == ["qti.aisw::Conv2d"]
    (again,) = translate(held).main.ops
    assert again.inputs[2].numpy().tolist() == [(1 << 25) + 1, -5]
    bias.data = static("", np.array([(1 << 20) + 1, -5], np.int32)).data
    held = written(model, tmp_path)
    assert [op.type for op in held.main.ops] == ["Convolutional"]
    (again,) = translate(held).main.ops
    assert again.inputs[2].numpy().tolist() == [(1 << 20) + 1, -5]
    assert again.inputs[2].encoding == bias.encoding
    np.testing.assert_array_equal(again.inputs[1].numpy(), conv.inputs[1].numpy())


def test_real_files_keep_their_kinds_of_weights(tmp_path):
    graph = Graph("model")
    x = graph.add_input(Tensor("x", (1, 2, 2, 2), UFIXED8, ScaleOffset(0.5, -7)))
    weight = static("w", np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2), UFIXED8, ScaleOffset(0.1, -2))
    bias = static("b", np.array([1, 200], np.uint8), UFIXED8, ScaleOffset(0.2, -100))
    y = Tensor("y", (1, 2, 2, 2), UFIXED8, ScaleOffset(0.25, -100))
    graph.append(make_op(graph, "Conv2d", [x, weight, bias], [y], window([1, 1], [[0, 0]] * 2), name="c"))
    graph.add_output(y)
    model = Model({"model": graph})
    (op,) = translate(written(model, tmp_path)).main.ops
    assert [tensor.dtype for tensor in op.inputs] == [UFIXED8] * 3
    assert [tensor.encoding for tensor in op.inputs[1:]] == [weight.encoding, bias.encoding]


def test_sections_are_renumbered_by_layers(tmp_path):
    model = residual()
    prepared = prepare(model, "13-13,15-16")
    held = written(prepared.model, tmp_path)
    assert list(held.records) == ["aip.metadata0"]
    record = parse_aip(held.records["aip.metadata0"].numpy().tobytes(), where="record")
    assert record.flavour == OWN_FLAVOUR
    spans = [(section.engine, section.first, section.last) for section in record.sections]
    hta, hnn = Engine.HTA, Engine.HNN
    assert spans == [(hnn, 0, 13), (hta, 14, 14), (hnn, 15, 15), (hta, 16, 17), (hnn, 18, 18)]
    assert [(one.name, hex(one.id)) for one in record.sections[0].buffers] == [
        ("x", "0x0"),
        ("t10", "0xb1000"),
        ("t12", "0xd1000"),
    ]
    assert [(one.name, hex(one.id)) for one in record.sections[3].buffers] == [
        ("t14", "0x100000"),
        ("t16", "0x111000"),
    ]


@pytest.mark.parametrize("partitions", ["13-13,15-16", None])
def test_sections_run_from_the_file(tmp_path, partitions):
    model = residual()
    held = written(prepare(model, partitions).model, tmp_path)
    session = SectionSession(translate(held), records=held.records, threads=1)
    assert session.notices == ()
    feeds = feeds_of(model)
    expected = CpuSession(model, threads=1).run(feeds, native=True)
    for name, array in session.run(feeds, native=True).items():
        np.testing.assert_array_equal(array, expected[name])


def test_layers_between_which_a_section_ends_are_not_merged(tmp_path):
    net = built(lambda net, x: _argmax(net, net.conv(x, 4)))
    model = net.quantized(net.last)
    sections = prepare(model, "0-1")
    if sections.problems:
        pytest.skip(str(sections.problems[0]))
    held = written(sections.model, tmp_path)
    assert [op.type for op in held.main.ops] == ["Convolutional", "qti.aisw::Argmax", "qti.aisw::Cast"]
    session = SectionSession(translate(held), records=held.records, threads=1)
    feeds = feeds_of(model)
    expected = CpuSession(model, threads=1).run(feeds)
    for name, array in session.run(feeds).items():
        np.testing.assert_array_equal(array, expected[name])


def test_notes_tell_what_only_xdlc_reads(tmp_path):
    notes: list[str] = []
    api.save(residual(), tmp_path / "a.dlc", "3", notify=notes.append)
    assert len(notes) == 1
    assert notes[0].startswith("7 of 18 layers are none of SNPE 1 and only xdlc reads them")
    net = built(lambda net, x: net.conv(x, 2))
    api.save(net.quantized(net.last), tmp_path / "b.dlc", "3.0", notify=notes.append)
    assert len(notes) == 1


def test_ids_of_layers_survive_format_4(tmp_path):
    back = translate(written(residual(), tmp_path))
    back.save(tmp_path / "b.dlc")
    assert xdlc.load(tmp_path / "b.dlc").metadata["layers"] == back.metadata["layers"]


def test_what_is_known_of_users_ops_comes_along(tmp_path):
    definition = custom("Custom", [place("x")], [place("y")]).definition
    x = Tensor("x", (2,), FLOAT32)
    model = one_op("Custom", [x], [Tensor("y", (2,), FLOAT32)], package="Pkg")
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "d", "1.0", (definition,), ())})
    udo.add_kernel(model, "Pkg", "Custom", ["o"], Kernel("k", "run", "", (), "m", "t", b"x"))
    back = translate(written(model, tmp_path))
    assert udo.definition(back, back.main.ops[0]) == definition
    assert [held.kernel.name for held in udo.kernels(back)] == ["k"]
