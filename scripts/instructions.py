"""Instructions that small jobs execute, which stay within 5 % of the record.

    python -m scripts.instructions            # count, and compare with scripts/data/instructions.json
    python -m scripts.instructions --write    # renew the record, after a change that is meant

Valgrind counts the instructions of one process on one thread; two runs differ by less than a ten
thousandth, however busy the machine is.  Counts depend on Python and on the packages that compute: the
record names their versions.  With other versions, counts may differ by 30 %, until the record is renewed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).parent / "data" / "instructions.json"
RENEW = "python -m scripts.instructions --write"
TOLERANCE, OTHER_VERSIONS = 0.05, 0.3
"""Change of a count that passes, with the versions of the record and with others."""
PACKAGES = ("numpy", "onnx", "onnxruntime")

ONE_PROCESSOR = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
JOBS = {
    "import": "import xdlc",
    "info": """
import sys
from xdlc.cli.tools.info import main
sys.argv = ["xdlc-info", "-i", "small.dlc"]
main()
""",
    "convert": """
import xdlc
xdlc.convert("small.onnx").save("converted.dlc")
""",
    "quantize": """
import numpy as np
import xdlc
samples = np.random.default_rng(0).standard_normal((4, 1, 3, 8, 8)).astype(np.float32)
model = xdlc.quantize("small.dlc", [{"input": sample} for sample in samples], notify=lambda text: None)
model.save("quantized.dlc")
""",
    "load and save 2,000 nodes": """
import xdlc
xdlc.load("chain.dlc").save("saved.dlc")
""",
}
"""Python code of each job, which runs in a folder with the models."""


def make_models(folder: Path) -> None:
    """Write the models of the jobs into a folder."""
    import xdlc

    for name, words in {"small": ("networks.py", "small"), "chain": ("graphs.py", "chain", "2000")}.items():
        source = folder / f"{name}.onnx"
        subprocess.run([sys.executable, ROOT / "bench" / words[0], *words[1:], source], check=True)
        xdlc.convert(source).save(source.with_suffix(".dlc"))


def instructions(job: str, folder: Path) -> int:
    """Return the number of instructions of a job in a folder with the models."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ONE_PROCESSOR + JOBS[job]]
    subprocess.run(command, check=True, cwd=folder, env=environment, capture_output=True)  # writes .pyc files
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    done = subprocess.run(
        [*valgrind, *command], check=True, cwd=folder, env=environment, capture_output=True, text=True
    )
    match = re.search(r"Collected : (\d+)", done.stderr)
    assert match, done.stderr[-500:]
    return int(match[1])


def versions() -> dict[str, str]:
    """Return the versions that counts depend on."""
    return {"python": platform.python_version()} | {package: version(package) for package in PACKAGES}


def problems(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield how counts differ from the record."""
    record = json.loads(RECORD.read_text())
    is_same = record["versions"] == versions()
    for job, count in counts.items():
        change = count / record["counts"][job] - 1
        if abs(change) > (TOLERANCE if is_same else OTHER_VERSIONS):
            cause = "if it is meant" if is_same else f"the record is of {record['versions']}"
            yield f"{job}: {count:,} instructions, {change:+.1%} against the record; {cause}: {RENEW}"


def main() -> int:
    """Count, and compare or write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the record")
    options = parser.parse_args()
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        make_models(Path(folder))
        for job in JOBS:
            counts[job] = instructions(job, Path(folder))
            print(f"{job:30}{counts[job]:16,}", flush=True)
    if options.write:
        RECORD.write_text(json.dumps({"versions": versions(), "counts": counts}, indent=1) + "\n")
        return 0
    lines = list(problems(counts))
    print(*lines, sep="\n", end="\n" * bool(lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
