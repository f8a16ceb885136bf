"""Pages: the index of decisions, the picture of the layers, modules by name."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = ROOT / "docs" / "adr"


def test_every_decision_is_in_the_index_with_its_status():
    rows = []
    for path in sorted(DECISIONS.glob("0*.md")):
        number, title, status = re.match(r"# (\d{4}): (.*)\n\nStatus: (.*)\n", path.read_text()).groups()
        rows.append(f"| [{number}]({path.name}) | {title} | {status} |")
    assert (DECISIONS / "README.md").read_text().strip().split("\n")[-len(rows) :] == rows


def test_the_picture_has_the_layers_that_the_imports_keep():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == ["xdlc"])
    page = (ROOT / "docs" / "architecture.md").read_text()
    picture = page.split("## Layers")[1].split("```")[1]
    drawn = [re.findall(r"[a-z_]+", line.split("  ")[0]) for line in picture.strip().split("\n")[1:]]
    assert drawn == [re.findall(r"[a-z_]+", layer) for layer in layers]


CODE = ("xdlc", "tests", "scripts", "bench", "fuzz", "examples")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "fuzz/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
ABOUT_THE_HOUSE = ("docs/adr/", "docs/architecture", "docs/adding-", "CONTRIBUTING", "bench/", "fuzz/")


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    # Paths start at the repository, the package or the page. A bare name may be a file of users.
    names = set(re.findall(r"(?<![\w<>*/.-])(?:[\w.-]+/)*[a-z_]\w*\.py\b", (ROOT / page).read_text()))
    folders = (ROOT, ROOT / "xdlc", (ROOT / page).parent)
    files = {path.name for folder in CODE for path in (ROOT / folder).rglob("*.py")}
    for name in sorted(names):
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
