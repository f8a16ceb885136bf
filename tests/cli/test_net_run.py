"""Flags of xdlc-net-run beside those of runtimes."""

import csv
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import xdlc
from tests.support.commands import invoke
from tests.support.htp_models import cnn, needs_htp
from tests.support.onnx_models import build, floats, node
from xdlc import api
from xdlc.cli.text import clean
from xdlc.cli.tools.net_run import _forecast, main
from xdlc.errors import StorageError
from xdlc.ir import Model, ScaleOffset
from xdlc.ir.dtype import UFIXED8
from xdlc.runtime import input_list
from xdlc.runtime.input_list import read_input_list

X = [floats(1, 4) for _ in range(3)]


@pytest.fixture
def model() -> Model:
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "y"), node("Neg", "h", "z")]
    return xdlc.convert(build(nodes, {"x": X[0]}, {"w": floats(4, 3)}, ["y", "z"], 17))


def net_run(folder: Path, model: Model, *words: object, code: int = 0, listed: Any = None) -> Result:
    model.save(folder / "m.dlc")
    for number, array in enumerate(X):
        array.tofile(folder / f"{number}.raw")
    (folder / "list.txt").write_text("".join(f"{folder / str(number)}.raw\n" for number in range(3)))
    command = ["--container", folder / "m.dlc", "--output-dir", folder / "out"]
    command += ["--input-list", listed or folder / "list.txt", *words]
    return invoke(main, *command, code=code)


def written(folder: Path, number: int = 0) -> set[str]:
    return {path.stem for path in (folder / "out" / f"Result_{number}").iterdir()}


