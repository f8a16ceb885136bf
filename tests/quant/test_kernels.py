"""Kernels of UDOs run wherever the quantizer runs a model."""

import numpy as np
import pytest

from tests.quant.udo_models import SAMPLES, defined, gain, op, quality, sandwich, top, types
from tests.runtime.udo.conftest import SAMPLE
from tests.runtime.udo.kernel_meta import call, written
from tests.support.compilers import build_library, needs_cc
from xdlc.errors import UnsupportedOp, UsageError, XdlcError, each_problem
from xdlc.ir import ScaleOffset, static
from xdlc.ir.dtype import FLOAT32, SFIXED8, UFIXED8
from xdlc.ir.quantization import float_data
from xdlc.opdefs.source_match import Kernel
from xdlc.quant import quantize
from xdlc.quant.options import QuantOptions
from xdlc.runtime.udo.sources import MACHINE


def test_without_kernels_each_op_is_named_with_what_to_give(net):
    n = net(1, 6, 6, 4)
    value, index = top(n, gain(n, n.x, "g"), "t")
    model = defined(n.done(value, index), x="uint8", w="ufixed8", y="uint8")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        quantize(model, SAMPLES)
    problems = each_problem(caught.value)
    assert all(isinstance(problem, UnsupportedOp) for problem in problems)
    assert [(problem.node, problem.op) for problem in problems] == [("g_op", "Gain"), ("t_op", "Top")]
    assert all("udo_package_path" in (problem.fix or "") for problem in problems)


def test_float_fallback_needs_no_kernels(net):
    model = sandwich(net)
    model.main.tensors["g"].encoding = ScaleOffset(0.05, -100, 8)
    quantized_model = quantize(model, [], enable_float_fallback=True)
    assert types(quantized_model, "g_op") == ([FLOAT32, FLOAT32], [FLOAT32])
    for name in ("r", "out"):
        model.main.tensors[name].encoding = ScaleOffset(0.05, -100, 8)
    quantized_model = quantize(model, [], enable_float_fallback=True)
    assert types(quantized_model, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])


def test_kernels_that_nothing_needs_are_told(net, quantized):
    n = net(1, 6, 6, 4)
    _, notes = quantized(n.done(n.conv(n.x, 4, "a")), SAMPLES)
    assert any("no UDOs" in note for note in notes)


def test_a_time_out_is_checked(net, kernels):
    with pytest.raises(UsageError, match="time-out"):
        quantize(sandwich(net), SAMPLES, udo_package_path=kernels, udo_timeout=-1.0)


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
    raises = algorithm == "mixed_precision"
    more = {"min_sqnr": 32.0} if raises else {"weights_bitwidth": 4}
    quantized_model, notes = quantized(model, SAMPLES, algorithms=[algorithm], **more)
    assert raises or types(quantized_model, "g_op") == ([UFIXED8, SFIXED8], [UFIXED8])
    assert (
        np.abs(
            float_data(op(quantized_model, "g_op").inputs[1]).numpy() - model.main.tensors["g_w"].numpy()
        ).max()
        < 0.02
    )
    assert any(note.startswith((algorithm, algorithm.replace("_", " "))) for note in notes)
    assert quality(kernels, model, quantized_model, SAMPLES, "out") > (31 if raises else 10)


def test_nothing_is_equalized_through_it(net, quantized):
    from xdlc.quant.equalization_chains import find_chains

    model = sandwich(net, "Relu", x="uint8", w="sfixed8", y="uint8")
    assert find_chains(model.main, lambda op: op.name == "a_op") == []


def test_the_choice_of_ranges_runs_it(net, quantized):
    _, notes = quantized(sandwich(net), SAMPLES, act_quantizer_calibration="auto")
    assert any(note.startswith("auto: ") for note in notes)


def test_a_report_measures_around_it(net, quantized, tmp_path):
    import json

    path = tmp_path / "r.json"
    model = sandwich(net, x="uint16", w="sfixed4", y="uint16")
    quantized(model, [*SAMPLES, *SAMPLES], report=path, act_bitwidth=16)
    report = json.loads(path.read_text())
    tensors = {entry["name"]: entry for entry in report["tensors"]}
    assert {"r", "g", "out", "g_w"} <= tensors.keys()
    assert tensors["g"]["sensitivity"] > 60  # its result alone
    ops = {entry["name"]: entry for entry in report["ops"]}
    assert ops["g_op"]["sensitivity"] < 30 < ops["a_op"]["sensitivity"]  # its weights of four bits too
    assert report["outputs"][0]["sqnr"] == pytest.approx(ops["g_op"]["sensitivity"], abs=3)


