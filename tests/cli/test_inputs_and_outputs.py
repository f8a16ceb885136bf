"""Tools refuse outputs that are inputs, or each other, before they work."""

import os
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import xdlc
from tests.support.commands import invoke
from tests.support.onnx_models import build, node

CASES = {
    "the model": ("convert", "-i net.onnx -o net.onnx"),
    "external data": ("convert", "-i out.onnx -o w.data"),
    "a UDO's definition": ("convert", "-i net.onnx -o udo.json --udo-config-paths udo.json"),
    "the DLC": ("quantize", "-i net.dlc -l list.txt -o net.dlc"),
    "a link": ("quantize", "-i net.dlc -l list.txt -o link.dlc"),
    "the list": ("quantize", "-i net.dlc -l list.txt -o list.txt"),
    "a sample": ("quantize", "-i net.dlc -l list.txt -o x.raw"),
    "a report on the sample": ("quantize", "-i net.dlc -l list.txt -o q.dlc --export-encodings x.raw"),
    "an output": ("quantize", "-i net.dlc -l list.txt -o q.dlc --export-encodings q.dlc"),
    "an output by another way": ("quantize", "-i net.dlc -l list.txt -o q.dlc --report ../{here}/q.dlc"),
    "the DLC of caches": ("graph_prepare", "--input-dlc net.dlc --output-dlc net.dlc"),
    "an array": ("convert", "-i net.onnx -o x.npy --set-input x x.npy"),
    "a result": ("net_run", "--container net.dlc --input-list chain.txt --output-dir out"),
    "a table": ("info", "net.dlc --save net.dlc"),
    "a configuration": ("udo_config", "convert udo.json -o link.json"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    feeds, weights = {"x": np.ones((1, 4), np.float32)}, {"w": np.ones((4, 4), np.float32)}
    model = build([node("MatMul", "x w")], feeds, weights, ["y"], 18)
    onnx.save(model, "net.onnx")
    onnx.save(model, "out.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    xdlc.save(xdlc.convert("net.onnx"), "net.dlc")
    os.link("net.dlc", "link.dlc")
    feeds["x"].tofile("x.raw")
    np.save("x.npy", feeds["x"])
    Path("list.txt").write_text("x.raw\n")
    Path("out/Result_0").mkdir(parents=True)
    feeds["x"].tofile("out/Result_0/y.raw")
    Path("chain.txt").write_text("out/Result_0/y.raw\n")
    tensors = [{"name": name, "data_type": "FLOAT_32"} for name in "xy"]
    operator = (
        f'{{"type": "Two", "inputs": [{tensors[0]}], "outputs": [{tensors[1]}], "core_types": ["CPU"]}}'
    )
    text = f'{{"UdoPackage_0": {{"Operators": [{operator}], "UDO_PACKAGE_NAME": "Pack"}}}}'
    Path("udo.json").write_text(text.replace("'", '"'))
    Path("link.json").symlink_to("udo.json")
    return tmp_path


def held(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_outputs_that_are_inputs_or_each_other(folder: Path) -> None:
    before = held(folder)
    for what, (tool, words) in CASES.items():
        main = import_module(f"xdlc.cli.tools.{tool}").main
        done = invoke(main, *words.format(here=folder.name).split(), code=2)
        assert "would" in done.output, what
        assert held(folder) == before, what


def test_external_data_with_a_second_name(folder: Path) -> None:
    os.link("w.data", "other")
    with pytest.raises(xdlc.errors.ModelError):
        xdlc.convert("out.onnx")
    os.unlink("other")
    xdlc.convert("out.onnx")


def test_names_that_standard_output_cannot_hold(folder: Path) -> None:
    feeds = {"\u0142": np.ones((1, 4), np.float32)}
    onnx.save(build([node("Relu", "\u0142")], feeds, None, ["y"], 18), "net.onnx")
    xdlc.save(xdlc.convert("net.onnx"), "net.dlc")
    main = import_module("xdlc.cli.tools.info").main
    done = CliRunner(charset="latin-1").invoke(main, ["net.dlc"])
    assert done.exit_code == 0
    assert "\\u0142" in done.output


def test_functions_of_python(folder: Path) -> None:
    before = held(folder)
    with pytest.raises(xdlc.errors.UsageError):
        xdlc.to_onnx("net.dlc", "link.dlc")
    for path in ("a\0b", "\ud800"):
        with pytest.raises(xdlc.errors.StorageError):
            xdlc.to_onnx("net.dlc", path)
        with pytest.raises(xdlc.errors.StorageError):
            xdlc.save(xdlc.load("net.dlc"), path)
        with pytest.raises(xdlc.errors.StorageError):
            xdlc.convert("net.onnx", udo_config_paths=[path])
    for wrong in (None, 3, b"a", []):
        with pytest.raises(xdlc.errors.UsageError):
            xdlc.save(xdlc.load("net.dlc"), wrong)  # type: ignore[arg-type]
    assert held(folder) == before
    xdlc.save(xdlc.load("net.dlc"), "net.dlc")  # a model that was read before may replace its file
    assert Path("net.dlc").read_bytes() == before[str(folder / "net.dlc")]
