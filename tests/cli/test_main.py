from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from click.testing import CliRunner

from xdlc import __version__
from xdlc.cli.main import main

TOOLS = (
    "xconv-onnx-to-dlc",
    "xdlc-quant",
    "xdlc-quantize",
    "xdlc-graph-prepare",
    "xdlc-info",
    "xdlc-net-run",
    "xdlc-to-onnx",
    "xdlc-platform-check",
    "xdlc-udo-config",
    "xdlc-udo-package-generator",
    "xdlc",
)


HEAVY = {"numpy", "onnx", "onnxruntime", "tqdm", "lxml", "ml_dtypes", "google.protobuf"}


def test_python_runs_the_package() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "xdlc", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"xdlc {__version__}\n"


def test_group_lists_and_resolves() -> None:
    listed = CliRunner().invoke(main, ["--help"])
    assert listed.exit_code == 0
    for name in ("convert", "quant", "graph-prepare", "info", "net-run", "to-onnx", "platform-check"):
        assert f"  {name} " in listed.output
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0
    assert "JSON and OpDef XML." in " ".join(listed.output.split()), "no line is cut"
    assert CliRunner().invoke(main, ["onnx-to-dlc", "--help"]).exit_code == 0
    wrong = CliRunner().invoke(main, ["quantt"])
    assert wrong.exit_code == 2
    assert "nearest: quant" in wrong.output


def test_scripts_are_the_commands() -> None:
    scripts = {e.name: e for e in entry_points(group="console_scripts") if e.value.startswith("xdlc.")}
    assert set(scripts) == set(TOOLS)
    for name, entry in scripts.items():
        command = entry.load()
        assert command.name == name
        assert command.callback.__doc__


@pytest.mark.parametrize("name", TOOLS)
def test_version(name: str) -> None:
    (entry,) = entry_points(group="console_scripts", name=name)
    result = CliRunner().invoke(entry.load(), ["--version"], prog_name=name)
    assert result.output == f"{name} {__version__}\n"


def modules_of(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", TOOLS)
def test_help_loads_next_to_nothing(name: str) -> None:
    (entry,) = entry_points(group="console_scripts", name=name)
    module, _, attribute = entry.value.partition(":")
    asked = (
        "import io, contextlib\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    from {module} import {attribute}\n"
        f"    {attribute}(['--help'], standalone_mode=False)"
    )
    loaded = modules_of(asked) - modules_of("import click")
    assert not loaded & HEAVY
    assert len(loaded) < 80, sorted(loaded)
