"""Models side by side: source, float and quantized DLC, HTP."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import xdlc
from tests.support.commands import invoke
from tests.support.htp_models import needs_htp
from xdlc.cli.main import main
from xdlc.errors import StorageError, UsageError

METRIC = (
    "def largest(run):\n    import numpy as np\n    return run({'x': np.ones((1, 8), 'f4')})['y'].argmax()\n"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(3)
    weight = numpy_helper.from_array(rng.standard_normal((8, 4)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "layer")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [weight, numpy_helper.from_array(np.zeros(4, np.float32), "b")],
    )
    source, plain, small = (folder / name for name in ("net.onnx", "net.dlc", "net_quantized.dlc"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    samples = rng.standard_normal((40, 1, 8)).astype(np.float32)
    np.savez(folder / "samples.npz", x=samples)
    model = xdlc.convert(source)
    model.save(plain)
    xdlc.quantize(model, list(samples)).save(small)
    (folder / "metric.py").write_text(METRIC)
    return {"folder": folder, "models": [source, plain, small], "samples": folder / "samples.npz"}


def test_a_file_that_does_not_exist_is_named(files: dict[str, Any]) -> None:
    with pytest.raises(StorageError, match="cannot be read") as caught:
        xdlc.compare([files["models"][0], "none.dlc"], files["samples"])
    assert caught.value.where == "none.dlc"


def test_the_first_model_is_the_reference(files: dict[str, Any]) -> None:
    metric = f"{files['folder']}/metric.py:largest"
    first, plain, small = xdlc.compare(files["models"], files["samples"], metric=metric)
    assert first.db is None
    assert first.samples == 40
    assert plain.db > 100
    assert plain.equal == 1.0
    assert 20 < small.db < 60
    assert small.rows == 40
    assert small.largest > plain.largest
    assert small.largest_in == "y"
    assert first.score == plain.score
    assert [row.bytes for row in (first, plain, small)] == [
        Path(path).stat().st_size for path in files["models"]
    ]


@pytest.mark.parametrize("last", ["", "s = Softmax <axis = 1> (r)"])
def test_outputs_that_are_channel_first_are_compared_with_the_source(tmp_path: Path, last: str) -> None:
    name = "s" if last else "r"
    source = tmp_path / "net.onnx"
    weights = np.random.default_rng(3).standard_normal((4, 3, 1, 1)).astype(np.float32)
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> net (float[1,3,8,8] x, float[4,3,1,1] w) => '
        f"(float[1,4,8,8] {name}) {{ c = Conv(x, w) r = Relu(c) {last} }}"
    )
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, source)
    samples = list(np.random.default_rng(4).standard_normal((20, 1, 3, 8, 8)).astype(np.float32))
    plain = xdlc.convert(source)
    plain.save(tmp_path / "net.dlc")
    xdlc.quantize(plain, samples).save(tmp_path / "small.dlc")
    paths = [source, tmp_path / "net.dlc", tmp_path / "small.dlc"]
    _, same, small = xdlc.compare(paths, samples)
    assert same.db > 100
    assert 15 < small.db < 60
    assert small.largest_in == name
    if not last:
        assert xdlc.compare(paths[1::-1], samples)[1].db > 100


@needs_htp
def test_a_quantized_model_runs_on_the_emulation_too(files: dict[str, Any]) -> None:
    rows = xdlc.compare(files["models"][1:], files["samples"], soc="sm8650")
    assert len(rows) == 3
    assert rows[-1].db > 20
    assert "sm8650" in rows[-1].title


def test_models_of_different_networks_are_refused(files: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="none of the models is a DLC"):
        xdlc.compare(files["models"][:1], files["samples"])


def test_the_tool_prints_a_row_for_each_model(files: dict[str, Any]) -> None:
    words = ["compare", *map(str, files["models"]), "-l", str(files["samples"])]
    head, *table = CliRunner().invoke(main, words, catch_exceptions=False).output.splitlines()
    assert f"40 samples of {files['samples']}," in head
    lines = table[2:]
    assert all(Path(path).name in line for path, line in zip(files["models"], lines, strict=True))
    content = json.loads(CliRunner().invoke(main, [*words, "--json"], catch_exceptions=False).output)
    assert content["schema"] == 1
    assert [row["rows"] for row in content["models"]] == [0, 40, 40]
    invoke(main, *words[:2], *words[-2:], code=2)
