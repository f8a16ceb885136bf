from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypedDict

import click
import pytest
from click.testing import CliRunner

from xdlc.cli.convert_options import converter_tool
from xdlc.converter.frontends import Frontend
from xdlc.converter.pipeline import Options
from xdlc.errors import ModelError
from xdlc.options import Option, PathLike

SEEN: dict[str, Any] = {}


class NetOptions(TypedDict):
    weights: Annotated[PathLike | None, Option("Its weights.", flags=("--weights", "-b", "--net_bin"))]


def reads(path: Path, options: Options, **own: Any) -> Any:
    SEEN.clear()
    SEEN.update(asdict(options), **own, path=Path(path))
    raise ModelError("seen", fix="none")


NET = Frontend(
    "onnx",
    "a net",
    "xconv-net-to-dlc",
    lambda _path, _found: True,
    reads,
    NetOptions,
    {"--input_network": ("-p", "--net_txt"), "--output_path": ("--dlc",)},
)


@pytest.fixture(autouse=True)
def one_frontend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdlc.converter.frontends.frontends", lambda: {"onnx": NET})


def run(tool: click.Command, *words: str) -> str:
    SEEN.clear()
    result = CliRunner().invoke(tool, list(words))
    return str(result.stderr)


@pytest.mark.parametrize("source", ["-i", "--input_network", "-p", "--net_txt"])
@pytest.mark.parametrize("weights", ["-b", "--net_bin", "--weights"])
def test_flags_of_an_importer_precede_in_its_tool(source: str, weights: str, tmp_path: Path) -> None:
    model = tmp_path / "n.txt"
    model.write_text("net")
    words = f"{source} {model} {weights} w --batch 2 --package_name P --dlc {tmp_path / 'o'}"
    assert "seen" in run(converter_tool("xconv-net-to-dlc", NET), *words.split())
    assert SEEN["path"] == model
    assert (SEEN["weights"], SEEN["batch"], SEEN["package_name"]) == (Path("w"), 2, "P")


def test_flags_of_weights_follow_those_of_the_model() -> None:
    names = [param.name for param in converter_tool("xconv-net-to-dlc", NET).params]
    assert names[:3] == ["path", "weights", "target"]


def test_flags_of_all_importers_precede_in_the_tool_for_all(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("xdlc.cli.convert_options.frontends", lambda: {"onnx": NET})
    model = tmp_path / "n.txt"
    model.write_text("net")
    run(converter_tool("xdlc-convert"), "-i", str(model), "-b", "2", "-p", "P", "--net_bin", "w")
    assert (SEEN["weights"], SEEN["batch"], SEEN["package_name"]) == (Path("w"), 2, "P")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["-p", "a", "--net_txt", "b"], "two values for one option: -p and --net_txt"),
        (["-b", "a", "--weights=b"], "two values for one option: -b and --weights"),
        (
            ["--weights=a", "-b", "a", "--input_network=a", "--input_network=b"],
            "two values for one option: --in",
        ),
        (["-i", "a", "-d", "b.dlc"], "-d expects a name and a shape, found 'b.dlc'"),
    ],
)
def test_contradictory_words_are_refused(words: list[str], problem: str) -> None:
    assert f"error[XD200]: {problem}" in run(converter_tool("xconv-net-to-dlc", NET), *words)


@pytest.mark.parametrize("output", ["n.txt", "w.bin"])
def test_no_input_is_replaced(output: str, tmp_path: Path) -> None:
    for name in ("n.txt", "w.bin"):
        (tmp_path / name).write_text(name)
    words = ["-i", str(tmp_path / "n.txt"), "-b", str(tmp_path / "w.bin"), "-o", str(tmp_path / output)]
    assert "the output would replace the input" in run(converter_tool("xconv-net-to-dlc", NET), *words)
    assert (tmp_path / output).read_text() == output
