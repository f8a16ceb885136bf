"""Models with users' ops are quantized as definitions allow, and their kernels run in calibration."""

import numpy as np
import pytest

from tests.compilers import build_library, needs_cc
from tests.custom_ops import place
from tests.quant.custom_models import KERNELS, defined, gain, sandwich, top
from tests.runtime.udo.conftest import SAMPLE
from xdlc.container import udo
from xdlc.errors import ConstraintError, UnsupportedOp, UsageError, each_problem
from xdlc.ir import AxisScaleOffset, ScaleOffset, static
from xdlc.ir.dtype import BY_NAME, FLOAT32, INT32, SFIXED8, SFIXED32, UFIXED8, UFIXED16
from xdlc.ir.stored import real_data
from xdlc.opdefs.custom import Kernel
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, SupplementTable, SupplementTensor
from xdlc.quant import quantize
from xdlc.quant.customs import Customs
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels
from xdlc.runtime.udo.elf import machine


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "pkg.py"
    path.write_text(KERNELS)
    return path


@pytest.fixture
def quantized(kernels):
    """Return a function that quantizes with the kernels and gives the model and its notes."""

    def run(model, samples, **options):
        notes, given = [], {"act_quantizer_calibration": "min-max", "udo_package_path": str(kernels)}
        made = quantize(model, samples, tell=notes.append, **{**given, **options})
        made.main.verify()
        return made, notes

    return run


def op(model, name):
    (found,) = [op for op in model.main.ops if op.name == name]
    return found


def types(model, name):
    held = op(model, name)
    return [t.dtype for t in held.inputs], [t.dtype for t in held.outputs]


def results(kernels, model, samples):
    with Kernels(kernels, model=model) as held:
        session = CpuSession(model, kernels=held)
        return [session.run(sample) for sample in samples]


def sqnr(wanted, found, name):
    signal = sum(float((one[name].astype("f8") ** 2).sum()) for one in wanted)
    noise = sum(
        float(((one[name].astype("f8") - other[name]) ** 2).sum())
        for one, other in zip(wanted, found, strict=True)
    )
    return 10 * np.log10(signal / noise)


SAMPLES = [{"x": np.random.default_rng(seed).standard_normal((1, 6, 6, 4)).astype("f4")} for seed in range(8)]


def test_two_types_from_end_to_end(net, kernels, quantized):
    n = net(1, 6, 6, 4)
    g = gain(n, n.neuron(n.conv(n.x, 8, "a"), 4, "r"), "g", factor=2.0)
    value, index = top(n, g, "t")
    model = defined(n.done(value, index), x="uint8|uint16", w="ufixed8", y="uint8|uint16")
    defined(model, "Top", x="uint8|uint16", y="uint8|uint16", i="=int32")
    made, _ = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert types(made, "t_op") == ([UFIXED8], [UFIXED8, INT32])
    assert [o.type for o in made.main.ops] == ["Conv2d", "ElementWiseNeuron", "Gain", "Top"]
    wanted, found = results(kernels, model, SAMPLES), results(kernels, made, SAMPLES)
    assert sqnr(wanted, found, "t") > 25
    highest = max(float(one["t"].max()) for one in wanted)
    encoding = made.main.outputs[0].encoding
    assert abs((255 + encoding.offset) * encoding.scale - highest) < 2 * encoding.scale
    same = np.mean([one["t_index"] == other["t_index"] for one, other in zip(wanted, found, strict=True)])
    assert same > 0.9


def test_a_result_has_sixteen_bits_where_these_are_asked_for(net, quantized):
    made, notes = quantized(sandwich(net), SAMPLES, act_bitwidth=16)
    assert types(made, "g_op") == ([UFIXED16, UFIXED8], [UFIXED16])
    assert not any("Pkg::Gain" in note for note in notes)


def test_bytes_stay_bytes_where_a_definition_has_nothing_else(net, kernels, quantized):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8")
    made, notes = quantized(model, SAMPLES, act_bitwidth=16)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert [o.type for o in made.main.ops] == [
        "Conv2d", "ElementWiseNeuron", "Convert", "Gain", "Convert", "Conv2d",
    ]  # fmt: skip
    assert "Pkg::Gain reads 'x' with 8 bits, not 16: its definition takes 'x' as uint8 (g_op)" in notes
    assert "Pkg::Gain writes 'y' with 8 bits, not 16: its definition takes 'y' as uint8 (g_op)" in notes
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25


