"""TorchScript that torch writes: numbers equal to torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xdlc
from xdlc import ir

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def modules() -> dict[str, tuple[Any, list[Any]]]:
    """Return networks and their inputs by name."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(4, 6)

        def forward(self, x):
            h, c = torch.zeros(x.size(1), 6), torch.zeros(x.size(1), 6)
            found = []
            for step in range(x.size(0)):
                h, c = self.cell(x[step], (h, c))
                found.append(h)
            return torch.stack(found), (h, c)

    class Moves(nn.Module):
        def forward(self, x):
            y = x.clone()
            y[:, 0] = 0
            y[:, 1, :2] += 1
            return (
                F.interpolate(x, scale_factor=2.0, mode="bilinear"),
                F.pad(x, [1, 2, 3, 4], mode="reflect"),
                F.adaptive_avg_pool2d(x, (3, 2)),
                x[..., None][:, :, ::2, 1:-1],
                x[:, [0, 2]],
                torch.where(x > 0, x, x * 0.1),
                torch.einsum("bchw,bcw->bh", x, x.mean(2)),
                y,
            )

    class Decides(nn.Module):
        def forward(self, x):
            count = 0
            while count < 3:
                x, count = x * 0.5, count + 1
            return (x if x.max() > 0.1 else x - 1), count

    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("past", torch.zeros(2, 4))

        def forward(self, x):
            self.past = self.past * 0.5 + x
            return self.past * 2

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(4, 5, 2, bidirectional=True)

        def forward(self, x):
            return self.rnn(x)

    norm = nn.BatchNorm2d(8)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), norm, nn.ReLU(), nn.Flatten(), nn.Linear(512, 4))
    linear = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
    return {
        "convolutions": (net, [torch.randn(1, 3, 8, 8)]),
        "cells": (Cells(), [torch.randn(3, 2, 4)]),
        "LSTM": (Recurrent(), [torch.randn(3, 2, 4)]),
        "attention": (nn.TransformerEncoder(layer, 2), [torch.randn(2, 5, 16)]),
        "moves": (Moves(), [torch.randn(1, 3, 8, 8)]),
        "decides": (Decides(), [torch.randn(2, 4)]),
        "holds": (Holds(), [torch.randn(2, 4)]),
        "dynamic": (torch.ao.quantization.quantize_dynamic(linear, {nn.Linear}), [torch.randn(3, 8)]),
    }


NAMES = ["convolutions", "cells", "LSTM", "attention", "moves", "decides", "holds", "dynamic"]


def _leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple | list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [np.asarray(value)]


def _runs(model: ir.Model, steps: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """Return the outputs of one run after the other, states carried along."""
    states = model.metadata.get("states", {})
    state_values = {}
    for each in model.main.inputs:
        if each.name in states:
            initial = np.asarray(states[each.name]["initial"], each.dtype.numpy)
            state_values[each.name] = np.broadcast_to(initial, each.shape)
    names = [each.name for each in model.main.inputs if each.name not in states]
    runs = []
    for arrays in steps:
        results = xdlc.run(model, dict(zip(names, arrays, strict=True)) | state_values)
        state_values = {name: results.pop(state["output"]) for name, state in states.items()}
        runs.append([results[each.name] for each in model.main.outputs if each.name in results])
    return runs


WAYS = [(name, way) for name in NAMES for way in ("script", "trace", "freeze")]
WAYS = [each for each in WAYS if each not in (("decides", "trace"), ("holds", "trace"))]  # not in a trace


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_numbers_are_those_of_torch(torch: Any, tmp_path: Any, name: str, way: str) -> None:
    torch.manual_seed(0)
    network, inputs = modules()[name]
    network.eval()
    with torch.no_grad():
        script = torch.jit.trace(network, tuple(inputs)) if way == "trace" else torch.jit.script(network)
        if way == "freeze":
            script = torch.jit.freeze(script)
        path = tmp_path / "net.pt"
        script.save(str(path))
        script = torch.jit.load(str(path))
        steps = [[each * (step + 1) for each in inputs] for step in range(3)]
        torch_runs = [_leaves(script(*step)) for step in steps]
    names = [each.name for each in script.forward.schema.arguments[1:]]
    dims = {key: list(each.shape) for key, each in zip(names, inputs, strict=False)}
    model = xdlc.convert(path, dims)
    found = _runs(model, [[each.numpy() for each in step] for step in steps])
    for one, other in zip(found, torch_runs, strict=True):
        for array, expected in zip(one, other, strict=True):
            np.testing.assert_allclose(array, expected, rtol=2e-4, atol=2e-5)
