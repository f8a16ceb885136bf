"""Recurrent layers of PyTorch, without torch."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram
from tests.support.formulas import sigmoid

STEPS, BATCH, WIDTH, UNITS = 3, 2, 4, 5


def gru(x, w, u, b, c):
    """Return the states of a GRU, gates in the order r, z, n."""
    state, states = np.zeros((BATCH, UNITS)), []
    for row in x:
        reset, update, new = np.split(row @ w.T + b, 3, axis=1)
        reset_state, update_state, new_state = np.split(state @ u.T + c, 3, axis=1)
        reset, update = sigmoid(reset + reset_state), sigmoid(update + update_state)
        state = (1 - update) * np.tanh(new + reset * new_state) + update * state
        states.append(state)
    return np.stack(states)


def rnn(x, w, u, b, c):
    """Return the states of an RNN with tanh."""
    state, states = np.zeros((BATCH, UNITS)), []
    for row in x:
        state = np.tanh(row @ w.T + b + state @ u.T + c)
        states.append(state)
    return np.stack(states)


@pytest.mark.parametrize(("type", "formula", "gates"), [("gru.input", gru, 3), ("rnn_tanh.input", rnn, 1)])
def test_both_directions_have_the_form_of_the_layer(tmp_path, type, formula, gates):
    rng = np.random.default_rng(0)
    shapes = [(gates * UNITS, WIDTH), (gates * UNITS, UNITS), (gates * UNITS,), (gates * UNITS,)]
    directions = [[rng.normal(0, 0.5, shape).astype(np.float32) for shape in shapes] for _ in range(2)]
    program = TinyProgram()
    params = [
        program.weight(f"p{number}", array) for number, array in enumerate([*directions[0], *directions[1]])
    ]
    states = program.input("h", (2, BATCH, UNITS))
    results = [((STEPS, BATCH, 2 * UNITS), "float32"), ((2, BATCH, UNITS), "float32")]
    options = (params, True, 1, 0.0, False, True, False)
    ends = program.op(type, program.input("x", (STEPS, BATCH, WIDTH)), states, *options, results=results)
    model = program.convert(tmp_path, ends)
    x = rng.normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32)
    outputs = xdlc.run(model, {"x": x, "h": np.zeros((2, BATCH, UNITS), np.float32)})
    every = outputs[model.main.outputs[0].name]
    forward, backward = formula(x, *directions[0]), formula(x[::-1], *directions[1])[::-1]
    np.testing.assert_allclose(every, np.concatenate([forward, backward], axis=2), atol=1e-5)
