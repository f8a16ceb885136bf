"""Networks and tests that the onnx package brings along."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest

import xdlc
from tests.support.corpus_models import relative_error

DATA = Path(onnx.backend.test.__file__).parent / "data"
LIGHT = sorted((DATA / "light").glob("*.onnx"))
SINGLE = sorted(path.parent for path in DATA.glob("pytorch-*/*/model.onnx"))

CONFORMANCE = Path(__file__).parents[2] / "bench" / "conformance.py"
# Tests of the onnx package 1.23 that must be right; none may be wrong, whatever its version.
RIGHT = 1600

OF_OPSET_7 = {"Add", "Sub", "Mul", "Div", "Pow", "Gemm"}

pytestmark = pytest.mark.skipif(not LIGHT, reason="this onnx package brings no networks")


def tensor(path):
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_array(proto)


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_networks_convert_with_one_transpose(path):
    graph = xdlc.convert(path).main
    found = Counter(op.type for op in graph.ops)
    shuffles = 16 if "shufflenet" in path.stem else 0
    assert found["Transpose"] == 1 + shuffles
    assert not found.keys() & {"Erf", "Tile"}


@pytest.mark.parametrize("name", ["light_densenet121", "light_shufflenet", "light_squeezenet"])
def test_networks_give_the_stored_output(name):
    model = xdlc.convert(DATA / "light" / f"{name}.onnx")
    (entry,) = model.main.inputs
    ramp = (np.arange(entry.size).reshape(entry.shape) / entry.size).astype(np.float32)
    (found,) = xdlc.run(model, {entry.name: ramp}).values()
    assert relative_error(found, tensor(DATA / "light" / f"{name}_output_0.pb")) <= 1e-5


def is_refused(model):
    """Return whether a model has an old form of broadcasting."""
    return model.opset_import[0].version < 7 and any(
        node.op_type in OF_OPSET_7 and any(entry.name == "broadcast" for entry in node.attribute)
        for node in model.graph.node
    )


@pytest.mark.parametrize("folder", SINGLE, ids=lambda path: path.name)
def test_single_operators_match_or_are_refused_with_the_known_reason(folder):
    model = onnx.load(folder / "model.onnx")
    source = model.graph
    weights = {entry.name for entry in source.initializer}
    inputs = [entry.name for entry in source.input if entry.name not in weights]
    feeds = {
        name: tensor(folder / "test_data_set_0" / f"input_{index}.pb") for index, name in enumerate(inputs)
    }
    dims = {name: array.shape for name, array in feeds.items()}
    if is_refused(model):
        with pytest.raises(xdlc.XdlcError, match="imported from opset 7"):
            xdlc.convert(folder / "model.onnx", input_dims=dims)
        return
    found = xdlc.run(xdlc.convert(folder / "model.onnx", input_dims=dims), feeds)
    for index, output in enumerate(source.output):
        expected = tensor(folder / "test_data_set_0" / f"output_{index}.pb")
        assert found[output.name].shape == expected.shape
        np.testing.assert_allclose(found[output.name], expected, rtol=1e-3, atol=1e-6)


@pytest.mark.corpus
def test_node_tests_are_right_or_refused(corpus, tmp_path):
    """All of the package's node tests, through a DLC on disk."""
    command = [sys.executable, CONFORMANCE, "--json", tmp_path / "verdicts.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = Counter(entry["ours"] for entry in json.loads((tmp_path / "verdicts.json").read_text()))
    assert verdicts.keys() <= {"right", "refused"}
    assert verdicts["right"] >= RIGHT
