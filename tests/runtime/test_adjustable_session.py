import numpy as np
import pytest

from tests.support.control_flow_models import if_model
from xdlc.errors import UsageError
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, make_op, static, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.quant import quantize
from xdlc.runtime.cpu import AdjustableSession, CpuSession
from xdlc.runtime.lower import lower


def model():
    rng = np.random.default_rng(0)
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 6, 6, 3), FLOAT32))
    c, y = Tensor("c", (1, 6, 6, 4), FLOAT32), Tensor("y", (1, 6, 6, 4), FLOAT32)
    inputs = [
        x,
        static("w", rng.standard_normal((3, 3, 3, 4)).astype(np.float32)),
        static("b", rng.standard_normal(4).astype(np.float32)),
    ]
    params = {
        "stride": static("s", np.ones(2, np.uint32)),
        "dilation": static("d", np.ones(2, np.uint32)),
        "pad_amount": static("p", np.ones((2, 2), np.uint32)),
        "group": u32(1),
    }
    graph.append(make_op(graph, "Conv2d", inputs, [c], params, name="conv"))
    graph.append(make_op(graph, "ElementWiseNeuron", [c], [y], {"operation": u32(4)}, name="relu"))
    graph.add_output(y)
    found = Model()
    found.add_graph(graph)
    return found


def samples(count, seed=0):
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((1, 6, 6, 3)).astype(np.float32)} for _ in range(count)]


def test_own_encodings_give_what_a_fixed_session_gives():
    quantized = quantize(model(), samples(2))
    session = AdjustableSession(quantized, ["y"])
    fed = session.encodings({})
    step = quantized.main.tensors["y"].encoding.scale
    for sample in samples(3, seed=1):
        wanted = CpuSession(quantized.main).run(sample)["y"]
        assert np.abs(session.run(sample, fed)["y"] - wanted).max() <= 1.01 * step


def test_fed_encodings_count():
    quantized = quantize(model(), samples(2))
    session = AdjustableSession(quantized, ["y"])
    (sample,) = samples(1)
    coarse = ScaleOffset(1.0, 0)
    found = session.run(sample, session.encodings({"c": coarse, "y": coarse}))["y"]
    assert found.any()
    assert np.array_equal(found, np.rint(found))


def test_encodings_are_fed_to_products_too():
    quantized = quantize(model(), samples(2))
    session = AdjustableSession(quantized, ["c"])
    (sample,) = samples(1)
    found = session.run(sample, session.encodings({"c": ScaleOffset(1.0, -128)}))["c"]
    real = CpuSession(model(), quantized=False, outputs=["c"]).run(sample)["c"]
    assert np.abs(found - real).max() < 0.6


def test_a_product_of_bytes_and_its_clamp_are_one_node():
    lowered = lower(quantize(model(), samples(2)).main, adjustable=True)
    kinds = [node.op_type for node in lowered.proto.graph.node]
    assert kinds.count("QLinearConv") == 1
    assert not {"Conv", "Relu"} & set(kinds)


def test_a_clamp_stays_where_the_encoding_holds_values_beyond_it():
    quantized = quantize(model(), samples(2)).main
    held = ScaleOffset(0.1, -100)
    quantized.tensors["y"].encoding = quantized.tensors["c"].encoding = held
    session = AdjustableSession(Model({"g": quantized}), ["y"])
    (sample,) = samples(1)
    assert session.run(sample, session.encodings({}))["y"].min() == 0.0


def test_products_of_wider_values_compute_in_float():
    lowered = lower(quantize(model(), samples(2), act_bitwidth=16).main, adjustable=True)
    kinds = [node.op_type for node in lowered.proto.graph.node]
    assert "Conv" in kinds
    assert not any(
        node.op_type == "DequantizeLinear" and node.input[0] == "w" for node in lowered.proto.graph.node
    )


def test_an_encoding_per_channel_is_refused():
    session = AdjustableSession(quantize(model(), samples(1)), ["y"])
    with pytest.raises(UsageError, match="needs one scale and offset"):
        session.encodings({"y": None})


def test_a_graph_that_runs_others_is_refused():
    with pytest.raises(UsageError, match="runs other graphs"):
        AdjustableSession(if_model(), [])
