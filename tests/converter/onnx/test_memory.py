"""Memory of a conversion follows the largest tensor, not the model."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from onnx import helper

COUNT, EXTENT = 40, 720  # 40 weights of 2 MB
CHILD = """
import resource, sys
import numpy, xdlc, xdlc.container, xdlc.converter.onnx.reader
from xdlc.converter.operators import protobuf, registry
registry.load_all(); protobuf.messages()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
xdlc.convert(sys.argv[1]).save(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss counts kilobytes on Linux only")
@pytest.mark.parametrize("type", ["MatMul", "Gemm"])
def test_embedded_weights_pass_one_by_one(models, tmp_path, type):
    rng = np.random.default_rng(0)
    names = [f"v{index}" for index in range(COUNT)]
    weights = {f"w{index}": rng.random((EXTENT, EXTENT), np.float32) for index in range(COUNT)}
    nodes = [
        helper.make_node(type, [source, f"w{index}"], [names[index]])
        for index, source in enumerate(["x", *names[:-1]])
    ]
    path = models.save(models.make(nodes, {"x": [1, EXTENT]}, {names[-1]: [1, EXTENT]}, weights))
    weights.clear()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, path, tmp_path / "m.dlc"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 30 * 1024
    assert path.stat().st_size > 75 * 1024 * 1024


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss counts kilobytes on Linux only")
def test_weights_that_the_model_fills_are_written_in_pieces(models, tmp_path):
    """Those of the test models of the onnx package, of which light_vgg19 has 500 MB."""
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["w"]),
        helper.make_node("Tile", ["t", "r"], ["u"]),
        helper.make_node("Reshape", ["u", "q"], ["v"]),
        helper.make_node("Gemm", ["x", "w"], ["a"], transB=1, alpha=0.5),
        helper.make_node("Gemm", ["a", "v"], ["y"]),
    ]
    weights = {"s": np.array([4096, 4096]), "t": np.ones((2, 3), np.float32), "r": np.array([1024, 1998])}
    weights["q"] = np.array([4096, 2997])
    path = models.save(models.make(nodes, {"x": [1, 4096]}, {"y": [1, 2997]}, weights))
    target = tmp_path / "m.dlc"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, path, target], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 40 * 1024
    assert target.stat().st_size > 100 * 1024 * 1024
