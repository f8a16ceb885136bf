"""Steps of training, held to ONNX's reference implementation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import check, floats, node

DOMAIN = "ai.onnx.preview.training"
ATTRIBUTES = {
    "Adagrad": {"decay_factor": 0.1, "epsilon": 1e-3, "norm_coefficient": 0.01},
    "Adam": {
        "alpha": 0.95,
        "beta": 0.9,
        "epsilon": 1e-5,
        "norm_coefficient": 0.01,
        "norm_coefficient_post": 0.02,
    },
    "Momentum": {"alpha": 0.95, "beta": 0.1, "mode": "standard", "norm_coefficient": 0.01},
    "Nesterov": {"alpha": 0.95, "beta": 0.1, "mode": "nesterov", "norm_coefficient": 0.01},
}
KINDS = {"Adagrad": 3, "Adam": 4, "Momentum": 3, "Nesterov": 3}


@pytest.mark.parametrize("iteration", [0, 3])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_one_step(models, name, count, iteration):
    kinds = KINDS[name]
    feeds = {"rate": np.array(0.1, np.float32), "t": np.array(iteration)}
    feeds |= {f"v{index}": np.abs(floats(2, 3)) for index in range(kinds * count)}
    outputs = [f"o{index}" for index in range((kinds - 1) * count)]
    type = "Momentum" if name == "Nesterov" else name
    nodes = [node(type, " ".join(feeds), " ".join(outputs), domain=DOMAIN, **ATTRIBUTES[name])]
    check(models, nodes, feeds, outputs=outputs, reference=True)
