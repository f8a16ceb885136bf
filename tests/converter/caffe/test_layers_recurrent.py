"""LSTM, LSTMUnit and RNN of Caffe, step by step against formulas in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.converter.caffe import nets
from tests.support.formulas import sigmoid

RANDOM = np.random.default_rng(3)
BATCH, WIDTH, STATIC, UNITS = 2, 3, 2, 4


def real(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 0.5, shape).astype(np.float32)


def lstm(x: np.ndarray, cont: np.ndarray, extra: np.ndarray, states: list, blobs: list) -> list[np.ndarray]:
    """Return all outputs and the last states; gates are i f o g."""
    weight, bias, static, recurrence = blobs
    hidden, cell = states
    rows = []
    for row, keep in zip(x, cont[..., None], strict=True):
        hidden, cell = hidden * keep, cell * keep
        i, f, o, g = np.split(row @ weight.T + bias + extra @ static.T + hidden @ recurrence.T, 4, 1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        rows.append(hidden)
    return [np.stack(rows), hidden[None], cell[None]]


def rnn(x: np.ndarray, cont: np.ndarray, extra: np.ndarray, states: list, blobs: list) -> list[np.ndarray]:
    weight, bias, static, recurrence, out, summand = blobs
    (hidden,) = states
    rows = []
    for row, keep in zip(x, cont[..., None], strict=True):
        hidden = np.tanh(row @ weight.T + bias + extra @ static.T + (hidden * keep) @ recurrence.T)
        rows.append(np.tanh(hidden @ out.T + summand))
    return [np.stack(rows), hidden[None]]


@pytest.mark.parametrize("steps", [3, 20])
@pytest.mark.parametrize("type", ["LSTM", "RNN"])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_steps(type: str, is_fixed: bool, steps: int, tmp_path: Path) -> None:
    gates, formula = (4, lstm) if type == "LSTM" else (1, rnn)
    rows = gates * UNITS
    blobs = [real(rows, WIDTH), real(rows), real(rows, STATIC), real(rows, UNITS)]
    blobs += [] if type == "LSTM" else [real(UNITS, UNITS), real(UNITS)]
    cont = np.ones((steps, BATCH), np.float32)
    cont[0] = 0.5
    if not is_fixed:
        cont[1:] = RANDOM.integers(0, 2, (steps - 1, BATCH))
    inputs = {"x": real(steps, BATCH, WIDTH), "cont": cont, "extra": real(BATCH, STATIC)}
    states = {f"state{index}": real(1, BATCH, UNITS) for index in range(2 if type == "LSTM" else 1)}
    inputs |= states
    text = "".join(nets.data(*array.shape, name=name) for name, array in inputs.items())
    own = f"recurrent_param {{ num_output: {UNITS} expose_hidden: true }}"
    ends = ["y", *(f"last{index}" for index in range(len(states)))]
    text += nets.layer(type, own, " ".join(inputs), " ".join(ends))
    net, files = nets.write(tmp_path, text, {"y": blobs})
    fixed = {"set_inputs": {"cont": inputs.pop("cont")}} if is_fixed else {}
    model = xdlc.convert(net, **files, **fixed)
    xdlc.save(model, tmp_path / "net.dlc")
    got = xdlc.run(tmp_path / "net.dlc", inputs)
    wanted = formula(inputs["x"], cont, inputs["extra"], [each[0] for each in states.values()], blobs)
    for name, array in zip(ends, wanted, strict=True):
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5)


def test_last_part_of_one_step(tmp_path: Path) -> None:
    inputs = {"c": real(1, BATCH, UNITS), "gates": real(1, BATCH, 4 * UNITS), "cont": np.float32([[0, 1]])}
    text = "".join(nets.data(*array.shape, name=name) for name, array in inputs.items())
    got = nets.run(tmp_path, text + nets.layer("LSTMUnit", "", "c gates cont", "new h"), inputs)
    i, f, o, g = np.split(inputs["gates"], 4, 2)
    cell = sigmoid(f) * inputs["cont"][..., None] * inputs["c"] + sigmoid(i) * np.tanh(g)
    np.testing.assert_allclose(got["new"], cell, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got["h"], sigmoid(o) * np.tanh(cell), rtol=1e-4, atol=1e-5)