def test_only_sixteen_bits(net, quantized):
    made, notes = quantized(sandwich(net, x="uint8|uint16", w="ufixed8", y="ufixed16"), SAMPLES)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED16])
    assert op(made, "out_op").inputs[0].dtype is UFIXED8
    assert "Pkg::Gain writes 'y' with 16 bits, not 8: its definition takes 'y' as ufixed16 (g_op)" in notes


def test_floats_alone_stay_between_dequantize_and_quantize(net, kernels, quantized):
    model = sandwich(net, x="float32", w="float32", y="float32")
    made, notes = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert [o.type for o in made.main.ops] == [
        "Conv2d", "ElementWiseNeuron", "Dequantize", "Gain", "Quantize", "Conv2d",
    ]  # fmt: skip
    assert any(
        note.startswith("Pkg::Gain stays float: its definition takes 'x' as float32") for note in notes
    )
    assert (
        "'g_op' stays float: its definition takes 'x' as float32"
        in made.main.tensors["g_quantized"].producer.origin.reason
    )
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25


@pytest.mark.parametrize(
    ("x", "y", "between"),
    [
        ("uint8", "float32", ["Gain", "Quantize"]),
        ("float32", "uint8", ["Dequantize", "Gain"]),
    ],
)
def test_each_side_is_as_the_definition_has_it(net, kernels, quantized, x, y, between):
    model = sandwich(net, x=x, w="float32", y=y)
    made, _ = quantized(model, SAMPLES)
    assert [o.type for o in made.main.ops][2:-1] == between
    assert types(made, "g_op") == (
        [UFIXED8 if x == "uint8" else FLOAT32, FLOAT32],
        [UFIXED8 if y == "uint8" else FLOAT32],
    )
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25


def test_floats_at_the_borders_of_the_graph(net, kernels, quantized):
    n = net(1, 6, 6, 4)
    g = gain(n, n.x, "g")
    a = n.neuron(n.x, 4, "a")
    h = gain(n, a, "h")
    model = defined(n.done(g, h), x="float32", w="float32", y="float32")
    made, _ = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert [t.dtype for t in made.main.outputs] == [FLOAT32, FLOAT32]
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "h") > 25


@pytest.mark.parametrize(
    ("allowed", "dtype"),
    [
        ("ufixed8", UFIXED8),
        ("sfixed8", SFIXED8),
        ("sfixed8|ufixed8|float32", SFIXED8),
        ("sfixed32", SFIXED32),
        ("float32", FLOAT32),
    ],
)
def test_static_inputs_have_a_type_of_the_definition(net, quantized, allowed, dtype):
    model = sandwich(net, x="uint8", w=allowed, y="uint8")
    made, _ = quantized(model, SAMPLES)
    w = op(made, "g_op").inputs[1]
    assert w.dtype is dtype
    wanted = model.main.tensors["g_w"].numpy()
    if dtype is FLOAT32:
        assert w.encoding is None
        assert np.array_equal(w.numpy(), wanted)
    else:
        assert isinstance(w.encoding, ScaleOffset)
        assert np.abs(real_data(w).numpy() - wanted).max() <= 0.51 * w.encoding.scale


@pytest.mark.parametrize("allowed", ["=ufixed8", "=float32|ufixed8", "=uint8"])
def test_static_inputs_of_one_type_on_all_cores_are_reals_to_python(net, kernels, quantized, allowed):
    model = sandwich(net, x="=float32|ufixed8", w=allowed, y="=float32|ufixed8")
    made, _ = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25


def _channels(model):
    w = model.main.tensors["g_w"].numpy()
    scales = np.abs(w) / 127
    return [
        {
            "bw": 8, "dtype": "INT", "enc_type": "PER_CHANNEL", "is_sym": True,
            "name": "g_w", "offset": [-128] * 8, "scale": [float(s) for s in scales],
        }
    ]  # fmt: skip


