"""Export to ONNX by torch itself, the fallback: its options and its process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdlc.converter.formats import TORCH_EXPORT, recognize
from xdlc.converter.pytorch.live import INSTALL, check_surroundings, first_lines
from xdlc.errors import UnsupportedOp, UsageError
from xdlc.options import spell
from xdlc.worker.process import environment

_EXPORTERS = ("torch", "onnx")
_MOST_SECONDS = 1800
_MEMORY = 16 << 30


def uses_onnx(options: Mapping[str, Any]) -> bool:
    """Return whether options choose the exporter of torch.onnx.

    Raises:
        UsageError: If they name another one that does not exist.
    """
    exporter = options.get("torch_exporter", "torch")
    if exporter not in _EXPORTERS:
        raise UsageError(f"unknown exporter {exporter!r}", fix=f"exporters: {', '.join(_EXPORTERS)}")
    return bool(exporter == "onnx")


def export_file(source: Path, folder: Path, shapes: Mapping[str, Sequence[int]], *, trusted: bool) -> Path:
    """Export a PyTorch file to ONNX in a child process; return the path.

    Args:
        source: A program of torch.export, or a script.
        folder: Folder of the result.
        shapes: Shapes by input name, which a script lacks.
        trusted: Whether the file may execute code.

    Raises:
        UsageError: If it is not trusted.
        UnsupportedOp: If torch cannot load or export it.
    """
    if not trusted:
        raise UsageError(
            "loading the file with torch executes code that it may contain",
            where=str(source),
            fix=f"add {spell('trust', True)} if you trust the file, or omit {spell('torch_exporter')}",
        )
    target, sizes = folder / "model.onnx", {name.partition(".")[0]: [*each] for name, each in shapes.items()}
    request = {
        "source": str(source.absolute()),
        "target": str(target),
        "shapes": None if recognize(source) is TORCH_EXPORT else sizes,
        "seconds": _MOST_SECONDS,
        "nbytes": _MEMORY + 16 * source.stat().st_size,
    }
    command = [sys.executable, "-P", str(Path(__file__).with_name("loading.py")), json.dumps(request)]
    options: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "stdin": subprocess.DEVNULL,
        "env": environment(),
    }
    try:
        done = subprocess.run(command, timeout=_MOST_SECONDS, **options)
        lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["it was killed"]
        text = lines[-1]
        if done.returncode == 0 and target.is_file():
            return target
    except subprocess.TimeoutExpired:
        text = f"it exceeds the time limit of {_MOST_SECONDS} s"
    text = json.loads(text)["error"] if text.startswith('{"error"') else text
    if "No module named" in text:
        raise UsageError(f"torch.onnx requires a package: {first_lines(text)}", fix=INSTALL)
    check_surroundings(RuntimeError(text))
    problem = f"torch.onnx cannot export the file: {first_lines(text)}"
    fix = f"omit {spell('torch_exporter')}, or export the network again"
    raise UnsupportedOp(problem, where=str(source), fix=fix)