def test_processes_have_kernels_of_their_own(net, quantized):
    one, _ = quantized(sandwich(net), SAMPLES * 3)
    two, _ = quantized(sandwich(net), SAMPLES * 3, jobs=2)
    assert one.main.tensors["g"].encoding == two.main.tensors["g"].encoding
    assert one.main.tensors["out"].encoding == two.main.tensors["out"].encoding
    assert QuantOptions(jobs=2).stated() == QuantOptions().stated()


def test_branches_and_what_only_they_read(kernels, quantized):
    """Users' ops follow each other in a branch: no QNN op reads what is between."""
    from tests.support.control_flow_models import graph_of, model_of
    from tests.support.control_flow_models import op as append
    from xdlc.ir import Tensor, f32, string
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
    quantized_model, _ = quantized(model, samples)
    graph = quantized_model.graphs["main_then"]
    assert [o.type for o in graph.ops] == ["Quantize", "Gain", "Gain", "Dequantize"]
    branch = graph.tensors["one"]
    highest = max(
        float((np.maximum(s["x"], 0) * np.linspace(-1, 1, 8, dtype="f4") * 2).max()) for s in samples[::2]
    )
    assert branch.dtype is UFIXED8
    assert abs((255 + branch.encoding.offset) * branch.encoding.scale - highest) < 2 * branch.encoding.scale
    assert quality(kernels, model, quantized_model, samples, "y") > 25


@needs_cc
@pytest.mark.parametrize("jobs", [1, 2])
def test_compiled_kernels_of_a_plugin_run(net, tmp_path, jobs):
    n = net(1, 6, 6, 4)
    model = n.done(n.op("Scale", [n.neuron(n.x, 4, "r")], n.x.shape, "y", package="Math"))
    defined(model, "Scale", package="Math", x="uint8", y="uint8")
    binary = build_library(SAMPLE, tmp_path / "kernel.so", "-DPLAIN_KERNEL").read_bytes()
    values = (3, 0.0, "", np.zeros(2, "f4"))
    kernel = Kernel("plain", "plain_kernel", "ifso", values, f"linux-{MACHINE}", "cc 1", binary)
    with pytest.raises(UnsupportedOp) as caught:
        quantize(model, SAMPLES)
    assert "kernel_meta" in caught.value.fix
    folder = written(tmp_path, call(model, kernel, "y_op"))
    made = quantize(model, SAMPLES, udo_package_path=folder, jobs=jobs)
    highest = 3 * max(float(sample["x"].max()) for sample in SAMPLES)
    y = made.main.tensors["y"]
    assert y.dtype is UFIXED8
    assert abs((255 + y.encoding.offset) * y.encoding.scale - highest) < 2 * y.encoding.scale


@pytest.mark.parametrize(
    ("body", "message", "options"),
    [
        ("raise ValueError('no such luck')", "no such luck", {}),
        ("raise ValueError('no such luck')", "no such luck", {"jobs": 2}),
        ("import os; os.abort()", "SIGABRT", {}),
        ("import time; time.sleep(60)", "0.5 s", {"udo_timeout": 0.5}),
        ("return inputs[0][:, :2]", "shape", {}),
        ("return inputs[0] * np.float32('nan')", "NaN", {}),
    ],
)
def test_a_kernel_that_fails_is_named_with_op_and_sample(net, tmp_path, body, message, options):
    path = tmp_path / "bad.py"
    head = "import numpy as np\nfrom xdlc.udo import kernel\n"
    path.write_text(f"{head}@kernel('Pkg', 'Gain')\ndef gain(inputs, params, outputs):\n    {body}\n")
    with pytest.raises(XdlcError) as caught:
        quantize(sandwich(net), SAMPLES, udo_package_path=path, **options)
    text = str(caught.value)
    assert message in text
    assert "g_op" in text
    assert "calibration sample 0" in text
    if message == "NaN":
        assert caught.value.where == "calibration sample 0, tensor 'g' of op 'g_op' (Pkg::Gain)"
        assert caught.value.fix.startswith("check the kernel of Pkg::Gain, and that samples")
    else:
        assert "bad.py" in text
