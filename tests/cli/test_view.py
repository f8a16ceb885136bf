"""``xdlc-view``: flags, files and messages."""

import base64
import gzip
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import xdlc
from tests.support import commands
from tests.support.commands import invoke as run_tool
from tests.support.pages import HOSTILE
from xdlc.cli.main import main as everything
from xdlc.cli.tools.view import main
from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.dtype import FLOAT32

invoke = partial(commands.invoke, main)


def content(path: Path) -> dict[str, Any]:
    """Return the content of a page."""
    packed = max(re.findall(r"[A-Za-z0-9+/=]{200,}", path.read_text("utf-8")), key=len)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


@pytest.fixture
def source(models: Any) -> Path:
    return Path(models.save(models.cnn()))


@pytest.fixture
def dlc(source: Path, tmp_path: Path) -> Path:
    path = tmp_path / "net.dlc"
    xdlc.convert(source).save(path)
    return path


@pytest.fixture
def quantized(dlc: Path) -> Path:
    path = dlc.with_name("net_quantized.dlc")
    model = xdlc.load(dlc)
    rng = np.random.default_rng(0)
    samples = [
        {tensor.name: rng.random(tensor.shape, dtype=np.float32) for tensor in model.main.inputs}
        for _ in range(2)
    ]
    xdlc.quantize(model, samples).save(path)
    return path


def test_the_page_lies_beside_the_model(dlc: Path) -> None:
    result = invoke(dlc)
    target = dlc.with_suffix(".html")
    assert result.stdout == f"written: {target}\n"
    (side,) = content(target)["sides"]
    assert (side["file"], side["bytes"]) == ("net.dlc", dlc.stat().st_size)


def test_two_files_stand_side_by_side(dlc: Path, quantized: Path, tmp_path: Path) -> None:
    target = tmp_path / "both.html"
    invoke(dlc, quantized, "-o", target)
    result = content(target)
    assert [side["file"] for side in result["sides"]] == ["net.dlc", "net_quantized.dlc"]
    states = {row[4] for row in result["diff"]["ops"]}
    assert "changed" in states
    assert result["link"] is None


def test_a_source_model_beside_its_dlc(source: Path, dlc: Path, tmp_path: Path) -> None:
    target = tmp_path / "both.html"
    invoke(source, dlc, "-o", target)
    result = content(target)
    assert [side["kind"] for side in result["sides"]] == ["ONNX", "DLC 4.1"]
    assert result["link"]
    assert result["diff"] is None


def test_reports_and_socs(quantized: Path, tmp_path: Path) -> None:
    report = tmp_path / "cost.json"
    report.write_text(xdlc.cost(quantized).as_json())
    (tmp_path / "none.json").write_text('{"schema": 1, "static": [], "devices": [], "refused": []}')
    target = tmp_path / "page.html"
    invoke(quantized, "--report", report, tmp_path / "none.json", "--soc", "sm8250", "-o", target)
    (side,) = content(target)["sides"]
    verdict = next(overlay for overlay in side["overlays"] if overlay["key"] == "verdict")
    assert set(verdict["graphs"][0]) == {"refused"}


def test_node_data_for_model_explorer(quantized: Path, tmp_path: Path) -> None:
    invoke(quantized, "-o", tmp_path / "v.html", "--node-data", tmp_path / "data")
    macs = json.loads((tmp_path / "data" / "macs.json").read_text("utf-8"))
    (graph,) = macs.values()
    assert any(result["value"] for result in graph["results"].values())


def test_files_of_node_data_stay_apart(quantized: Path, tmp_path: Path) -> None:
    names = ["s" * 300, "s" * 301]
    op = {"op": xdlc.load(quantized).main.ops[0].name, "traffic": {"dram_read": 1}}
    devices = [{"soc": name, "vtcm_mb": 8, "ops": [op]} for name in names]
    report = tmp_path / "costs.json"
    report.write_text(json.dumps({"schema": 1, "static": [], "devices": devices}), "utf-8")
    invoke(quantized, "-o", tmp_path / "v.html", "--report", report, "--node-data", tmp_path / "data")
    assert len(list((tmp_path / "data").glob("dram_*.json"))) == 2


def test_the_browser_opens_the_page(dlc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(click, "launch", opened.append)
    invoke(dlc, "--open")
    assert opened == [dlc.with_suffix(".html").resolve().as_uri()]


def test_the_result_as_json(dlc: Path) -> None:
    printed = json.loads(invoke(dlc, "--json").stdout)
    assert printed["page"] == str(dlc.with_suffix(".html"))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["{dlc}", "{dlc}", "{dlc}"], 2),
        (["{dlc}", "--cost"], 2),
        (["{dlc}", "--soc", "sm0"], 2),
        (["{dlc}", "--input-dim", "x", "1,2"], 2),
        (["{dlc}", "--report", "{dlc}"], 2),
        (["{dlc}", "-o", "{dlc}"], 2),
        (["none.dlc"], 8),
        ([], 2),
    ],
)
def test_wrong_calls_state_a_fix(words: list[str], code: int, dlc: Path) -> None:
    before = dlc.read_bytes()
    result = invoke(*(word.format(dlc=dlc) for word in words), code=code)
    assert "fix: " in result.stderr
    assert dlc.read_bytes() == before
    assert not dlc.with_suffix(".html").exists()


def test_hostile_names_are_inert(tmp_path: Path) -> None:
    name = HOSTILE.replace("\ud800", "")
    net = Graph(name)
    x, y = net.add_input(Tensor(name, (1, 4), FLOAT32)), Tensor("y", (1, 4), FLOAT32)
    net.append(Op("Relu", [x], [y], name=name))
    net.add_output(y)
    path = tmp_path / "net.dlc"
    Model({name: net}).save(path)
    invoke(path)
    text = path.with_suffix(".html").read_text("utf-8")
    assert "<img src=x" not in text
    assert not {"\u2028", "\u202e"} & set(text)


def test_the_vendors_name_runs_it(dlc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = dlc.with_name("out.html")
    run_tool(everything, "snpe-dlc-viewer", "-i", dlc, "-s", target)
    assert content(target)["sides"][0]["file"] == "net.dlc"
