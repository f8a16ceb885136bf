"""Pages name files and modules that exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = ("xdlc", "tests", "scripts", "bench", "fuzz", "examples")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "fuzz/*.md")
    for path in ROOT.glob(pattern)
)
ABOUT_THE_HOUSE = ("docs/adr/", "docs/project/", "CONTRIBUTING", "bench/", "fuzz/")


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    # Paths start at the repository, the package or the page. A bare name may be a file of users.
    names = set(re.findall(r"(?<![\w<>*/.-])(?:[\w.-]+/)*[a-z_]\w*\.py\b", (ROOT / page).read_text()))
    folders = (ROOT, ROOT / "xdlc", (ROOT / page).parent)
    files = {path.name for folder in CODE for path in (ROOT / folder).rglob("*.py")}
    for name in sorted(names):
        if "/" in name and page.startswith("docs/guides/udo"):
            continue  # files of the reader's package
        if "/" in name:
            assert any((folder / name).is_file() for folder in folders), name
        elif page.startswith(ABOUT_THE_HOUSE):
            assert name in files, name


def test_the_page_of_the_benchmarks_has_a_row_for_each_script():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "bench" / "README.md").read_text(), re.M)
    scripts = sorted(path.name for path in (ROOT / "bench").glob("*.py"))
    assert sorted(re.findall(r"\w+\.py", " ".join(rows))) == scripts


def test_the_names_of_the_package_that_pages_use_exist() -> None:
    # A dotted name is a module, what one exports, or a literal of the package, as names of records are.
    literals = "".join(path.read_text() for path in (ROOT / "xdlc").rglob("*.py"))
    names = {name for page in PAGES for name in re.findall(r"\bxdlc(?:\.\w+)+", (ROOT / page).read_text())}
    assert [name for name in sorted(names) if f'"{name}' not in literals and not _exists(name)] == []


def _exists(name: str) -> bool:
    value, parts = importlib.import_module("xdlc"), name.split(".")
    for count, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            try:
                importlib.import_module(".".join(parts[:count]))
            except ImportError:
                return False
        value = getattr(value, part)
    return True