def test_which_tensors_are_written(tmp_path: Path, model: Model) -> None:
    hidden = model.main.ops[0].outputs[0].name
    every = {tensor.name for op in model.main.ops for tensor in op.outputs}
    net_run(tmp_path, model, "--dump-all-tensors")
    assert written(tmp_path, 2) == every > {"y", "z"}
    model.main.outputs.pop().role = model.main.ops[0].outputs[0].role
    for number, (words, files) in enumerate(
        [
            ((), {"y"}),
            (("--set-unconsumed-as-output",), {"y", "z"}),
            (("--set-output-layers", model.main.ops[0].name), {"y", hidden}),
            (("--set-output-tensors", f"{model.main.name} {hidden},z"), {"y", "z", hidden}),
            (("--set-output-tensors", f"{model.main.name}:{hidden},z"), {"y", "z", hidden}),
            (("--enable-init-cache", "--storage-dir", tmp_path), {"y"}),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        net_run(folder, model, *words)
        assert written(folder) == files
    error = net_run(tmp_path, model, "--set-output-tensors", "hidde", "--set-output-layers", "no", code=2)
    assert error.stderr.count("has no") == 2


def test_how_often_the_list_runs_and_what_is_kept(tmp_path: Path, model: Model, monkeypatch: Any) -> None:
    done = net_run(tmp_path, model, "--num-inferences", 7, "--keep-num-outputs", 2)
    assert "Result_0 to Result_1; 7 inferences repeat the 3 samples" in done.stdout
    assert len(list((tmp_path / "out").iterdir())) == 2
    done = net_run(tmp_path, model, "--num-inferences", 1)
    assert "Result_0 to Result_0\n" in done.stdout
    with monkeypatch.context() as patch:
        patch.setattr(input_list, "time", SimpleNamespace(monotonic=count().__next__))
        assert "; 5 inferences repeat the 3 samples" in net_run(tmp_path, model, "--duration", 5).stdout
    (tmp_path / "new").mkdir()
    net_run(tmp_path / "new", model, "--keep-num-outputs", 0, "--profiling-level", "basic")
    assert [path.name for path in (tmp_path / "new/out").iterdir()] == ["profile.csv"]


def test_profile(tmp_path: Path, model: Model) -> None:
    model.main.ops[0].name = "clear\x1b[2J"
    for level, ops in (("basic", set()), ("detailed", {clean(op.name) for op in model.main.ops})):
        done = net_run(tmp_path, model, "--profiling-level", level)
        assert "mean of 3" in done.stdout
        with open(tmp_path / "out" / "profile.csv") as file:
            rows = list(csv.DictReader(file))
        assert rows[0]["type"] == "run"
        assert "\x1b" not in done.stdout
        assert {row["op"] for row in rows} - {""} <= ops
        assert (len(rows) > 1) == bool(ops)


@needs_htp
def test_ops_are_not_timed_on_the_emulation(tmp_path: Path) -> None:
    model = cnn(quantized=False)
    floats(1, 8, 8, 4).tofile(tmp_path / "x.raw")
    (tmp_path / "x.txt").write_text(str(tmp_path / "x.raw"))
    words = ("--profiling-level", "detailed", "--runtime", "htp")
    done = net_run(tmp_path, model, *words, listed=tmp_path / "x.txt")
    assert "--profiling-level detailed" in done.stderr
    with open(tmp_path / "out" / "profile.csv") as file:
        assert {row["op"] for row in csv.DictReader(file)} == {""}


def test_native_files_by_name(tmp_path: Path) -> None:
    model = cnn(quantized=True)
    (tensor,) = model.main.inputs
    model.save(tmp_path / "m.dlc")
    stored = np.arange(tensor.size, dtype=tensor.dtype.numpy).reshape(tensor.shape)
    stored.tofile(tmp_path / "stored.raw")
    (tmp_path / "native.txt").write_text(str(tmp_path / "stored.raw"))
    expected = xdlc.run(model, {"x": stored})["y"]
    for words in (
        ("--native-input-tensor-names", f"{model.main.name}:x"),
        ("--native-input-tensor-names", "x"),
        (
            "--use-native-input-files",
            "--use-native-output-files",
            "--data-type-map",
            "x=fixedPoint8,y=float32",
        ),
    ):
        net_run(tmp_path, model, *words, listed=tmp_path / "native.txt")
        found = np.fromfile(tmp_path / "out/Result_0/y.raw", np.float32)
        np.testing.assert_array_equal(found, expected.reshape(-1))
    for words, text in (
        (("--native-input-tensor-names", "w"), "has no input 'w'"),
        (("--native-input-tensor-names", "other:x"), "has no input 'other:x'"),
        (("--native-input-tensor-names", "x", "--use-native-input-files"), "exclude each other"),
    ):
        error = net_run(tmp_path, model, *words, listed=tmp_path / "native.txt", code=2)
        assert text in error.stderr, error.stderr


def test_lists_of_several_graphs(tmp_path: Path, model: Model) -> None:
    second_graph = model.main.clone()
    second_graph.name = "other"
    both = Model({model.main.name: model.main, "other": second_graph}, model.metadata)
    listed = tmp_path / "list.txt"
    net_run(tmp_path, both, listed=f"__,{listed}")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["other"]
    assert (tmp_path / "out/other/Result_2/y.raw").is_file()
    hidden = second_graph.ops[0].outputs[0].name
    net_run(
        tmp_path,
        both,
        "--set-output-tensors",
        f"{model.main.name}:{hidden};other:z",
        listed=f"{listed},{listed}",
    )
    assert (tmp_path / "out" / model.main.name / "Result_0" / f"{hidden}.raw").is_file()
    assert not (tmp_path / f"out/other/Result_0/{hidden}.raw").exists()
    assert (
        "not graph 'other'"
        in net_run(tmp_path, both, "--set-output-tensors", f"other {hidden}", code=2).stderr
    )
    assert (
        "you gave 3 input lists, but the model has 2"
        in net_run(tmp_path, both, listed=f"__,{listed},a", code=2).stderr
    )
    assert "no graph" in net_run(tmp_path, both, listed="__,__", code=2).stderr
    second_graph.name = "../../other"
    both = Model({model.main.name: model.main, second_graph.name: second_graph}, model.metadata)
    net_run(tmp_path, both, listed=f"__,{listed}", code=2)


def test_other_dimensions(tmp_path: Path, model: Model) -> None:
    net_run(tmp_path, model, "--input-name", "x", "--input-dimensions", "3,4")
    assert len(list((tmp_path / "out").iterdir())) == 3  # lines fill the batch
    found = np.fromfile(tmp_path / "out/Result_1/y.raw", np.float32)
    np.testing.assert_allclose(found, xdlc.run(model, {"x": X[1]})["y"].reshape(-1), rtol=1e-6)
    error = net_run(tmp_path, model, "--use-aip", listed="a.txt,b.txt", code=2)
    assert "--use-aip runs only the main graph" in error.stderr
    error = net_run(tmp_path, model, "--input-name", "x", code=2)
    assert "--input-dimensions 0 times" in error.stderr


def test_a_folder_of_caches_that_cannot_be_made_is_an_error(tmp_path: Path, model: Model) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        api.with_stored_cache(model, tmp_path / "file/caches", "sm8550", "permissive", (), False, print)


@needs_htp
@pytest.mark.slow
def test_a_compiled_cache_is_stored_and_taken_again(tmp_path: Path) -> None:
    model = cnn(quantized=True)
    model.save(tmp_path / "m.dlc")
    floats(*model.main.inputs[0].shape).tofile(tmp_path / "x.raw")
    (tmp_path / "x.txt").write_text(str(tmp_path / "x.raw"))
    words = [
        "--runtime",
        "htp",
        "--soc",
        "sm8550",
        "--enable-init-cache",
        "--storage-dir",
        tmp_path / "caches",
    ]
    first = net_run(tmp_path, model, *words, listed=tmp_path / "x.txt")
    assert "compiled and stored" in first.stderr
    result = (tmp_path / "out/Result_0/y.raw").read_bytes()
    again = net_run(tmp_path, model, *words, listed=tmp_path / "x.txt")
    assert "xdlc uses the stored cache" in again.stderr
    assert "from htp.cache.sm8550.0" in again.stdout
    assert (tmp_path / "out/Result_0/y.raw").read_bytes() == result
    next((tmp_path / "caches").iterdir()).write_bytes(b"cut short")
    repaired = net_run(tmp_path, model, *words, listed=tmp_path / "x.txt")
    assert "xdlc replaces the damaged cache" in repaired.stderr
    net_run(tmp_path, model, *words, "--dump-all-tensors", listed=tmp_path / "x.txt")
    assert len(list((tmp_path / "caches").iterdir())) == 2


@pytest.mark.parametrize(
    ("first", "count", "minutes"), [(3.0, 200, "10 minute"), (3.0, 4, ""), (90.0, 1, "")]
)
def test_a_long_emulation_is_announced(
    monkeypatch: pytest.MonkeyPatch, first: float, count: int, minutes: str
) -> None:
    notices: list[str] = []
    monkeypatch.setattr("xdlc.cli.tools.net_run.notice", notices.append)
    _forecast(first, count)
    assert [minutes in text for text in notices] == [True] * bool(minutes)


def test_a_source_model_runs_as_its_float_dlc(tmp_path: Path, model: Model) -> None:
    net_run(tmp_path, model)
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "y"), node("Neg", "h", "z")]
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    source = build(nodes, {"x": X[0]}, {"w": weights.numpy().reshape(4, 3)}, ["y", "z"], 17)
    (tmp_path / "m.onnx").write_bytes(source.SerializeToString())
    words = ("-i", tmp_path / "m.onnx", "-l", tmp_path / "list.txt", "-o", tmp_path / "again")
    done = CliRunner().invoke(main, [*map(str, words)])
    assert (done.exit_code, "--samples" in done.stderr) == (0, True), done.output
    for path in (tmp_path / "out").rglob("*.raw"):
        assert (tmp_path / "again" / path.relative_to(tmp_path / "out")).read_bytes() == path.read_bytes()


def test_integers_for_a_float_input_are_said_to_be_unscaled(tmp_path: Path, model: Model) -> None:
    (tmp_path / "few.txt").write_text(f"{tmp_path / 'few.npy'}\n")
    for dtype, is_noticed in ((np.uint8, True), (np.float32, False)):
        np.save(tmp_path / "few.npy", np.array([[0, 7, 200, 255]], dtype))
        done = net_run(tmp_path, model, listed=tmp_path / "few.txt")
        assert ("uint8" in done.stderr) is is_noticed
    model.main.inputs[0].dtype, model.main.inputs[0].encoding = UFIXED8, ScaleOffset(1 / 255)
    np.save(tmp_path / "few.npy", np.array([[0, 7, 200, 255]], np.uint8))
    (line,) = read_input_list(tmp_path / "few.txt", model.main).inferences[0].lines
    assert line["x"].cast == ""
