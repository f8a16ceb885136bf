import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.support.commands import invoke
from xdlc import __version__
from xdlc.cli.main import main
from xdlc.registry import module_names

SCRIPTS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
TOOLS = {module: import_module(f"xdlc.cli.tools.{module}").main for module in module_names("xdlc.cli.tools")}

HEAVY = {"numpy", "onnx", "onnxruntime", "tqdm", "lxml", "ml_dtypes", "google.protobuf"}


def test_python_runs_the_package() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "xdlc", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"xdlc {__version__}\n"


def test_packages_that_import_xdlc_keep_the_folder_that_they_run_from(tmp_path: Path) -> None:
    (tmp_path / "beside.py").touch()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text("import xdlc")
    (tmp_path / "own" / "__main__.py").write_text("import beside")
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-m", "own"], cwd=tmp_path, env=paths, check=True)


def test_group_lists_and_resolves() -> None:
    listed = invoke(main, "--help")
    short = {"net-run": "run", "graph-prepare": "prepare"}
    for name in (module.replace("_", "-") for module in TOOLS):
        assert f"  {short.get(name, name)} " in listed.output
        assert CliRunner().invoke(main, [short.get(name, name), "--help"]).exit_code == 0
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0
    assert "JSON and OpDef XML." in " ".join(listed.output.split()), "no line is cut"
    wrong = invoke(main, "quantt", code=2)
    assert "nearest: quantize" in wrong.output


def test_every_tool_has_a_script_and_every_script_a_tool() -> None:
    expected = {command.name: f"xdlc.cli.tools.{module}:main" for module, command in TOOLS.items()}
    others = {"xdlc": "xdlc.cli.main:main", "xdlc-quant": "xdlc.cli.tools.quantize:main"}
    assert expected | others == SCRIPTS
    assert all(command.help for command in (*TOOLS.values(), main))


@pytest.mark.parametrize("command", [*TOOLS.values(), main], ids=lambda command: command.name)
def test_version(command: click.Command) -> None:
    result = CliRunner().invoke(command, ["--version"], prog_name=command.name)
    assert result.output == f"{command.name} {__version__}\n"


def modules_of(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_loads_next_to_nothing(name: str) -> None:
    module, _, attribute = SCRIPTS[name].partition(":")
    asked = (
        "import io, contextlib\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    from {module} import {attribute}\n"
        f"    {attribute}(['--help'], standalone_mode=False)"
    )
    loaded = modules_of(asked) - modules_of("import click")
    assert not loaded & HEAVY
    assert len(loaded) < 130, sorted(loaded)