def test_static_weights_take_scales_per_channel_that_are_given(net, kernels, quantized):
    model = sandwich(net, x="uint8", w="sfixed8", y="uint8")
    given = {"version": "1.0.0", "activation_encodings": [], "param_encodings": _channels(model)}
    made, notes = quantized(model, SAMPLES, quantization_overrides=given)
    w = op(made, "g_op").inputs[1]
    assert (w.dtype, type(w.encoding), w.encoding.axis) == (SFIXED8, AxisScaleOffset, 0)
    assert np.allclose(real_data(w).numpy(), model.main.tensors["g_w"].numpy(), rtol=1e-5)
    assert any(note.startswith("overrides: 1 matched") for note in notes)
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25


def test_scales_per_channel_want_a_type_of_the_definition(net, quantized):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8")
    given = {"version": "1.0.0", "activation_encodings": [], "param_encodings": _channels(model)}
    with pytest.raises(ConstraintError, match="the definition takes 'w' as ufixed8") as caught:
        quantized(model, SAMPLES, quantization_overrides=given)
    assert caught.value.where == "op 'g_op' (Pkg::Gain)"


def _activation(name, bits, scale=0.05, offset=-100):
    return {
        "version": "0.6.1",
        "activation_encodings": {
            name: [
                {"bitwidth": bits, "dtype": "int", "is_symmetric": "False", "scale": scale, "offset": offset}
            ]
        },
        "param_encodings": {},
    }


def test_results_keep_encodings_that_are_given(net, quantized):
    made, _ = quantized(sandwich(net), SAMPLES, quantization_overrides=_activation("g", 8))
    assert (made.main.tensors["g"].dtype, made.main.tensors["g"].encoding) == (
        UFIXED8,
        ScaleOffset(np.float32(0.05).item(), -100),
    )
    wide, _ = quantized(sandwich(net), SAMPLES, quantization_overrides=_activation("g", 16, 1e-4))
    assert wide.main.tensors["g"].dtype is UFIXED16


def test_an_encoding_that_a_definition_does_not_take_is_refused(net, quantized):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8")
    with pytest.raises(ConstraintError) as caught:
        quantized(model, SAMPLES, quantization_overrides=_activation("g", 16, 1e-4))
    assert "'g' has an encoding of 16 bits; the definition takes 'y' as uint8" in caught.value.problem
    assert caught.value.fix == "give it 8 bits, or widen the definition in the configuration"


def test_without_kernels_each_op_is_named_with_what_to_give(net):
    n = net(1, 6, 6, 4)
    value, index = top(n, gain(n, n.x, "g"), "t")
    model = defined(n.done(value, index), x="uint8", w="ufixed8", y="uint8")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        quantize(model, SAMPLES)
    problems = each_problem(caught.value)
    assert all(isinstance(problem, UnsupportedOp) for problem in problems)
    assert [(problem.node, problem.op) for problem in problems] == [("g_op", "Gain"), ("t_op", "Top")]
    assert all("--udo_package_path" in (problem.fix or "") for problem in problems)


def test_float_fallback_needs_no_kernels(net):
    model = sandwich(net)
    model.main.tensors["g"].encoding = ScaleOffset(0.05, -100, 8)
    made = quantize(model, [], enable_float_fallback=True)
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    for name in ("r", "out"):
        model.main.tensors[name].encoding = ScaleOffset(0.05, -100, 8)
    made = quantize(model, [], enable_float_fallback=True)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])


def test_kernels_that_nothing_needs_are_told(net, quantized):
    n = net(1, 6, 6, 4)
    _, notes = quantized(n.done(n.conv(n.x, 4, "a")), SAMPLES)
    assert any("no users' ops" in note for note in notes)


def test_a_time_out_is_checked(net, kernels):
    with pytest.raises(UsageError, match="time-out"):
        quantize(sandwich(net), SAMPLES, udo_package_path=kernels, udo_timeout=-1.0)


def test_without_a_definition_an_op_stays_float(net, quantized):
    model = sandwich(net)
    model.records.clear()
    made, notes = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert "Pkg::Gain stays float: the model holds no definition of Pkg::Gain (g_op)" in notes


