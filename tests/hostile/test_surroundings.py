"""Files around a tool have no effect on it, and it has no effect on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.support.htp_models import cnn, needs_htp

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PLANTED = """import os, sys
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "RUN"), "a") as file:
    file.write(f"{__name__} in {sys.orig_argv}\\n")
"""


def planted(folder: Path) -> None:
    """Write a plugin, and modules named as those of the library and dependencies."""
    listing = [sys.executable, "-I", "-c", "import runpy, sys; print(*sys.modules)"]
    before = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    names = sys.stdlib_module_names - {
        *sys.builtin_module_names,
        *before,
    }  # -m imports those first
    for name in (*names, "numpy", "click", "onnx", "onnxruntime", "lxml", "yaml", "evil", "torch"):
        (folder / f"{name}.py").write_text(PLANTED)
    package = folder / "evil-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[xdlc.plugins]\nevil = evil:P\n")


def tool(folder: Path, *words: object) -> None:
    """Run a tool in a folder."""
    command = [sys.executable, "-m", "xdlc", *map(str, words)]
    paths = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (folder / "RUN").exists(), (folder / "RUN").read_text()


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Return a folder with a float DLC, a quantized one and a list of samples."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    xdlc.save(cnn(quantized=False), folder / "float.dlc")
    xdlc.save(cnn(quantized=True), folder / "fixed.dlc")
    shape = xdlc.load(folder / "float.dlc").main.inputs[0].shape
    for number in range(4):
        np.full(shape, number, "f4").tofile(folder / f"{number}.raw")
    (folder / "list.txt").write_text("".join(f"{folder}/{number}.raw\n" for number in range(4)))
    return folder


@needs_htp
def test_no_process_imports_from_the_current_folder(tmp_path: Path, inputs: Path) -> None:
    folder = tmp_path / "downloads"
    folder.mkdir()
    planted(folder)
    listed, out = inputs / "list.txt", tmp_path / "out"
    out.mkdir()
    tool(folder, "to-onnx", "-i", inputs / "float.dlc", "-o", inputs / "net.onnx")
    tool(folder, "convert", "-i", inputs / "net.onnx", "-o", out / "1.dlc")
    tool(folder, "convert", "-i", inputs / "net.onnx", "--dry_run", "--target", "sm8550")
    tool(folder, "quantize", "-i", inputs / "float.dlc", "-l", listed, "--jobs", 2, "-o", out / "2.dlc")
    socs = ["--htp_socs", "sm8550,sm8650"]
    tool(folder, "graph-prepare", "--input_dlc", inputs / "fixed.dlc", "--output_dlc", out / "4.dlc", *socs)
    run = [
        "net-run",
        "--container",
        inputs / "fixed.dlc",
        "--input_list",
        listed,
        "--output_dir",
        out / "run",
    ]
    tool(folder, *run)
    tool(folder, *run, "--runtime", "htp", "--soc", "sm8550")
    tool(folder, "platform-check")


@needs_htp
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_the_demo_looks_up_no_names_and_keeps_to_its_folder(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "strace_demo.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
