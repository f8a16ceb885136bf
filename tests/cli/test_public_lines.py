"""Command lines of public threads, with other names: ``public_lines.txt``.

Each begins with its outcome: ``runs``; ``read``, which stops before the tool itself; else the flag or tool
that is refused.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.converter.caffe.nets import caffemodel, data, layer
from xdlc.cli.main import main
from xdlc.cli.tool import Tool

LINES = (Path(__file__).parent / "public_lines.txt").read_text()
CASES = [tuple(line.split(" | ")) for line in LINES.strip().splitlines()]
NET = data(1, 3, 4, 4) + layer(
    "Convolution", "convolution_param { num_output: 2 kernel_size: 1 bias_term: false }", name="c"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from onnx import parser, save

    folder = tmp_path_factory.mktemp("lines")
    text = '<ir_version: 9, opset_import: ["" : 17]> main (float[1,3,8,8] x) => (float[1,3,8,8] y) {'
    save(parser.parse_model(f"{text} c = Sigmoid(x) y = Relu(c) }}"), folder / "net.onnx")
    xdlc.convert(folder / "net.onnx").save(folder / "net.dlc")
    np.random.default_rng(0).random((1, 3, 8, 8)).astype("<f4").tofile(folder / "s.raw")
    (folder / "list.txt").write_text("s.raw\n")
    ranges = {"activation_encodings": {"y": [{"bitwidth": 8, "min": 0.0, "max": 1.0}]}, "param_encodings": {}}
    (folder / "ranges.json").write_text(json.dumps(ranges))
    (folder / "face.prototxt").write_text(NET)
    (folder / "face.caffemodel").write_bytes(caffemodel({"c": [np.ones((2, 3, 1, 1), np.float32)]}))
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


@pytest.mark.parametrize(("outcome", "line"), CASES)
def test_lines_of_public_threads(
    outcome: str, line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if outcome == "read":

        def stop(_command: Tool, ctx: click.Context) -> Any:
            ctx.exit(0)

        monkeypatch.setattr(Tool, "invoke", stop)
    result = CliRunner().invoke(main, shlex.split(line))
    if outcome in ("runs", "read"):
        assert result.exit_code == 0, result.output
        return
    assert result.exit_code == 2, result.output
    assert outcome in result.stderr
    assert "fix: " in result.stderr


def test_there_are_enough() -> None:
    assert len(CASES) >= 60
    assert {outcome for outcome, _ in CASES} >= {"runs", "read"}