def test_named_floats_and_widths(net, quantized):
    made, notes = quantized(sandwich(net), SAMPLES, float_ops=["g_op"])
    assert types(made, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    assert "Pkg::Gain stays float: it was asked to stay float (g_op)" in notes
    made, _ = quantized(sandwich(net), SAMPLES, act_bitwidth_of={"g_op": 16})
    assert types(made, "g_op") == ([UFIXED16, UFIXED8], [UFIXED16])
    made, notes = quantized(
        sandwich(net, x="uint8", w="ufixed8", y="uint8"), SAMPLES, act_bitwidth_of={"g_op": 16}
    )
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert "Pkg::Gain writes 'y' with 8 bits, not 16: its definition takes 'y' as uint8 (g_op)" in notes


@pytest.mark.parametrize("type", ["Softmax", "Conv2d"])
def test_a_type_that_qnn_has_too_is_not_taken_for_it(net, kernels, quantized, type):
    model = sandwich(net, type, x="uint8|uint16", w="ufixed8", y="uint8|uint16")
    made, _ = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    g = made.main.tensors["g"].encoding
    values = np.concatenate([one["g"].ravel() for one in _given(kernels, model, "g")])
    assert g.offset != 0
    assert g.offset * g.scale <= values.min() + g.scale
    assert (255 + g.offset) * g.scale >= values.max() - g.scale
    assert made.main.tensors["r"].encoding != g


def _given(kernels, model, name):
    with Kernels(kernels, model=model) as held:
        session = CpuSession(model, quantized=False, outputs=[name], kernels=held)
        return [session.run(sample) for sample in SAMPLES]


@pytest.mark.parametrize(
    ("algorithm", "type"),
    [
        ("cle", "Relu"),
        ("smoothquant", "Gain"),
        ("bias_correction", "Gain"),
        ("seqmse", "Gain"),
        ("adaround", "Relu"),
        ("mixed_precision", "Gain"),
    ],
)
def test_algorithms_run_around_it(net, kernels, quantized, algorithm, type):
    model = sandwich(net, type, x="uint8|uint16", w="sfixed8", y="uint8|uint16")
    more = {"min_sqnr": 32.0} if algorithm == "mixed_precision" else {"weights_bitwidth": 4}
    made, notes = quantized(model, SAMPLES, algorithms=[algorithm], **more)
    assert types(made, "g_op") == ([UFIXED8, SFIXED8], [UFIXED8])
    assert (
        np.abs(real_data(op(made, "g_op").inputs[1]).numpy() - model.main.tensors["g_w"].numpy()).max() < 0.02
    )
    assert any(note.startswith((algorithm, algorithm.replace("_", " "))) for note in notes)
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 10


def test_nothing_is_equalized_through_it(net, quantized):
    from xdlc.quant.equalization.chains import find_chains

    model = sandwich(net, "Relu", x="uint8", w="sfixed8", y="uint8")
    assert find_chains(model.main, lambda op: op.name == "a_op") == []


def test_the_choice_of_ranges_runs_it(net, quantized):
    _, notes = quantized(sandwich(net), SAMPLES, act_quantizer_calibration="auto")
    assert any(note.startswith("auto: ") and "outputs of 8 samples" in note for note in notes)


def test_a_report_measures_around_it(net, quantized, tmp_path):
    import json

    path = tmp_path / "r.json"
    quantized(sandwich(net), [*SAMPLES, *SAMPLES], report=path)
    found = json.loads(path.read_text())
    tensors = {entry["name"]: entry for entry in found["tensors"]}
    assert {"r", "g", "out", "g_w"} <= tensors.keys()
    assert tensors["g"]["isolated"] > 20
    assert tensors["g"]["sensitivity"] > 20
    assert found["outputs"][0]["sqnr"] > 20


def test_processes_have_kernels_of_their_own(net, quantized):
    one, _ = quantized(sandwich(net), SAMPLES * 3)
    two, _ = quantized(sandwich(net), SAMPLES * 3, jobs=2)
    assert one.main.tensors["g"].encoding == two.main.tensors["g"].encoding
    assert one.main.tensors["out"].encoding == two.main.tensors["out"].encoding


def test_encodings_are_exported_and_come_back(net, quantized):
    from xdlc.quant.overrides import export_encodings

    model = sandwich(net, x="uint8", w="sfixed8", y="uint8")
    made, _ = quantized(model, SAMPLES)
    for version in ("0.6.1", "2.0.0"):
        again, _ = quantized(model, SAMPLES, quantization_overrides=export_encodings(made, version))
        for name in ("r", "g", "out", "g_w"):
            assert again.main.tensors[name].encoding == made.main.tensors[name].encoding, (version, name)
            assert again.main.tensors[name].dtype is made.main.tensors[name].dtype


def test_the_definition_comes_along(net, quantized, tmp_path):
    from xdlc.container import load

    made, _ = quantized(sandwich(net), SAMPLES)
    made.save(tmp_path / "q.dlc")
    loaded = load(tmp_path / "q.dlc")
    assert udo.definition(loaded, op(loaded, "g_op")) is not None
    assert types(loaded, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])


