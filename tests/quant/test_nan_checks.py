"""NaN checks of fixed-point values go; those of floats stay."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import xdlc
from xdlc.errors import ModelError

RNG = np.random.default_rng(0)
SAMPLES = [{"x": RNG.standard_normal((4, 16), np.float32)} for _ in range(6)]


@pytest.fixture(params=["inside", "output"])
def guarded(request, tmp_path):
    """Softmax, IsNaN and Where as PyTorch exports attention, inside or at the end."""
    weights = RNG.standard_normal((16, 16), np.float32) / 4
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"], "softmax", axis=-1),
        helper.make_node("IsNaN", ["p"], ["flags"], "isnan"),
        helper.make_node(
            "Where", ["flags", "zero", "p"], ["y" if request.param == "output" else "safe"], "where"
        ),
    ]
    if request.param == "inside":
        nodes.append(helper.make_node("MatMul", ["safe", "w"], ["y"]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 16]) for name in ("x", "y")]
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.float32(0), "zero")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    return xdlc.convert(tmp_path / "m.onnx")


@pytest.mark.parametrize("bits", [8, 16])
def test_checks_of_fixed_point_go(guarded, bits):
    notes = []
    quantized = xdlc.quantize(guarded, SAMPLES, act_bitwidth=bits, notify=notes.append)
    assert not {"IsNan", "ElementWiseSelect"} & {op.type for op in quantized.main.ops}
    assert any("'isnan'" in note for note in notes)
    assert {"isnan", "where"} <= {node for op in quantized.main.ops for node in op.origin.nodes}
    wanted, found = (xdlc.run(model, SAMPLES[0])["y"] for model in (guarded, quantized))
    assert np.abs(found - wanted).max() <= 0.05 * np.abs(wanted).max()


def test_checks_of_floats_stay(guarded):
    quantized = xdlc.quantize(guarded, SAMPLES, float_ops=["softmax"])
    assert {"IsNan", "ElementWiseSelect"} <= {op.type for op in quantized.main.ops}


def test_the_flag_keeps_checks(guarded):
    notes = []
    kept = xdlc.quantize(guarded, SAMPLES, drop_nan_checks=False, notify=notes.append)
    assert {"IsNan", "ElementWiseSelect"} <= {op.type for op in kept.main.ops}
    assert not any("removed" in note for note in notes)
    wanted, found = (xdlc.run(model, SAMPLES[0])["y"] for model in (guarded, kept))
    assert np.abs(found - wanted).max() <= 0.05 * np.abs(wanted).max()


def test_a_sample_that_needs_the_check_is_refused(guarded):
    """No encoding holds the NaN of the check's branch: the sample is refused."""
    samples = [{"x": np.full((4, 16), 3e38, np.float32)}, *SAMPLES]  # the products overflow to NaN
    with pytest.raises(ModelError, match="the float model computes"):
        xdlc.quantize(guarded, samples)
