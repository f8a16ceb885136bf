"""Writer of dev.lock: exact versions of all that development installs, with hashes.

    python scripts/lock.py          # resolves .[dev,htp] for this system and this version of Python
    python scripts/lock.py REPORT   # from what `pip install --dry-run --report REPORT` has written

`pip install --require-hashes -r dev.lock` takes these files and no others.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def resolved() -> dict[str, Any]:
    """Return pip's report of what it would install."""
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", ".[dev,htp]"]
    done = subprocess.run([sys.executable, "-m", "pip", *words], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def locked(report: dict[str, Any]) -> str:
    """Return the lines of dev.lock.

    Raises:
        KeyError: If pip states no hash of a file.
    """
    python = ".".join(platform.python_version_tuple()[:2])
    lines = [f"# Written by scripts/lock.py for Python {python} on {platform.system()} {platform.machine()}."]
    for entry in sorted(report["install"], key=lambda entry: entry["metadata"]["name"].lower()):
        if "dir_info" not in entry["download_info"]:  # the project itself
            name, version = entry["metadata"]["name"], entry["metadata"]["version"]
            digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
            lines.append(f"{name}=={version} --hash=sha256:{digest}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    report = json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else resolved()
    (ROOT / "dev.lock").write_text(locked(report))