def test_cores_of_fixed_point_count(net):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8|uint16")
    customs = Customs.of(udo.definitions(model))
    held = op(model, "g_op")
    assert [place.bits(16) for place in customs.inputs(held)] == [8, 8]
    assert [place.bits(16) for place in customs.outputs(held)] == [16]
    assert [place.bits(8) for place in Customs().inputs(held)] == [None, None]


def test_branches_and_what_only_they_read(kernels, quantized):
    """Users' ops that follow each other in a branch: nothing of QNN reads what is between."""
    from tests.control_flow_models import graph_of, model_of
    from tests.control_flow_models import op as append
    from xdlc.ir import Tensor, f32, static, string
    from xdlc.ir.dtype import BOOL8

    shape = (1, 8)

    def gains(graph, h):
        w = static("w", np.linspace(-1, 1, 8, dtype="f4"))
        for name in ("one", "two"):
            params = {"factor": f32(2.0)}
            (h,) = append(
                graph,
                "Gain",
                [h, w],
                [Tensor(name, shape, FLOAT32)],
                params,
                name=f"{name}_op",
                package="Pkg",
            )
        return [h]

    def main(graph, c, x):
        (h,) = append(graph, "Relu", [x], [Tensor("h", shape, FLOAT32)])
        params = {"then_graph": string("main_then"), "else_graph": string("main_else")}
        return append(
            graph, "If", [c, h], [Tensor("y", shape, FLOAT32)], params, name="choose", package="xdlc"
        )

    inputs = [("h", shape, FLOAT32)]
    model = model_of(
        graph_of("main", [("c", (1,), BOOL8), ("x", shape, FLOAT32)], main),
        graph_of("main_then", inputs, gains),
        graph_of("main_else", inputs, lambda g, h: append(g, "Relu", [h], [Tensor("same", shape, FLOAT32)])),
    )
    defined(model, x="uint8", w="ufixed8", y="uint8")
    rng = np.random.default_rng(3)
    samples = [{"c": np.array([n % 2 == 0]), "x": rng.standard_normal(shape).astype("f4")} for n in range(8)]
    made, _ = quantized(model, samples)
    graph = made.graphs["main_then"]
    assert [o.type for o in graph.ops] == ["Quantize", "Gain", "Gain", "Dequantize"]
    one = graph.tensors["one"]
    highest = max(
        float((np.maximum(s["x"], 0) * np.linspace(-1, 1, 8, dtype="f4") * 2).max()) for s in samples[::2]
    )
    assert one.dtype is UFIXED8
    assert abs((255 + one.encoding.offset) * one.encoding.scale - highest) < 2 * one.encoding.scale
    assert sqnr(results(kernels, model, samples), results(kernels, made, samples), "y") > 25


@needs_cc
@pytest.mark.parametrize("jobs", [1, 2])
def test_kernels_that_the_model_carries_run_if_they_are_allowed(net, tmp_path, jobs):
    n = net(1, 6, 6, 4)
    model = n.done(n.op("Scale", [n.neuron(n.x, 4, "r")], n.x.shape, "y", package="Math"))
    defined(model, "Scale", package="Math", x="uint8", y="uint8")
    binary = build_library(SAMPLE, tmp_path / "kernel.so", "-DPLAIN_KERNEL").read_bytes()
    values = (3, 0.0, "", np.zeros(2, "f4"))
    kernel = Kernel("plain", "plain_kernel", "ifso", values, f"linux-{machine()}", "cc 1", binary)
    udo.add_kernel(model, "Math", "Scale", ["y_op"], kernel)
    with pytest.raises(UnsupportedOp) as caught:
        quantize(model, SAMPLES)
    assert "--allow_embedded_kernels" in caught.value.fix
    made = quantize(model, SAMPLES, allow_embedded_kernels=True, jobs=jobs)
    highest = 3 * max(float(sample["x"].max()) for sample in SAMPLES)
    y = made.main.tensors["y"]
    assert y.dtype is UFIXED8
    assert abs((255 + y.encoding.offset) * y.encoding.scale - highest) < 2 * y.encoding.scale


