"""The tools end to end on a small model, and what they print."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.commands import invoke
from xdlc.cli.tools import graph_prepare, info, net_run, onnx_to_dlc, quantize, to_onnx
from xdlc.errors import UsageError
from xdlc.ir import Graph, Model, Op, ScaleOffset, Tensor, raw_data, static
from xdlc.ir.dtype import FLOAT32, INT64, UFIXED8

SAMPLES = 3


@pytest.fixture
def dlc(models: Any) -> Path:
    path = models.folder / "net.dlc"
    invoke(onnx_to_dlc, "-i", models.save(models.cnn(), "net.onnx"))
    assert path.is_file()
    return path


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    lines = []
    for number in range(SAMPLES):
        path = tmp_path / f"{number}.raw"
        rng.standard_normal((1, 3, 16, 16)).astype("<f4").tofile(path)
        lines.append(str(path))
    (tmp_path / "list.txt").write_text("\n".join(lines))
    return tmp_path / "list.txt"


def feeds(folder: Path, number: int) -> dict[str, Any]:
    return {"x": np.fromfile(folder / f"{number}.raw", "<f4").reshape(1, 3, 16, 16)}


def test_convert_prints_the_contract_and_the_inserted_ops(models: Any) -> None:
    target = models.folder / "other.dlc"
    result = invoke(onnx_to_dlc, "-i", models.save(models.cnn()), "-o", target)
    assert "x  float32  1x3x16x16" in result.stdout
    assert "y  float32  1x5" in result.stdout
    assert "inserted ops: 1\n    Transpose" in result.stdout
    assert result.stdout.endswith(f"written: {target}\n")
    assert result.stderr == ""


def test_convert_flags_reach_the_converter(models: Any) -> None:
    from onnx import helper

    nodes = [helper.make_node("Relu", ["x"], ["a"], "one"), helper.make_node("Sigmoid", ["a"], ["y"], "two")]
    path = models.save(models.make(nodes, {"x": ["n", "c"]}, {"y": ["n", "c"]}))
    result = invoke(onnx_to_dlc, "-i", path, "-s", "c", 7, "-b", 2, "--out-name", "a")
    assert "x  float32  2x7" in result.stdout
    assert "a  float32  2x7" in result.stdout
    invoke(onnx_to_dlc, "-i", path, "-d", "x", "3,4")
    assert xdlc.load(models.folder / "model.dlc").main.outputs[0].shape == (3, 4)


def test_all_formats_are_written(models: Any, listing: Path) -> None:
    source = models.save(models.cnn(), "net.onnx")
    for version in ("4.1", "4.0"):
        target = models.folder / f"{version}.dlc"
        invoke(onnx_to_dlc, "-i", source, "-o", target, "--dlc-version", version)
        assert xdlc.container.describe(target).version == version
        made = models.folder / f"{version}_quantized.dlc"
        words = ["--input-list", listing, "--output-dlc", made, "--dlc-version", version]
        invoke(quantize, "--input-dlc", target, *words)
        assert xdlc.container.describe(made).version == version
    for version in ("2.0", "3"):
        result = invoke(onnx_to_dlc, "-i", source, "--dlc-version", version, code=2)
        assert f"--dlc-version: xdlc cannot write format '{version}'" in result.stderr
        assert "fix: write format 4.1, or 4.0" in result.stderr
    for version in ("3", "3.0"):
        target = models.folder / "old.dlc"
        result = invoke(onnx_to_dlc, "-i", source, "-o", target, "--dlc-version", version, code=2)
        assert "--dlc-version: " in result.stderr
        assert "does not write them" in result.stderr
        assert "fix: write format 4.1" in result.stderr
        assert not target.exists()


def test_conversion_is_reproducible(models: Any) -> None:
    path = models.save(models.cnn())
    for name in ("a.dlc", "b.dlc"):
        invoke(onnx_to_dlc, "-i", path, "-o", models.folder / name)
    assert (models.folder / "a.dlc").read_bytes() == (models.folder / "b.dlc").read_bytes()


def test_quantize_and_run(dlc: Path, listing: Path) -> None:
    folder = dlc.parent
    result = invoke(quantize, "--input-dlc", dlc, "--input-list", listing)
    assert "ufixed8" in result.stdout
    assert f"calibrated with {SAMPLES} sample(s)" in result.stdout
    quantized = folder / "net_quantized.dlc"
    for name, path in (("float", dlc), ("quantized", quantized)):
        invoke(net_run, "--container", path, "--input-list", listing, "--output-dir", folder / name)
    for number in range(SAMPLES):
        plain = np.fromfile(folder / "float" / f"Result_{number}" / "y.raw", "<f4")
        rounded = np.fromfile(folder / "quantized" / f"Result_{number}" / "y.raw", "<f4")
        np.testing.assert_array_equal(plain, xdlc.run(dlc, feeds(folder, number))["y"][0])
        np.testing.assert_array_equal(rounded, xdlc.run(quantized, feeds(folder, number))["y"][0])
        assert 0 < np.linalg.norm(plain - rounded) < 0.2 * np.linalg.norm(plain)
    assert not (folder / "float" / f"Result_{SAMPLES}").exists()


def test_quantizer_options(dlc: Path, listing: Path) -> None:
    target = dlc.parent / "wide.dlc"
    words = ["--act-bitwidth", 16, "--bias-bitwidth", 8, "--no-per-channel-quantization"]
    invoke(quantize, "--input-dlc", dlc, "--input-list", listing, "--output-dlc", target, *words)
    graph = xdlc.load(target).main
    assert graph.outputs[0].dtype.name == "ufixed16"
    weights = [t for t in graph.tensors.values() if t.is_static and t.rank == 4]
    assert weights
    assert all(isinstance(tensor.encoding, ScaleOffset) for tensor in weights)


def test_native_outputs_are_the_stored_integers(dlc: Path, listing: Path) -> None:
    folder = dlc.parent
    invoke(quantize, "--input-dlc", dlc, "--input-list", listing)
    words = [
        "--container",
        folder / "net_quantized.dlc",
        "--input-list",
        listing,
        "--output-dir",
        folder / "out",
    ]
    invoke(net_run, *words)
    invoke(net_run, *words, "--use-native-output-files")
    encoding = xdlc.load(folder / "net_quantized.dlc").main.outputs[0].encoding
    real = np.fromfile(folder / "out" / "Result_0" / "y.raw", "<f4")
    stored = np.fromfile(folder / "out" / "Result_0" / "y_native.raw", "u1")
    np.testing.assert_allclose((stored + float(encoding.offset)) * encoding.scale, real, rtol=1e-6)


def test_more_outputs(dlc: Path, listing: Path) -> None:
    folder = dlc.parent
    graph = xdlc.load(dlc).main
    names = [op.outputs[0].name for op in graph.ops if op.type == "Conv2d"]
    pool = next(op for op in graph.ops if op.type == "PoolAvg2d")
    listing.write_text(f"#{pool.name}\n%{names[0]}\n" + listing.read_text())
    words = ["--container", dlc, "--input-list", listing, "--output-dir", folder / "out"]
    invoke(net_run, *words, "--set-output-tensors", names[0])
    found = {path.stem for path in (folder / "out" / "Result_0").iterdir()}
    assert found == {"y", names[0], pool.outputs[0].name}
    listing.write_text("#no_such_op\n" + listing.read_text())
    assert "has no op 'no_such_op'" in invoke(net_run, *words, code=2).stderr


def test_names_with_slashes_make_folders(models: Any, tmp_path: Path) -> None:
    from onnx import helper

    nodes = [helper.make_node("Neg", ["/in"], ["/head/out:0"], "neg")]
    invoke(onnx_to_dlc, "-i", models.save(models.make(nodes, {"/in": [1, 2]}, {"/head/out:0": [1, 2]})))
    np.ones(2, "<f4").tofile(tmp_path / "x.raw")
    (tmp_path / "list.txt").write_text(f"/in:={tmp_path / 'x.raw'}")
    out = tmp_path / "out"
    invoke(
        net_run,
        *("--container", tmp_path / "model.dlc", "--input-list", tmp_path / "list.txt", "--output-dir", out),
    )
    assert (out / "Result_0" / "head" / "out:0.raw").stat().st_size == 8


def test_unknown_soc_names_the_near_ones(dlc: Path) -> None:
    result = invoke(graph_prepare, "--input-dlc", dlc, "--htp-socs", "sm8560", code=2)
    assert "sm8550" in result.stderr


# ------------------------------------------------------------------ info


def test_info_text(dlc: Path) -> None:
    lines = invoke(info, dlc, "--ops").stdout.splitlines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 100 + len(str(dlc))
    assert "container  DLC 4.1" in text
    assert "made by    xconv-onnx-to-dlc" in text
    assert "PoolAvg2d" in text
    assert "(224 params, 13.82 k MACs)" in text  # 8x8 outputs, 8 channels, 3x3x3 weights
    assert "stride=[2,2]" in text
    assert "operation=4 (RELU)" in text
    assert "inserted" in text
    assert "parameters  349," in text
    assert invoke(info, "-i", dlc).stdout == invoke(info, dlc).stdout
    assert "stride=" not in invoke(info, "--brief", dlc).stdout
    assert "source    conv1" in invoke(info, "--trace", dlc).stdout
    assert "source" not in text


def test_info_json(dlc: Path) -> None:
    report = json.loads(invoke(info, "--json", dlc).stdout)
    (graph,) = report["graphs"]
    assert [port["name"] for port in graph["inputs"]] == ["x"]
    assert graph["totals"]["ops"] == len(graph["ops"])
    assert graph["totals"]["parameters"] == 349
    assert graph["totals"]["macs"] == 8 * 8 * 8 * 27 + 8 * 8 * 8 * 9 + 5 * 8
    assert report["caches"] == []
    assert report["bytes"] == dlc.stat().st_size


def test_info_loads_what_the_dlc_needs(dlc: Path) -> None:
    code = (
        "import sys; from xdlc.cli.tools.info import main; sys.argv[0] = 'xdlc-info'; "
        "main(standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, dlc], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    heavy = {"numpy", "onnx", "xdlc.container.udo", "xdlc.container.cache_entry", "xdlc.opdefs.verify"}
    assert not loaded & heavy
    assert "xdlc.container.read4" in loaded


def test_info_shows_encodings(dlc: Path, listing: Path) -> None:
    invoke(quantize, "--input-dlc", dlc, "--input-list", listing)
    quantized = dlc.parent / "net_quantized.dlc"
    assert "8 scales" in invoke(info, "--encodings", quantized).stdout
    text = invoke(info, quantized).stdout
    assert "8 scales" not in text
    assert "scale " in text
    (graph,) = json.loads(invoke(info, "--json", quantized).stdout)["graphs"]
    assert graph["outputs"][0]["encoding"]["kind"] == "tensor"


def strange_model() -> Model:
    graph = Graph("main")
    data = graph.add_input(Tensor("in\x1b[31m", (2, 3), INT64))
    weight = graph.add_tensor(static("w", np.ones((70, 3), np.float32)))
    result = Tensor("out", (2, 70), UFIXED8, ScaleOffset(float("nan"), -3))
    middle = Tensor("middle", (2, 3), FLOAT32)
    graph.append(
        Op("MyOp", [data, None], [middle], {"table": static("t", np.zeros(99))}, name="a", package="my.pkg")
    )
    graph.append(Op("FullyConnected", [middle, weight], [result], name="b"))
    graph.add_output(result)
    model = Model(records={"htp.cache.sm8650.0": raw_data(b"12"), "mine": raw_data(b"123")})
    model.add_graph(graph)
    model.metadata["cacheList"] = [
        {"cacheName": "htp.cache.sm8550.0", "graphs": "none", "contextMetadata": 3}
    ]
    return model


def test_info_of_a_strange_model(tmp_path: Path) -> None:
    from xdlc.cli.report import report
    from xdlc.content.inspection import inspect

    (tmp_path / "a.dlc").write_bytes(b"x")
    facts = inspect(strange_model(), tmp_path / "a.dlc")
    text = "\n".join(report(facts, ops=True, encodings=True, trace=True))
    assert "in\\x1b[31m" in text
    assert "\x1b" not in text
    assert "my.pkg::MyOp" in text
    assert "(omitted)" in text
    assert "table=float64[99]" in text
    assert "scale nan offset -3" in text
    assert "the metadata lacks the cache" in text
    assert "missing from the file" in text
    assert "mine" in text
    assert [*facts["graphs"][0]["ops"]][1]["macs"] == 2 * 70 * 3
    json.dumps(facts, allow_nan=False, default=list)


@pytest.mark.corpus
def test_info_of_vendor_made_files(corpus: Path) -> None:
    files = sorted((corpus / "dlc").rglob("*.dlc"))
    assert files
    for path in files:
        text = invoke(info, "--encodings", "--trace", path).stdout
        assert "container  DLC " in text, path
        json.loads(invoke(info, "--json", path).stdout)


def test_info_traces_both_ways(models: Any) -> None:
    from onnx import helper

    nodes = [
        helper.make_node("Identity", ["x"], ["i"], "same"),
        helper.make_node("Conv", ["i", "w"], ["c"], "conv"),
        helper.make_node("Det", ["c"], ["y"], "det"),
    ]
    weights = {"w": np.ones((2, 3, 1, 1), "f4")}
    path = models.save(models.make(nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 2]}, weights))
    converted = invoke(onnx_to_dlc, "-i", path).stdout
    assert "x  float32  1x3x4x4  NCHW, raw file 192 bytes" in converted
    assert 'write  x  float32  array.astype("<f4").tofile("x.raw")' in converted
    assert "host-only ops: 1\n    Det" in converted
    dlc = models.folder / "model.dlc"
    text = invoke(info, "--trace", dlc).stdout
    assert "source    conv" in text
    assert "on host   operator Det" in text
    assert "source nodes: 3" in text
    assert "  same  Identity  (its result is its input under another name, shape or axis order)" in text
    assert "  conv  Conv      Conv2d conv" in text
    assert 'read   y  float32  numpy.fromfile("y.raw", "<f4").reshape((1, 2))' in text
    assert "source nodes" not in invoke(info, dlc).stdout
    report = json.loads(invoke(info, "--json", dlc).stdout)
    assert report["source_nodes"][0] == {
        "name": "same",
        "type": "Identity",
        "ops": [],
        "reason": "its result is its input under another name, shape or axis order",
    }
    assert report["graphs"][0]["inputs"][0]["raw"] == {"float32": 'array.astype("<f4").tofile("x.raw")'}


def test_quiet_prints_nothing(models: Any) -> None:
    source, folder = models.save(models.cnn(), "net.onnx"), models.folder
    smooth = folder / "smooth"
    smooth.mkdir()
    for number in range(4):
        rows = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 1, 16, 16) * (number + 1) / 4
        np.save(smooth / f"{number}.npy", np.concatenate([rows, -rows, rows.swapaxes(2, 3)], axis=1))
    quantized, lists = folder / "net_quantized.dlc", ("--input-list", smooth)
    for command, words in (
        (onnx_to_dlc, ["-i", source]),
        (quantize, ["--input-dlc", folder / "net.dlc", *lists]),
        (net_run, ["--container", quantized, *lists, "--output-dir", folder / "out"]),
        (to_onnx, ["-i", quantized]),
    ):
        result = invoke(command, *words, "--quiet")
        assert (result.stdout, result.stderr) == ("", "")


def test_recipes_of_raw_files_are_shown_once(dlc: Path, listing: Path) -> None:
    assert "raw files\n" in invoke(info, dlc).stdout
    assert "raw files\n" not in invoke(quantize, "--input-dlc", dlc, "--input-list", listing).stdout


def test_a_shape_that_does_not_fit_is_blamed_on_the_flag(models: Any) -> None:
    path = models.save(models.cnn(), "net.onnx")
    result = invoke(onnx_to_dlc, "-i", path, "-d", "x", "1,4,16,16", code=2)
    assert "[1, 4, 16, 16], but the model states [1, 3, 16, 16]" in result.stderr
    assert "--input-dim" in result.stderr
    with pytest.raises(UsageError, match=r"'x' .*\[1, 4, 16, 16\]") as caught:
        xdlc.convert(path, input_dims={"x": (1, 4, 16, 16)})
    assert caught.value.node


def test_an_end_that_is_no_value_is_an_error_with_names(models: Any) -> None:
    path = models.save(models.cnn(), "net.onnx")
    result = invoke(onnx_to_dlc, "-i", path, "--out-name", "zzzz", code=2)
    assert "no value 'zzzz'" in result.stderr
    assert "fix: name a value" in result.stderr
