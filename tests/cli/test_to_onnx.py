"""``xdlc-to-onnx``: flags, files and messages."""

from functools import partial
from typing import Any

import onnx
import pytest

import xdlc
from tests.support import commands
from xdlc.cli.tools.to_onnx import main

invoke = partial(commands.invoke, main)


@pytest.fixture
def dlc(models: Any) -> Any:
    path = models.folder / "net.dlc"
    xdlc.convert(models.save(models.cnn(classes=300))).save(path)
    return path


def test_the_result_lies_beside_the_dlc(dlc: Any) -> None:
    result = invoke("-i", dlc)
    target = dlc.with_suffix(".onnx")
    assert result.stdout == f"written: {target}\n"
    assert result.stderr == ""
    onnx.checker.check_model(target, full_check=True)


def test_all_files_are_named(dlc: Any) -> None:
    target = dlc.with_name("other.onnx")
    graph = xdlc.load(dlc).main.name
    words = ["--encodings", "aimet", "--external_data", "--graph", graph]
    result = invoke("--input_dlc", dlc, "--output_path", target, *words)
    names = ["other.onnx", "other.onnx.data", "other.encodings"]
    assert result.stdout.splitlines() == [f"written: {dlc.with_name(name)}" for name in names]


def test_wrong_calls(dlc: Any, tmp_path: Any) -> None:
    assert "no graph 'nte'" in invoke("-i", dlc, "--graph", "nte", code=2).stderr
    assert "would replace the input" in invoke("-i", dlc, "-o", dlc, code=2).stderr
    assert "does not exist" in invoke("-i", dlc, "-o", tmp_path / "none" / "m.onnx", code=8).stderr
    assert "'qdq', 'aimet', 'none'" in invoke("-i", dlc, "--encodings", "other", code=2).stderr
    (tmp_path / "broken.dlc").write_bytes(b"PK")
    assert "broken.dlc" in invoke("-i", tmp_path / "broken.dlc", code=6).stderr