def test_inputs_left_out_and_repeated_ones(net, tmp_path, quantized):
    path = tmp_path / "mix.py"
    path.write_text(
        "from xdlc.udo import kernel\n"
        "@kernel('Pkg', 'Mix')\n"
        "def mix(inputs, params, outputs):\n"
        "    assert inputs[1] is None\n"
        "    return inputs[0] + sum(inputs[2:])\n"
    )
    n = net(1, 6, 6, 4)
    a, b = n.neuron(n.x, 4, "a"), n.neuron(n.x, 6, "b")
    model = n.done(n.op("Mix", [n.x, None, a, b], n.x.shape, "y", package="Pkg"))
    places = (
        place("first", (UFIXED8,)),
        place("left", (FLOAT32,), mandatory=False),
        place("rest", (UFIXED16,), mandatory=False, repeated=True),
    )
    opdef = OpDef("Mix", "Pkg", places, (place("y", (UFIXED8,)),), {}, backends=("DSP_V68", "HTP"))
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "d", "1", (opdef,), ())})
    made, _ = quantized(model, SAMPLES, udo_package_path=path)
    found = op(made, "y_op")
    assert [t and t.dtype for t in found.inputs] == [UFIXED8, None, UFIXED16, UFIXED16]
    assert found.outputs[0].dtype is UFIXED8


def test_weights_that_come_with_scales_per_channel_keep_them(net, kernels, quantized):
    model = sandwich(net, x="uint8", w="sfixed8", y="uint8")
    w = model.main.tensors["g_w"]
    real = w.numpy()
    encoding = AxisScaleOffset(0, tuple(float(value) for value in np.abs(real) / 127))
    stored = static("stored", np.rint(real / np.float32(encoding.scales)).astype("i1"), SFIXED8, encoding)
    held = op(model, "g_op")
    model.main.set_inputs(held, [held.inputs[0], model.main.add_tensor(stored)])
    made, _ = quantized(model, SAMPLES)
    found = op(made, "g_op").inputs[1]
    assert (found.dtype, found.encoding) == (SFIXED8, encoding)
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25


def _table(core, **types):
    rows = {
        name: SupplementTensor(name, tuple(BY_NAME[word] for word in text.split("|")))
        for name, text in types.items()
    }
    row = SupplementOp("Mix", {"x": rows["x"]}, {"y": rows["y"]}, {})
    return SupplementTable(core, frozenset(), {"Mix": (row,)})


V66, V68 = _table("DSP_V66", x="uint8", y="uint8"), _table("DSP_V68", x="uint8|uint16", y="uint16")
CPU, HTP = _table("CPU", x="float32", y="float32"), _table("HTP", x="ufixed8", y="ufixed8")


@pytest.mark.parametrize(
    ("backends", "tables", "arch", "wanted", "bits"),
    [
        (("DSP",), (V66, V68), None, 16, (8, 16)),
        (("DSP",), (V66, V68), 68, 16, (16, 16)),
        (("DSP",), (V66, V68), 66, 16, (8, 8)),
        (("DSP",), (V66, V68), 73, 16, (None, None)),
        (("DSP_V66", "DSP_V68"), (V66, V68), None, 8, (8, 8)),
        (("CPU", "HTP"), (CPU, _table("HTP", x="ufixed16", y="float16")), None, 8, (16, None)),
        (("HTP", "HTP_FP16"), (HTP, _table("HTP_FP16", x="float16", y="float16")), None, 8, (8, 8)),
        (("CPU",), (_table("CPU", x="float32|ufixed8", y="float32"),), None, 8, (8, None)),
        ((), (), None, 8, (None, None)),
    ],
)  # fmt: skip
def test_which_core_tells_the_bits(net, backends, tables, arch, wanted, bits):
    opdef = OpDef("Mix", "Pkg", (place("x", ()),), (place("y", ()),), {}, backends=backends)
    customs = Customs.of({"Pkg": Collection("Pkg", "d", "1", (opdef,), tables)}, arch)
    n = net(1, 2)
    n.done(n.op("Mix", [n.x], n.x.shape, "y", package="Pkg"))
    ports = customs.ports(next(n.graph.ops), wanted)
    assert (*ports.inputs, *ports.outputs) == bits
