"""All steps from a source model to a prepared DLC."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import load, save

import xdlc
from tests.support.commands import invoke
from tests.support.htp_models import needs_htp
from tests.support.onnx_models import residual
from xdlc import api
from xdlc.cli.main import main
from xdlc.errors import UsageError
from xdlc.runtime.input_list import folder_list, read_input_list


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save(residual(), tmp_path / "net.onnx")
    folder = tmp_path / "samples"
    folder.mkdir()
    rng = np.random.default_rng(1)
    for number in range(10):
        np.save(folder / f"{number}.npy", rng.standard_normal((1, 3, 8, 8)).astype(np.float32))
    return tmp_path / "net.onnx"


@needs_htp
def test_all_steps_end_with_one_line_that_says_how_good_where_and_how_much(source: Path) -> None:
    folder, picture = source.parent / "all", source.parent / "way.svg"
    words = ["net-run", "-i", str(source), "--samples", str(source.parent / "samples"), "--soc", "sm8650"]
    done = invoke(main, *words, "-o", folder, "--svg", picture, catch_exceptions=False)
    line = done.output.splitlines()[-1]
    assert line.startswith("net on sm8650: ")
    assert " dB" in line
    assert "ops on HTP" in line
    assert "MACs" in line
    again = CliRunner().invoke(main, [*words, "-o", str(folder), "--act-bitwidth", "16", "--json"])
    figures = json.loads(again.stdout)["figures"]
    assert figures["ops_on_htp"] <= figures["ops"]
    assert figures["outputs"][0]["sqnr"] > 30
    assert picture.read_text("utf-8").startswith("<svg")
    names = {"net.dlc", "net_quantized.dlc", "net_cached.dlc", "net_report.html"}
    assert {path.name for path in folder.iterdir()} == names
    (verdict,) = xdlc.verdicts(folder / "net_cached.dlc", "sm8650")
    assert verdict.usable


def test_a_folder_without_samples_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match=r"has no \.npy"):
        api.build(source, tmp_path / "none", folder=tmp_path / "all")


@pytest.mark.parametrize("words", [["--samples", "none.txt"], ["--soc", "sm1", "--samples", "samples"]])
def test_wrong_calls_leave_no_files(source: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(source.parent)
    before = sorted(source.parent.iterdir())
    assert CliRunner().invoke(main, ["run", source.name, *words]).exit_code in (2, 8)
    assert sorted(source.parent.iterdir()) == before


@pytest.mark.parametrize(
    "words", [["--svg", "way.svg", "-l", "list"], ["--samples", "samples", "-l", "list"]]
)
def test_flags_of_a_run_and_of_all_steps_exclude_each_other(source: Path, words: list[str]) -> None:
    (source.parent / "list").touch()
    done = invoke(main, "run", source, *words, code=2)
    assert "--samples" in done.stderr


@pytest.mark.parametrize("words", [["--sco", "sm8650"], ["--acuracy", "best"]])
def test_an_unknown_flag_is_one_problem(source: Path, words: list[str]) -> None:
    done = invoke(main, "run", source, "--samples", source.parent, *words, code=2)
    assert words[0] in done.stderr
    assert words[1] not in done.stderr


def test_flags_of_quantizing_need_samples(source: Path) -> None:
    (source.parent / "list").touch()
    done = invoke(main, "run", source, "-l", source.parent / "list", "--accuracy", "best", code=2)
    assert "--samples" in done.stderr


@needs_htp
def test_open_dimensions_are_bound_or_named(source: Path) -> None:
    model = load(source)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    save(model, source)
    folder = source.parent
    words = ["run", str(source), "--samples", str(folder / "samples"), "-o", str(folder / "all")]
    done = invoke(main, *words, code=5)
    assert "--input-dim" in done.stderr
    assert not (folder / "all").exists()
    name = model.graph.input[0].name
    done = CliRunner().invoke(main, [*words, "--input-dim", name, "1,3,8,8"])
    assert (done.exit_code, "ops on HTP" in done.stdout) == (0, True)


def test_a_folder_is_read_in_the_order_of_its_numbers(source: Path) -> None:
    folder = source.parent / "samples"
    (folder / "0.npy").rename(folder / "10.npy")
    names = [Path(line).name for line in folder_list(folder).splitlines()]
    assert names == [f"{number}.npy" for number in range(1, 11)]
    graph = xdlc.convert(source).main
    assert len(read_input_list(folder, graph)) == 10


def test_a_dlc_needs_a_list(source: Path) -> None:
    xdlc.convert(source).save(source.with_suffix(".dlc"))
    invoke(main, "net-run", "-i", source.with_suffix(".dlc"), code=2)
