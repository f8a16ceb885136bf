"""Keras networks of today's TensorFlow: right numbers, few operations."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import relative_error
from xdlc.opdefs.traits import operation_name

pytestmark = pytest.mark.frameworks
NETWORKS = ("mobilenet_v2", "mobilenet_v3", "formulas")
FLOAT = {"saved_model": "saved_model", "frozen.pb": "saved_model", "float.tflite": "float"}
"""Float forms of a network, and the results that they have."""
PYTHON = os.environ.get("XDLC_FRAMEWORKS_PYTHON")
"""Interpreter with TensorFlow, if not this one."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the networks, written by a TensorFlow process."""
    if PYTHON is None:
        for module in ("tensorflow", "ai_edge_litert"):
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"{module} is not installed: pip install 'xdlc[test-frameworks]'")
    folder = tmp_path_factory.mktemp("keras")
    script = Path(__file__).with_name("keras_networks.py")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [PYTHON or sys.executable, script, folder], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def converted(path: Path) -> tuple[Any, Counter[str], dict[str, Any]]:
    """Return a file's model, its number of operations, TensorFlow's results."""
    model = xdlc.convert(path, notify=lambda _: None, batch=1 if path.is_dir() else None)
    with np.load(path.parent / "results.npz") as stored:
        results = dict(stored)
    return model, Counter(operation_name(op) for op in model.main.ops), results


def run(model: Any, x: Any) -> Any:
    (result,) = xdlc.run(model, {model.main.inputs[0].name: x}).values()
    return result


@pytest.mark.parametrize("form", FLOAT)
@pytest.mark.parametrize("name", NETWORKS)
def test_float_networks_match(written: Path, name: str, form: str) -> None:
    model, counts, results = converted(written / name / form)
    assert relative_error(run(model, results["x"]), results[FLOAT[form]]) <= 1e-4
    assert {op.package for op in model.main.ops} == {xdlc.ir.NATIVE_PACKAGE}
    assert not counts["Transpose"]
    norms = ("ElementWiseRsqrt", "ElementWiseSquaredDifference", "ElementWiseDivide", "ElementWiseSubtract")
    assert not any(counts[name] for name in norms)


@pytest.mark.parametrize("form", FLOAT)
def test_a_convolution_takes_its_batch_norm(written: Path, form: str) -> None:
    _, counts, _ = converted(written / "mobilenet_v2" / form)
    wanted = {"Conv2d": 35, "DepthWiseConv2d": 17, "ElementWiseAdd": 10, "FullyConnected": 1}
    assert counts == {**wanted, "ReduceMean": 1, "ReluMinMax": 35, "Softmax": 1}


@pytest.mark.parametrize("form", FLOAT)
def test_formulas_become_operations(written: Path, form: str) -> None:
    _, counts, _ = converted(written / "formulas" / form)
    assert {name: counts[name] for name in ("LayerNorm", "L2Norm", "Gelu", "Prelu", "Sigmoid")} == {
        "LayerNorm": 1,
        "L2Norm": 1,
        "Gelu": 1,
        "Prelu": 1,
        "Sigmoid": 1,
    }
    assert not counts["SpaceToBatch"]


@pytest.mark.parametrize("name", NETWORKS[:2])
def test_quantized_networks_are_near(written: Path, name: str) -> None:
    model, counts, results = converted(written / name / "int8.tflite")
    steps = np.abs(run(model, results["x"]) - results["int8"]) * 256
    assert steps.max() <= 2
    assert not counts["Transpose"]
    ends = [op for op in model.main.ops if op.type in ("Quantize", "Dequantize")]
    assert len(ends) <= 2
    assert all(tensor.dtype.is_fixed for op in model.main.ops if op not in ends for tensor in op.outputs)
