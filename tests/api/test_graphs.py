"""Models with several graphs: which one runs."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.prepare.edit.test_link import WEIGHT, scaling
from tests.support.commands import invoke
from xdlc.cli.tools.net_run import main
from xdlc.cli.tools.to_onnx import main as to_onnx
from xdlc.errors import UsageError, XdlcError


def feeds(size: int) -> dict[str, Any]:
    return {"x": np.full((size, 64), size, np.float32)}


@pytest.fixture
def both(tmp_path: Path) -> Path:
    xdlc.link([scaling(1), scaling(3)], notify=lambda _: None).save(tmp_path / "both.dlc")
    return tmp_path / "both.dlc"


def test_shapes_choose_the_graph(both: Path) -> None:
    for size in (1, 3):
        np.testing.assert_array_equal(xdlc.run(both, feeds(size))["y"], np.tile(WEIGHT * size, (size, 1)))
    with xdlc.Session(both) as session:
        assert session.graph.name == "main_1x64"
        for size in (3, 1, 3):
            assert session.run(feeds(size))["y"].shape == (size, 64)
            assert session.submit(feeds(size)).result()["y"].shape == (size, 64)
        assert session.profile(feeds(3), runs=1).ops
        with pytest.raises(UsageError, match="2, 64") as error:
            session.run(feeds(2))
        assert "main_1x64" in error.value.fix
        assert "main_3x64" in error.value.fix
        with pytest.raises(XdlcError, match="'z'"):
            session.run({"z": np.ones((3, 64), np.float32)})


def test_a_graph_that_is_opened_makes_no_run_of_another_wait(both: Path) -> None:
    entered, going = threading.Event(), threading.Event()
    with xdlc.Session(both) as session:
        opening = session._open

        def slow(graph: str) -> Any:
            entered.set()
            going.wait(20)
            return opening(graph)

        session._open = slow
        later = session.submit(feeds(3))
        assert entered.wait(20)
        try:
            assert session.submit(feeds(1)).result(10)["y"].shape == (1, 64)
        finally:
            going.set()
        assert later.result()["y"].shape == (3, 64)


def test_shapes_choose_where_no_graph_is_named(both: Path) -> None:
    with xdlc.Session(both, graph=None) as session:
        assert session.run(feeds(3))["y"].shape == (3, 64)


def test_names_choose_the_graph(both: Path) -> None:
    with xdlc.Session(both, graph="main_3x64") as session:
        assert session.graph.name == "main_3x64"
        assert session.run(feeds(3))["y"].shape == (3, 64)
        with pytest.raises(UsageError):
            session.run(feeds(1))
    with pytest.raises(UsageError, match="'main'") as error:
        xdlc.Session(both, graph="main")
    assert "main_1x64, main_3x64" in error.value.fix
    with pytest.raises(UsageError, match="graph"):
        xdlc.Session(both, "aip", graph="main_3x64")


@pytest.mark.parametrize("words", [[], ["--graph", "main_3x64"]])
def test_net_run_chooses_a_graph(both: Path, words: list[str]) -> None:
    feeds(3)["x"].tofile(both.with_name("x.raw"))
    both.with_name("list.txt").write_text(f"x:={both.with_name('x.raw')}\n")
    common = ["--container", str(both), "--input_list", str(both.with_name("list.txt"))]
    target = both.with_name("out")
    invoke(main, *common, "--output_dir", target, *words)
    found = np.fromfile(target / "Result_0" / "y.raw", "<f4").reshape(3, 64)
    np.testing.assert_array_equal(found, np.tile(WEIGHT * 3, (3, 1)))
    invoke(main, *common, "--output_dir", target, "--graph", "main_1x64", code=2)
    unknown = invoke(main, *common, "--output_dir", target, "--graph", "other", code=2)
    assert "main_1x64" in unknown.output


def test_onnx_has_one_graph_by_name(both: Path) -> None:
    words = ["-i", str(both), "-o", str(both.with_suffix(".onnx"))]
    chosen = invoke(to_onnx, *words, "--graph", "main_3x64")
    assert "main_3x64" not in chosen.output
    assert "main_3x64" in CliRunner().invoke(to_onnx, words).output
    unknown = invoke(to_onnx, *words, "--graph", "main", code=2)
    assert "main_3x64" in unknown.output


def test_debugger_compares_one_graph(both: Path) -> None:
    notices: list[str] = []
    options: Any = {"reference": "float", "candidate": "cpu", "notify": notices.append}
    assert xdlc.debug(both, [feeds(3)], graph="main_3x64", **options).first_wrong is None
    assert not notices
    xdlc.debug(both, [feeds(1)], graph=None, **options)
    assert any("main_3x64" in text for text in notices)
    with pytest.raises(UsageError, match="'other'"):
        xdlc.debug(both, [feeds(1)], graph="other", **options)


def test_a_model_gets_another_main_graph(both: Path) -> None:
    model = xdlc.load(both)
    other = model.with_main("main_3x64")
    assert list(other.graphs) == ["main_3x64", "main_1x64"]
    assert other.main is model.graphs["main_3x64"]
    assert list(model.graphs) == ["main_1x64", "main_3x64"]
    assert model.with_main(None) is model
    with pytest.raises(UsageError, match="'other'"):
        model.with_main("other")
