"""Write the page: ``python -m scripts.browser -o open-dlc.html``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.browser import ROOT, browser_page, fetched


def main() -> int:
    """Write the page, or say why not."""
    parser = argparse.ArgumentParser(description="Write a page that opens DLCs in a browser.")
    parser.add_argument("-o", "--output", type=Path, default=Path("open-dlc.html"), metavar="FILE.html")
    parser.add_argument("--numpy-wheel", type=Path, metavar="FILE.whl", help="numpy for Pyodide")
    options = parser.parse_args()
    pyodide = fetched(ROOT / ".site" / "pyodide")
    if isinstance(pyodide, str):
        print(pyodide, file=sys.stderr)
        return 1
    text = browser_page(pyodide, options.numpy_wheel)
    options.output.write_text(text, "utf-8")
    print(f"written: {options.output}, {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
