"""Build the documentation: the site in .site/html, or man pages in .site/man.

    make docs                            # python -m scripts.docs
    make man                             # python -m scripts.docs --man
    python -m scripts.docs --numpy-wheel FILE.whl   # the page that opens DLCs then has statistics of weights

Pages are Markdown that GitHub shows as well.  A copy of docs/ in .site/source gets what only the site has:
the sidebar, pages about the project from other folders, and pages from the code (scripts/reference.py).
Links to files that are no pages become plain text there.
"""

from __future__ import annotations

import argparse
import json
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from scripts import reference
from scripts.browser import browser_page, fetched

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / ".site"
BROWSER_GUIDE = "guides/view-in-browser.md"
BROWSER_PAGE = "open-dlc.html"

# Pages of other folders, and their places in the site.
ELSEWHERE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "bench/README.md": "project/benchmarks.md",
    "fuzz/README.md": "project/fuzzing.md",
}

# The sidebar. A name with * stands for all pages of a folder that are not listed before.
CONTENTS = {
    "Get started": ("start/install", "start/first-dlc", "start/phone", "start/app"),
    "Guides: convert": (
        "guides/onnx",
        "guides/pytorch",
        "guides/tflite-and-tensorflow",
        "guides/caffe-and-caffe2",
        "guides/from-snpe",
        "guides/dynamic-shapes",
        "guides/boundary",
        "guides/checkpoints",
    ),
    "Guides: accuracy": (
        "guides/accuracy",
        "guides/calibration-data",
        "guides/mixed-precision",
        "guides/compare",
        "guides/diff",
        "guides/debug",
        "guides/view",
        "guides/view-in-browser",
    ),
    "Guides: chips": (
        "guides/choosing-socs",
        "guides/cost",
        "guides/verified-caches",
        "guides/multi-graph",
        "guides/llm",
        "guides/batch",
        "guides/scaling",
        "guides/ci",
    ),
    "Guides: own operations": (
        "guides/udo",
        "guides/*",
    ),
    "When it goes wrong": ("troubleshooting", "reference/errors"),
    "Concepts": (
        "concepts/dlc-and-cache",
        "concepts/quantization",
        "concepts/what-runs-where",
        "concepts/emulation-and-device",
        "concepts/*",
    ),
    "Reference": (
        "reference/cli",
        "reference/python-api",
        "reference/api",
        "reference/report",
        "reference/supported-ops",
        "reference/*",
    ),
    "Gallery": ("gallery",),
    "Compare": ("comparison",),
    "Project": ("project/*", "adr/README"),
}

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


# ------------------------------------------------------------------ pages


def pages(*, has_browser_page: bool = False) -> dict[str, str]:
    """Return the text of each page of the site by its path in it.

    Args:
        has_browser_page: Whether the site has the page that opens DLCs.
    """
    sources = {path.relative_to(ROOT).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    sources |= {name: ROOT / name for name in ELSEWHERE if (ROOT / name).exists()}
    places = {name: ELSEWHERE.get(name, name.removeprefix("docs/")) for name in sources}
    texts = {places[name]: with_links(path.read_text(), name, places) for name, path in sources.items()}
    texts |= reference.pages()
    if has_browser_page:
        texts[BROWSER_GUIDE] += f'\n<p><a href="../{BROWSER_PAGE}">Open a DLC in the browser</a></p>\n'
    texts["index.md"] += contents(texts)
    texts["adr/README.md"] += reference.toctree(
        "", sorted(name for name in texts if name.startswith("adr/0"))
    )
    return texts


def with_links(text: str, name: str, places: Mapping[str, str]) -> str:
    """Return a page with the links of its place in the site."""
    here = posixpath.dirname(places[name])

    def moved(link: re.Match[str]) -> str:
        mark, _, target, anchor = link.groups()
        title = text[link.start(2) : link.end(2)]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        path = "docs/index.md" if path == "README.md" else path
        place = places.get(path, path.removeprefix("docs/"))
        is_there = path in places or path.startswith("docs/")
        return f"{mark}[{title}]({posixpath.relpath(place, here)}{anchor or ''})" if is_there else title

    result, end = "", 0
    for link in _LINK.finditer(masked(text)):
        result += text[end : link.start()] + moved(link)
        end = link.end()
    return result + text[end:]


def masked(text: str) -> str:
    """Return a page whose code is replaced by as many zeros: no link or heading is in it."""
    code = r"^( *)(```+)[^\n]*\n.*?^ *\2 *$|`[^`\n]+`"
    return re.sub(code, lambda part: "\0" * len(part[0]), text, flags=re.DOTALL | re.MULTILINE)


def contents(texts: Mapping[str, str]) -> str:
    """Return the tables of contents, which are the sidebar."""
    listed = {"index", *(entry for entries in CONTENTS.values() for entry in entries)}
    result = ""
    for caption, entries in CONTENTS.items():
        names = []
        for entry in entries:
            if entry.endswith("*"):
                folder = posixpath.dirname(entry)
                rest = {name.removesuffix(".md") for name in texts if posixpath.dirname(name) == folder}
                names += sorted(rest - listed)
            elif f"{entry}.md" in texts:
                names.append(entry)
        result += reference.toctree(caption, names)
    return result


# ------------------------------------------------------------------ building


def prepare(source: Path, *, has_browser_page: bool = False) -> None:
    """Write what Sphinx reads; equal files stay, so that it reads no page twice."""
    texts = pages(has_browser_page=has_browser_page)
    files: dict[str, bytes] = {name: text.encode() for name, text in texts.items()}
    for path in DOCS.rglob("*"):
        if path.is_file() and path.suffix != ".md" and "__pycache__" not in path.parts:
            files[path.relative_to(DOCS).as_posix()] = path.read_bytes()
    files["manual.json"] = json.dumps(reference.manual()).encode()
    for name, content in files.items():
        target = source / name
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for path in source.rglob("*"):
        if path.is_file() and path.relative_to(source).as_posix() not in files:
            path.unlink()


def main() -> int:
    """Build the site or the man pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--man", action="store_true", help="write man pages instead of the site")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="[default: .site/html or .site/man]")
    parser.add_argument("--numpy-wheel", type=Path, metavar="FILE.whl", help="numpy for Pyodide")
    options = parser.parse_args()
    source = SITE / "source"
    pyodide = "man pages have no pages" if options.man else fetched(SITE / "pyodide")
    if isinstance(pyodide, str) and not options.man:
        print(f"notice: the site has no page that opens DLCs, because {pyodide}", file=sys.stderr)
    prepare(source, has_browser_page=isinstance(pyodide, Path))
    builder = "man" if options.man else "html"
    target = options.output or SITE / builder
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", builder]
    command += ["-d", str(SITE / "doctrees"), str(source), str(target)]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, "COLUMNS": "100"}, check=False).returncode
    if not code and isinstance(pyodide, Path):
        (target / BROWSER_PAGE).write_text(browser_page(pyodide, options.numpy_wheel), "utf-8")
    if not code:
        print(target / "index.html" if builder == "html" else target)
    return code


if __name__ == "__main__":
    sys.exit(main())
