"""Random graphs as layers of SNPE 1: what a file of format 3 gives back computes the same, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.properties.test_random_graphs import Random
from xdlc import api
from xdlc.converter.snpe import to_layers, translate
from xdlc.ir import equality
from xdlc.runtime import CpuSession

GRAPHS = 12


@pytest.mark.parametrize("seed", range(GRAPHS))
@pytest.mark.parametrize("quantized", [False, True])
def test_random_graph_as_layers(models, seed, quantized):
    path = models.save(Random(seed).model())
    feeds = {"x": np.random.default_rng(seed).standard_normal((1, 4, 6, 6)).astype(np.float32)}
    model = xdlc.convert(path)
    if quantized:
        model = xdlc.quantize(model, [feeds])
    target = path.with_suffix(".dlc")
    api.save(model, target, "3")
    held = xdlc.load(target)
    assert equality.differences(held.main, to_layers(model).main) == []
    expected = CpuSession(model, threads=1).run(feeds, native=True)
    found = CpuSession(translate(held), threads=1).run(feeds, native=True)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
