"""RNN, GRU and LSTM in all their forms, held to onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import xdlc
from tests.support.onnx_models import build, check, floats
from xdlc.errors import ModelError

STEPS, BATCH, WIDTH, UNITS = 4, 3, 5, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OUTPUTS = {"RNN": ("y", "h1"), "GRU": ("y", "h1"), "LSTM": ("y", "h1", "c1")}


def run(models, type, *, lengths=None, computed="", leave_out="", reference=False, **attributes):
    """Check a node; ``computed`` and ``leave_out`` name operands by their letter."""
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[type] * UNITS
    layout = attributes.get("layout", 0)
    x = floats(BATCH, STEPS, WIDTH) if layout else floats(STEPS, BATCH, WIDTH)
    state = (BATCH, ways, UNITS) if layout else (ways, BATCH, UNITS)
    operands = {
        "x": x,
        "w": floats(ways, rows, WIDTH) / 2,
        "r": floats(ways, rows, UNITS) / 2,
        "b": floats(ways, 2 * rows) / 2,
        "l": None if lengths is None else np.array(lengths, np.int32),
        "h": floats(*state),
    }
    if type == "LSTM":
        operands |= {"c": floats(*state), "p": floats(ways, 3 * UNITS)}
    operands = {name: None if name in leave_out else value for name, value in operands.items()}
    names = [name if value is not None else "" for name, value in operands.items()]
    node = helper.make_node(type, names, OUTPUTS[type], name="n", hidden_size=UNITS, **attributes)
    given = {name: value for name, value in operands.items() if value is not None}
    feeds = {name: given.pop(name) for name in ("x", *computed)}
    return check(models, [node], feeds, given, outputs=OUTPUTS[type], reference=reference)


@pytest.mark.parametrize("type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, (4, 2, 1), (3, 4, 2)])
def test_directions_and_lengths(models, type, direction, lengths):
    run(models, type, direction=direction, lengths=lengths)


@pytest.mark.parametrize("type", GATES)
@pytest.mark.parametrize("leave_out", ["b", "h", "bhcp"])
def test_operands_left_out(models, type, leave_out):
    run(models, type, leave_out=leave_out)


@pytest.mark.parametrize("type", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_operands_computed_at_run_time(models, type, direction):
    run(models, type, direction=direction, computed="wrbh")
    run(models, type, direction=direction, computed="h")


@pytest.mark.parametrize("type", GATES)
def test_clip(models, type):
    run(models, type, clip=0.3)


@pytest.mark.parametrize("type", GATES)
def test_batch_before_time(models, type):
    first = run(models, type, layout=1, leave_out="p", reference=True)
    assert {op.type for op in first.main.ops} & {"Lstm", "Gru", "ElementWiseNeuron"}


@pytest.mark.parametrize("lengths", [None, (4, 2, 1)])
def test_reset_gate_behind_the_product(models, lengths):
    run(models, "GRU", linear_before_reset=1, direction="bidirectional", lengths=lengths)


@pytest.mark.parametrize("after", [0, 1])
def test_a_gru_is_one_op_for_each_direction(models, after):
    model = run(models, "GRU", linear_before_reset=after, direction="bidirectional")
    found = [
        (op.param("direction"), op.param("linear_before_reset")) for op in model.main.ops if op.type == "Gru"
    ]
    assert found == [(0, after), (1, after)]


def test_coupled_gates(models):
    run(models, "LSTM", input_forget=1)


ACTIVATIONS = {
    "Relu": {},
    "Softsign": {},
    "Softplus": {},
    "Affine": {"activation_alpha": [0.7], "activation_beta": [0.2]},
    "LeakyRelu": {"activation_alpha": [0.2]},
    "ThresholdedRelu": {"activation_alpha": [0.3]},
    "ScaledTanh": {"activation_alpha": [0.6], "activation_beta": [0.4]},
    "HardSigmoid": {"activation_alpha": [0.3], "activation_beta": [0.4]},
    "Elu": {"activation_alpha": [0.7]},
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(models, name):
    run(models, "RNN", activations=[name], **ACTIVATIONS[name])


def test_activations_take_their_numbers_in_turn(models):
    names = ["HardSigmoid", "Relu", "LeakyRelu"]
    run(models, "LSTM", activations=names, activation_alpha=[0.3, 0.1], activation_beta=[0.45])


def test_long_sequences_are_kept_for_the_host(models):
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=2)
    weights = {"w": floats(1, 2, 3), "r": floats(1, 2, 2) / 4}
    check(models, [node], {"x": floats(200, 1, 3)}, weights, native=False)


@pytest.mark.parametrize("ways", [1, 2])
def test_single_steps_have_no_time_axis(models, ways):
    names = ["x", "w", "r", "", "", "h", "c"]
    node = helper.make_node(
        "LSTM", names, OUTPUTS["LSTM"], hidden_size=3, direction="forward" if ways == 1 else "bidirectional"
    )
    weights = {"w": floats(ways, 12, 5), "r": floats(ways, 12, 3)}
    feeds = {"x": floats(1, 2, 5), "h": floats(ways, 2, 3), "c": floats(ways, 2, 3)}
    model = check(models, [node], feeds, weights, outputs=OUTPUTS["LSTM"])
    steps = [op for op in model.main.ops if op.type == "Lstm"]
    assert [op.inputs[0].shape for op in steps] == [(2, 5)] * ways


@pytest.mark.parametrize(
    ("operand", "shape"), [("w", (1, 15, 5)), ("r", (2, 16, 4)), ("b", (1, 31)), ("p", (1, 11))]
)
def test_weights_of_other_sizes_are_refused(models, operand, shape):
    weights = {"w": (1, 16, 5), "r": (1, 16, 4), "b": (1, 32), "p": (1, 12)} | {operand: shape}
    node = helper.make_node("LSTM", ["x", "w", "r", "b", "", "", "", "p"], ["y"], hidden_size=4)
    arrays = {name: floats(*size) for name, size in weights.items()}
    model = build([node], {"x": floats(2, 1, 5)}, arrays, ["y"], opset=17)
    with pytest.raises(ModelError, match="do not fit"):
        xdlc.convert(models.save(model))
