"""``xdlc-graph-prepare``: what its flags change, and what it says."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import xdlc
from tests.support import commands
from tests.support.htp_models import cnn, needs_htp, partly
from xdlc.cli.tools import graph_prepare

invoke = partial(commands.invoke, graph_prepare.main)


@pytest.fixture
def dlc(tmp_path: Path) -> Path:
    path = tmp_path / "net.dlc"
    cnn(quantized=True).save(path)
    return path


def cached(path: Path) -> tuple[Any, list[Any]]:
    model = xdlc.load(path.with_name("net_cached.dlc"))
    return model, [graph for entry in model.metadata["cacheList"] for graph in entry["graphs"]]


def names(ports: list[Any]) -> list[tuple[str, str]]:
    return [(port["name"], port["dataType"]) for port in ports]


@needs_htp
def test_the_cache_and_the_network_have_the_outputs_asked_for(dlc: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("#poolmax2d_pool\n%relu\n")
    words = [
        "--set-output-tensors",
        "cnn conv",
        "--input-list",
        tmp_path / "list.txt",
        "--htp-socs",
        "sm8650",
    ]
    invoke("--input-dlc", dlc, *words)
    model, (graph,) = cached(dlc)
    assert [tensor.name for tensor in model.main.outputs] == ["pool", "conv", "relu"]
    assert sorted(names(graph["graphOutputs"])) == [
        (name, "QNN_DATATYPE_UFIXED_POINT_8") for name in ("conv", "pool", "relu")
    ]


@needs_htp
def test_float_ports_and_the_default_soc(dlc: Path) -> None:
    flags = ["--htp-dlbc", "true", "--vtcm-override", 0, "--udo-package-path", "lib.so"]
    result = invoke("--input-dlc", dlc, "--use-float-io", *flags)
    assert "notice: you passed no SoC; xdlc uses sm8650" in result.stderr
    assert "notice: --udo_package_path has no effect: " in result.stderr
    _, (graph,) = cached(dlc)
    assert names([*graph["graphInputs"], *graph["graphOutputs"]]) == [
        ("x", "QNN_DATATYPE_FLOAT_32"),
        ("y", "QNN_DATATYPE_FLOAT_32"),
    ]
    assert graph["graphBlobInfo"]["htpDlbc"]
    assert graph["graphBlobInfo"]["vtcmSize"] == 8


@needs_htp
@pytest.mark.parametrize(("word", "on"), [("--htp-dlbc", True), ("--htp-dlbc=false", False)])
def test_switches_take_a_value_or_none(dlc: Path, word: str, on: bool) -> None:
    result = invoke("--input-dlc", dlc, word, "--memorymapped-buffer-hint=true", "--htp-socs", "sm8650")
    assert "notice: --memorymapped_buffer_hint has no effect" in result.stderr
    assert bool(cached(dlc)[1][0]["graphBlobInfo"]["htpDlbc"]) is on


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set-output-tensors", "pol,w"], "2 problem(s)"),
        (["--set-output-layers", "conv2d"], "nearest: conv2d_conv"),
        (["--buffer-data-type", "x=float16"], "unknown type 'float16'"),
        (["--input-name", "x"], "--input-name is given 1 times, --input-dimensions 0 times"),
        (["--input-name", "x", "--input-dimensions", "1,x"], "is not a shape"),
    ],
)
def test_wrong_flags_are_said_before_anything_is_compiled(dlc: Path, words: list[str], said: str) -> None:
    result = invoke("--input-dlc", dlc, "--htp-socs", "sm8650", *words, code=2)
    assert said in " ".join(result.stderr.split())
    assert [path.name for path in dlc.parent.iterdir()] == ["net.dlc"]


@needs_htp
def test_each_soc_is_accounted_for(dlc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = invoke("--input-dlc", dlc, "--htp-archs", "v75")
    assert "cache htp.cache.sm8650.0: SM8650, v75" in first.stdout
    assert first.stdout.splitlines()[0].endswith("bytes, compiled")
    floating = dlc.with_name("float.dlc")
    cnn(quantized=False).save(floating)
    words = ["--input-dlc", floating, "--output-dlc", dlc.with_name("out.dlc")]
    result = invoke(*words, "--htp-socs", "sm8650,sxr1230p", code=5)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("cache htp.cache.sm8650.0")
    assert lines[0].endswith(", compiled")
    assert lines[1] == "no cache for sxr1230p: failed"
    assert "has no FP16" in result.stderr
    again = invoke("--input-dlc", dlc.with_name("out.dlc"), "--htp-socs", "sm8650")
    assert again.stdout.splitlines()[0].endswith(", kept")


def test_architectures_exclude_socs(dlc: Path) -> None:
    result = invoke("--input-dlc", dlc, "--htp-socs", "sm8650", "--htp-archs", "v73", code=2)
    assert "--htp-archs and SoCs exclude each other" in result.stderr


@needs_htp
def test_parts_are_cached_if_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "net.dlc"
    partly(quantized=True).save(path)
    words = ["--input-dlc", path, "--htp-socs", "sm8650"]
    result = invoke(*words, code=5)
    assert "op 'softmax_s' (Softmax)" in result.output
    assert "--partition compiles" in result.stderr
    result = invoke(*words, "--partition")
    assert "sm8650: HTP runs 3 of 4 ops, in 2 partition(s)" in result.stderr
    assert "are outputs now: 'a'" in result.stderr
    model, graphs = cached(path)
    assert [graph["graphName"] for graph in graphs] == ["my_graph_part0", "my_graph_part1"]
    assert [tensor.name for tensor in model.main.outputs] == ["c", "a"]


@needs_htp
def test_the_order_of_socs_changes_the_lines_alone(dlc: Path, tmp_path: Path) -> None:
    results = []
    for socs in (("sm8650", "sm8550"), ("sm8550", "sm8650")):
        lines = invoke(dlc, "--soc", ",".join(socs), "-o", tmp_path / "out.dlc").stdout.splitlines()
        assert [soc in line for soc, line in zip(socs, lines, strict=False)] == [True, True]
        model = xdlc.load(tmp_path / "out.dlc")
        results.append([(name, data.content()) for name, data in model.records.items() if "cache" in name])
    assert results[0] == results[1]


@needs_htp
def test_caches_that_a_result_loses_are_named(dlc: Path) -> None:
    assert "replaces" not in invoke(dlc, "--soc", "sm8550,sm8650").stderr
    result = invoke(dlc, "--json")
    assert "sm8550" in next(line for line in json.loads(result.stdout)["notices"] if "replaces" in line)
    assert [cache["soc"] for cache in json.loads(result.stdout)["caches"]] == ["SM8650"]


@needs_htp
def test_input_and_output_have_short_names(dlc: Path) -> None:
    target = dlc.with_name("short.dlc")
    invoke("-i", dlc, "-o", target, "--htp-socs", "sm8650")
    assert xdlc.load(target).metadata["cacheList"]
