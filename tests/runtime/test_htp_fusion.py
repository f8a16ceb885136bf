import numpy as np
import pytest

from tests.support.running import run, run_htp
from xdlc.ir import AxisScaleOffset, Graph, Op, ScaleOffset, Tensor, make_op, static, u32
from xdlc.ir.dtype import SFIXED8, SFIXED32, UFIXED8
from xdlc.runtime.htp_fusion import gate_of, shapes_product

HARD_SWISH, RELU, SIGMOID, GELU, MULTIPLY = 3, 4, 6, 1, 13
COARSE = ScaleOffset(0.16, -125)


def graph_of(activation, width=32):
    """A convolution with a coarse result, an activation, and a fine result."""
    rng = np.random.default_rng(0)
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 8, 8, width), UFIXED8, ScaleOffset(0.02, -120)))
    scales = tuple(np.float32(rng.uniform(0.005, 0.01, width)))
    weight = np.clip(rng.normal(0, 40, (1, 1, width, width)), -127, 127).astype(np.int8)
    inputs = [
        x,
        static("w", weight, SFIXED8, AxisScaleOffset(3, scales)),
        static("b", np.zeros(width, np.int32), SFIXED32, AxisScaleOffset(0, tuple(0.02 * s for s in scales))),
    ]
    middle = Tensor("middle", x.shape, UFIXED8, COARSE)
    params = {
        "stride": static("s", np.ones(2, np.uint32)),
        "pad_amount": static("p", np.zeros((2, 2), np.uint32)),
    }
    graph.append(make_op(graph, "Conv2d", inputs, [middle], params, name="conv"))
    result = Tensor("y", x.shape, UFIXED8, ScaleOffset(0.05, -20))
    activation(graph, middle, result)
    graph.add_output(result)
    return graph, {"x": rng.integers(0, 256, x.shape).astype(np.uint8)}


def neuron(operation):
    def add(graph, source, result):
        params = {"operation": u32(operation)}
        graph.append(make_op(graph, "ElementWiseNeuron", [source], [result], params, name="act"))

    return add


def prelu(graph, source, result):
    slope = static("slope", np.array([200], np.uint8), UFIXED8, ScaleOffset(0.001))
    graph.append(make_op(graph, "Prelu", [source, slope], [result], name="act"))


def silu(graph, source, result):
    gate = Tensor("gate", source.shape, UFIXED8, ScaleOffset(1 / 256))
    neuron(SIGMOID)(graph, source, gate)
    params = {"operation": u32(MULTIPLY)}
    graph.append(make_op(graph, "ElementWiseBinary", [source, gate], [result], params, name="product"))


def steps_used(graph, feeds):
    return len(np.unique(run(graph, feeds, native=True)["y"]))


@pytest.mark.parametrize("activation", [neuron(RELU), neuron(HARD_SWISH), prelu])
def test_fused_functions_read_what_is_not_rounded(activation):
    graph, feeds = graph_of(activation)
    fine = run(graph, feeds, native=True)["y"]
    middle = graph.tensors["middle"]
    middle.encoding = ScaleOffset(100 * COARSE.scale, -125)  # whatever encoding it has
    np.testing.assert_array_equal(run(graph, feeds, native=True)["y"], fine)


def test_other_functions_read_rounded_values():
    graph, feeds = graph_of(neuron(GELU))
    assert steps_used(graph, feeds) < 128


def test_the_tensor_between_is_rounded_where_it_is_read():
    graph, feeds = graph_of(prelu)
    graph.add_output(graph.tensors["middle"])
    middle = run(graph, feeds)["middle"]
    np.testing.assert_allclose(middle / COARSE.scale, np.rint(middle / COARSE.scale), atol=1e-3)


def test_the_gate_of_a_silu_is_not_rounded():
    graph, feeds = graph_of(silu)
    fine = run(graph, feeds, native=True)["y"]
    graph.tensors["gate"].encoding = ScaleOffset(1 / 4)
    np.testing.assert_array_equal(run(graph, feeds, native=True)["y"], fine)


def single(kind):
    def add(graph, source, result):
        graph.append(make_op(graph, kind, [source], [result], name="act"))

    return add


@pytest.mark.vendor
@pytest.mark.parametrize("kind", ["Sigmoid", "Tanh", "Elu", "Gelu"])
def test_functions_of_their_own_type_leave_the_product_as_it_is(kind, vendor_check):
    graph, feeds = graph_of(single(kind))
    np.testing.assert_array_equal(
        run_htp(graph, feeds, native=True)["y"], run(graph, feeds, native=True)["y"]
    )


def test_ops_that_decide_how_a_product_is_rounded():
    types = ("ElementWiseNeuron", "Relu", "Relu6", "Prelu", "HardSwish", "Sigmoid", "Tanh", "Elu", "Gelu")
    source, result = (Tensor(name, (1, 4), UFIXED8, COARSE) for name in "ab")
    ops = [Op(kind, [source], [result], {"operation": u32(SIGMOID)}, name=kind) for kind in types]
    assert [op.type for op in ops if shapes_product(op)] == list(types[:5])


@pytest.mark.vendor
@pytest.mark.parametrize("activation", [neuron(RELU), neuron(HARD_SWISH), neuron(GELU), prelu, silu])
def test_as_the_emulation_does(activation, vendor_check):
    graph, feeds = graph_of(activation)
    theirs = run_htp(graph, feeds, native=True)["y"].astype(int)
    ours = run(graph, feeds, native=True)["y"].astype(int)
    assert np.mean(theirs != ours) < 0.05


def test_only_a_product_has_a_gate():
    graph, _ = graph_of(silu)
    product = graph.last
    assert gate_of(product) is graph.tensors["gate"]
    added = Tensor("sum", product.inputs[0].shape, UFIXED8, COARSE)
    total = make_op(graph, "ElementWiseAdd", product.inputs, [added], {}, name="sum")
    single = make_op(graph, "Relu", product.inputs[1:], [added], {}, name="single")
    assert gate_of(total) is None
    assert gate_of(single) is None
