import pytest

from xdlc.ir import u32
from xdlc.ir.dtype import UFIXED16
from xdlc.quant.range_methods.auto import HEADROOM, with_headroom
from xdlc.quant.ranges import NOTHING, Range

RELU, SQRT, LOG, ADD = 4, 15, 7, 0


def unary(n, x, operation, name):
    return n.op("ElementWiseUnary", [x], x.shape, name, operation=u32(operation))


def test_both_ends_move_away_from_zero(net):
    n = net(1, 4, 4, 3)
    c = n.conv(n.x, 4, "c")
    model = n.done(c)
    assert with_headroom(model.main, c, Range(-1.5, 4.0)) == Range(-1.5 * HEADROOM, 4.0 * HEADROOM)


def test_an_end_at_zero_or_beyond_stays(net):
    n = net(1, 4, 4, 3)
    r = n.neuron(n.x, RELU, "r")
    model = n.done(r)
    assert with_headroom(model.main, r, Range(0.0, 4.0)) == Range(0.0, 4.0 * HEADROOM)
    assert with_headroom(model.main, r, Range(2.0, 4.0)) == Range(2.0, 4.0 * HEADROOM)
    assert with_headroom(model.main, r, NOTHING) == NOTHING


def test_the_bounds_of_an_op_stay(net):
    n = net(1, 4, 4, 3)
    r = n.op("Relu6", [n.x], n.x.shape, "r")
    model = n.done(r)
    assert with_headroom(model.main, r, Range(0.0, 6.0)) == Range(0.0, 6.0)


@pytest.mark.parametrize("operation", [SQRT, LOG])
def test_small_values_keep_their_step_where_they_are_magnified(net, operation):
    n = net(1, 4, 4, 3)
    square = n.binary(n.x, n.x, 13, "square")
    total = n.reshape(n.binary(square, square, ADD, "total"), (1, 48), "flat")
    model = n.done(unary(n, total, operation, "y"))
    for tensor in (square, total):
        assert with_headroom(model.main, tensor, Range(0.0, 4.0)) == Range(0.0, 4.0)
    assert with_headroom(model.main, n.x, Range(-2.0, 2.0)).high == 2.0 * HEADROOM


def test_another_reader_wants_headroom_again(net):
    n = net(1, 4, 4, 3)
    square = n.binary(n.x, n.x, 13, "square")
    model = n.done(unary(n, square, SQRT, "y"), n.binary(square, n.x, 13, "z"))
    assert with_headroom(model.main, square, Range(0.0, 4.0)).high == 4.0 * HEADROOM


def test_auto_widens_activations_of_16_bits_alone(net, decided):
    n = net(1, 4, 4, 3)
    model = n.done(n.conv(n.x, 4, "c"))
    samples = n.samples(4)
    plain, _ = decided(model, samples, act_bitwidth=16, act_quantizer_calibration="min-max")
    wide, sources = decided(model, samples, act_bitwidth=16, act_quantizer_calibration="auto")
    assert wide["x"][0] is UFIXED16
    assert wide["x"][1].scale == pytest.approx(HEADROOM * plain["x"][1].scale)
    assert sources["x"] == "min-max and headroom of 4 samples"
