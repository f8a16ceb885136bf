"""PyTorch models and single operators: the DLC returns what PyTorch does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import relative_error

TOLERANCE = 1e-4
CORPUS = [
    "gen_lstm_state/gen_lstm_state.pt",
    "gen_lstm_state/gen_lstm_state.pt2",
    "gen_resnet_tiny/gen_resnet_tiny.pt",
    "gen_resnet_tiny/gen_resnet_tiny.pt2",
    "gen_shape_arith/gen_shape_arith.pt",
    "gen_shape_arith/gen_shape_arith.pt2",
    "gen_tiny_transformer/gen_tiny_transformer.pt2",
    "mtcnn_pnet/mtcnn_pnet.pt",
    "mtcnn_pnet/mtcnn_pnet.pt2",
    "nns_sample_4x4x4x4x4_two_input_one_output/sample_4x4x4x4x4_two_input_one_output.pt",
    "silero_vad_v6_jit/silero_vad.jit",
    "vit4mnist_ptl/vit4mnist.ptl",
    "yolo_fastestv2/yolo_fastestv2.pt2",
]
UNSTATED = {
    **dict.fromkeys(["gen_resnet_tiny.pt", "gen_shape_arith.pt", "mtcnn_pnet.pt", "silero_vad.jit"], "x"),
    **dict.fromkeys(["ts_script_loop.pt", "ts_unet.pt"], "x"),
    "gen_lstm_state.pt": "x h c",
    "sample_4x4x4x4x4_two_input_one_output.pt": "x y",
    "vit4mnist.ptl": "img",
}
"""Inputs of scripts that state no shapes."""
REFUSED = {"own_custom_op": "acme::soft_limit"}
"""Generated models that need a definition of the user's, and what the refusal names."""


def reference(path: Path) -> tuple[list[Any], list[Any]]:
    """Return recorded inputs and outputs in their order."""
    beside = path.with_name(path.name + ".torchref.npz")
    with np.load(beside if beside.exists() else path.with_name("ref.npz")) as held:
        names = sorted(held.files, key=lambda name: (len(name), name))
        inputs = [held[name] for name in names if name.startswith("in")]
        return inputs, [held[name] for name in names if name.startswith("out")]


def check(path: Path) -> None:
    """Convert a model, run its recorded inputs, compare with its outputs."""
    inputs, expected = reference(path)
    shapes = dict(zip(UNSTATED.get(path.name, "").split(), (array.shape for array in inputs), strict=False))
    fixed = {"sr": inputs.pop()} if path.name == "silero_vad.jit" else None  # its code branches on it
    model = xdlc.convert(path, shapes, set_inputs=fixed, notify=lambda _: None)
    states = model.metadata.get("states", {})
    names = [each.name for each in model.main.inputs if each.name not in states]
    found = xdlc.run(model, dict(zip(names, inputs, strict=True)))
    written = {state["output"] for state in states.values()}
    results = [found[each.name] for each in model.main.outputs if each.name not in written]
    assert [result.shape for result in results] == [array.shape for array in expected]
    for result, array in zip(results, expected, strict=True):
        assert relative_error(result, array) <= TOLERANCE


@pytest.mark.corpus
@pytest.mark.parametrize("name", CORPUS)
def test_matches_torch(corpus: Path, name: str) -> None:
    check(corpus / "pytorch" / name)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of generated networks."""
    maker = os.environ.get("XDLC_TORCH_MODELS")
    if not maker:
        pytest.skip("XDLC_TORCH_MODELS is not set")
    folder = tmp_path_factory.mktemp("torch")
    subprocess.run([sys.executable, maker, str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.mark.frameworks
def test_generated_networks_match_torch(generated: Path) -> None:
    failed = {}
    for entry in json.loads((generated / "index.json").read_text()):
        try:
            check(generated / entry["file"])
        except xdlc.XdlcError as error:
            if REFUSED.get(entry["name"], "?") not in str(error):
                failed[entry["name"]] = str(error)
        except AssertionError as error:
            failed[entry["name"]] = str(error)
    assert not failed


@pytest.mark.frameworks
def test_operators_match_torch(tmp_path: Path) -> None:
    """Over the development half of torch's own operator database, none is wrong."""
    runner = os.environ.get("XDLC_TORCH_OPERATORS")
    if not runner:
        pytest.skip("XDLC_TORCH_OPERATORS is not set")
    table = tmp_path / "found.json"
    options = ["--half", "dev", "--engines", "xdlc", "--xdlc-via", "pt2", "--json", str(table)]
    subprocess.run([sys.executable, runner, *options], check=True, stdout=subprocess.DEVNULL)
    found = json.loads(table.read_text())
    figures = found["figures"]["xdlc"]
    bad = [r["case"] for r in found["records"] if r.get("xdlc", {}).get("verdict") in ("wrong", "crashed")]
    assert bad == []
    assert figures["right"] >= 0.85 * found["figures"]["cases"]
