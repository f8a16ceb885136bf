from tests.support.section_models import RELU, Net
from xdlc.ir import AxisScaleOffset, Model, Op, Tensor, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.prepare.hta import op_support


def why(model):
    """Return why HTA does not take ops, by op type."""
    found = op_support.reasons(model.main.ops, model.main.inputs)
    return {op.type: "; ".join(reasons) for op, reasons in found.items()}


def test_a_quantized_cnn_is_taken():
    net = Net()
    assert why(net.quantized(net.conv(net.input(1, 4, 4, 3), 4))) == {}


def test_what_the_network_takes_in():
    net = Net()
    found = why(net.quantized(net.conv(net.input(1, 4, 4, 17), 4)))
    assert "expected at most 16 channels on axis 3, found shape [1, 4, 4, 17]" in found["Conv2d"]
    net = Net()
    found = why(net.quantized(net.op("FullyConnected", [net.input(1, 8), net.weights(4, 8)], (1, 4))))
    assert "expected 4 axes, NHWC, found rank 2 [1, 8]" in found["FullyConnected"]


def test_operations_that_hta_lacks():
    net = Net()
    found = why(net.quantized(net.transpose(net.conv(net.input(1, 4, 4, 3), 4), 0, 3, 1, 2)))
    assert found == {"Transpose": "type: expected an operation that HTA has, found Transpose"}


def test_a_concatenation_is_one_of_channels():
    net = Net()
    x = net.conv(net.input(1, 4, 4, 3), 4)
    model = net.quantized(net.op("Concat", [x, x], (1, 4, 8, 4), axis=u32(2)))
    assert "found value is 2 and rank(in[0]) - 1 is 3" in why(model)["Concat"]


def test_batches():
    net = Net()
    (found,) = why(net.quantized(net.conv(net.input(2, 4, 4, 3), 4))).values()
    assert "expected extent(0) = 1, found extent(0) is 2" in found


def test_encodings_and_dynamic_dimensions():
    net = Net()
    model = net.quantized(net.neuron(net.conv(net.input(1, 4, 4, 3), 4), RELU))
    conv, relu = model.main.ops
    conv.outputs[0].encoding = AxisScaleOffset(3, (0.1,) * 4)
    relu.outputs[0].dynamic_axes = (1,)
    found = why(model)
    assert "expected one scale and offset, found AxisScaleOffset" in found["Conv2d"]
    assert "found a dynamic dimension on axis 1" in found["ElementWiseNeuron"]


def test_float_and_custom_ops():
    net = Net()
    x = net.conv(net.input(1, 4, 4, 3), 4)
    net.graph.append(Op("Mine", [x], [Tensor("mine", x.shape, FLOAT32)], name="mine", package="own"))
    net.graph.add_output(net.graph.tensors["mine"])
    found = why(Model({"net": net.graph}))
    assert found["Mine"] == "package: expected qti.aisw, found own"
    assert "expected data type ufixed8 or ufixed16, found float32" in found["Conv2d"]
