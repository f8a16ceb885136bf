"""Every figure of speed and scale beside its goal and its peer, in one run.

    python bench/all.py                          # all rows: half an hour on two processors
    python bench/all.py --quick --rows info,convert
    python bench/all.py --json results.json
    python bench/all.py --page                   # also writes docs/reference/performance.json and .md

Commands that are compared run in turns.  A figure is the least of several runs, memory the largest; times
are CPU seconds (user and system, of a process and its children) unless a line says wall, memory is the
peak of the largest process.  A row whose packages or disk space are missing is skipped, and says so.
``--page RESULTS.json`` stores these results and writes the page of them without measuring.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from results import HEAD, Result, as_row, machine, page
from rows import ROWS, Bench, Failed, Skipped

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/performance.md"


def store(content: dict[str, Any]) -> None:
    """Store results, and write the page of them."""
    PAGE.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    PAGE.write_text(page(content))


def measured(name: str, bench: Bench) -> Result:
    """Measure a row; print its lines as they come."""
    result = Result(name, ROWS[name].title)
    print(f"\n### {result.title}\n\n{HEAD}", flush=True)
    start = time.monotonic()
    try:
        for line in ROWS[name].lines(bench):
            result.lines.append(line)
            print(as_row(line), flush=True)
    except Skipped as reason:
        result.skipped = str(reason)
        print(f"skipped: {reason}", flush=True)
    except Failed as reason:
        result.failure = str(reason)
        print(f"failed: {reason}", flush=True)
    result.seconds = round(time.monotonic() - start, 1)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(ROWS), help="comma list of " + ", ".join(ROWS))
    parser.add_argument(
        "--work", type=Path, help="folder for models, which stay there (default: a temporary one)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small inputs and single runs: a test of the script"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument(
        "--page",
        nargs="?",
        const="",
        metavar="RESULTS.json",
        help="write the page, of stored results without measuring",
    )
    options = parser.parse_args()
    if options.page:
        store(json.loads(Path(options.page).read_text()))
        return 0
    chosen: Sequence[str] = options.rows.split(",")
    unknown = set(chosen) - ROWS.keys()
    if unknown:
        parser.error(f"no rows {', '.join(sorted(unknown))}; choose from {', '.join(ROWS)}")
    content: dict[str, Any] = {"machine": machine(), "quick": options.quick}
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        bench = Bench(work, options.quick)
        results = [measured(name, bench) for name in chosen]
    content["rows"] = [asdict(result) for result in results]
    if options.json is not None:
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if options.page is not None:
        store(content)
    return int(any(result.failure for result in results))


if __name__ == "__main__":
    sys.exit(main())
