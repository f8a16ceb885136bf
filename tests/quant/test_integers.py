import numpy as np
import pytest

from tests.quant.conftest import Net
from xdlc.ir import ScaleOffset, Tensor, b8, make_op, static, u32
from xdlc.ir.dtype import INT32
from xdlc.quant import quantize

ADD, MULTIPLY = 0, 13


def net_of(shift, channels):
    """Return a net that halves the number of the largest channel, less ``shift``."""
    net = Net(1, 4, 4, channels)
    number = Tensor("number", (1, 4, 4), INT32)
    params = {"axis": u32(3), "keep_dims": b8(False)}
    net.graph.append(make_op(net.graph, "Argmax", [net.x], [number], params, name="number_op"))
    if shift:
        moved = Tensor("moved", (1, 4, 4), INT32)
        amount = static("amount", np.int32([-shift]))
        params = {"operation": u32(ADD)}
        net.graph.append(
            make_op(net.graph, "ElementWiseBinary", [number, amount], [moved], params, name="moved_op")
        )
        number = moved
    real = net.op("Cast", [number], (1, 4, 4), "real")
    return net, net.done(net.binary(real, static("half", np.float32([0.5])), MULTIPLY, "y"))


@pytest.mark.parametrize(("bits", "channels"), [(8, 6), (16, 400)])
def test_the_stored_value_is_the_integer(bits, channels):
    net, model = net_of(0, channels)
    real = quantize(model, net.samples(4), act_bitwidth=bits).main.tensors["real"]
    assert (real.dtype.bits, real.encoding) == (bits, ScaleOffset(1.0, 0, real.encoding.bits))


@pytest.mark.parametrize(("shift", "channels"), [(2, 6), (0, 400)])
def test_integers_that_do_not_fit_become_floats_first(shift, channels):
    net, model = net_of(shift, channels)
    graph = quantize(model, net.samples(4)).main
    assert graph.tensors["real"].dtype.is_float
    (reader,) = graph.consumers(graph.tensors["real"])
    assert reader.type == "Quantize"
