"""xconv-caffe-to-dlc and xdlc-convert on a small net: flags of every age."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import xdlc
from tests.converter.caffe.nets import caffemodel, data, layer
from tests.support.commands import invoke
from xdlc.cli.tools import caffe_to_dlc, convert
from xdlc.errors import ModelError, UsageError

CONV = layer("Convolution", "convolution_param { num_output: 2 kernel_size: 1 bias_term: false }", name="c")
NET = data(1, 3, 4, 4) + CONV + layer("ReLU", bottom="y", name="r")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "net.caffemodel").write_bytes(caffemodel({"c": [np.ones((2, 3, 1, 1), np.float32)]}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(tool: Any, words: str, code: int = 0) -> Result:
    return invoke(tool.main, *words.split(), code=code)


@pytest.mark.parametrize(
    "words",
    [
        "-i net.prototxt -b net.caffemodel -o o.dlc",
        "--input-network net.prototxt --caffe-bin net.caffemodel --output-path o.dlc",
        "-c net.prototxt --weights net.caffemodel -o o.dlc",
        "--caffe-txt net.prototxt --caffe-bin net.caffemodel --dlc o.dlc",
        "-i net.prototxt -b net.caffemodel --dlc o.dlc -d data 1,3,4,4 --disable-batchnorm-folding --debug",
    ],
)
def test_flags_of_every_age(folder: Path, words: str) -> None:
    run(caffe_to_dlc, words)
    assert xdlc.load(folder / "o.dlc").main.outputs[0].shape == (1, 2, 4, 4)


def test_the_tool_for_all_frameworks(folder: Path) -> None:
    run(convert, "-i net.prototxt --weights net.caffemodel -b 3")
    assert xdlc.load(folder / "net.dlc").main.outputs[0].shape == (3, 2, 4, 4)


@pytest.mark.parametrize(
    ("words", "code", "problem", "fix"),
    [
        ("-i net.prototxt", 3, "layer 'c' (Convolution, line 2)", "--weights"),
        ("-i net.caffemodel", 3, "contains weights of a Caffe net", "NET.prototxt --weights net.caffemodel"),
        ("-i net.caffemodel -b net.prototxt", 2, "swapped", "--input net.prototxt"),
        ("-i net.prototxt -b net.prototxt", 2, "contains text, not weights", "--weights"),
        ("-i net.prototxt -b none", 8, "none: the file cannot be read", "check the path"),
        ("-i net.prototxt -b net.caffemodel -o net.prototxt", 2, "replace the input", "another output"),
        ("-i net.prototxt -b net.caffemodel --dlc net.caffemodel", 2, "replace the input", "another output"),
        ("-i net.prototxt -b net.caffemodel -o /dev/full", 8, "not a regular file", "name a file"),
        ("-i net.prototxt --caffe-txt other", 2, "one option: -i and --caffe-txt", "once"),
        ("-i net.prototxt -b net.caffemodel --input-size 4 4", 2, "--input_size: ", "--input-dim"),
        ("-i net.prototxt -b net.caffemodel --udo a.json", 2, "no option '--udo'", "--udo-config-paths"),
        ("-i net.prototxt -b net.caffemodel --output-layer c", 2, "'--output_layer'", "--out-name"),
    ],
)
def test_files_and_flags_that_do_not_fit(folder: Path, words: str, code: int, problem: str, fix: str) -> None:
    errors = run(caffe_to_dlc, words, code).stderr
    assert problem in errors
    assert fix in errors.partition("fix: ")[2]
    assert sorted(path.name for path in folder.iterdir()) == ["net.caffemodel", "net.prototxt"]
    assert (folder / "net.prototxt").read_text() == NET


def test_a_dry_run_states_layers_and_lines(folder: Path) -> None:
    (folder / "net.prototxt").write_text(NET.replace('"ReLU"', '"Unknown"'))
    shown = run(caffe_to_dlc, "-i net.prototxt --dry-run --report r.json", 3).stdout
    assert "c (line 2)" in shown
    problems = json.loads((folder / "r.json").read_text())["problems"]
    found = [(problem["node"], problem["op"], problem["line"]) for problem in problems]
    assert found == [("c", "Convolution", 2), ("r", "Unknown", 3)]
    shown = run(caffe_to_dlc, "-i net.prototxt -b net.caffemodel --dry-run", 4).stdout
    assert "r (line 3)" in shown


def test_errors_name_the_keyword_in_python(folder: Path) -> None:
    with pytest.raises(ModelError) as caught:
        xdlc.convert("net.prototxt")
    assert "weights FILE.caffemodel" in str(caught.value.fix)
    with pytest.raises(UsageError, match="of type int"):
        xdlc.convert("net.prototxt", weights=3)  # type: ignore[arg-type]
