"""Links of pages lead somewhere, and the sidebar has every page."""

from __future__ import annotations

import functools
import posixpath
import re
from pathlib import Path

import pytest

from scripts import docs, reference
from scripts.docs import CONTENTS, DOCS, ELSEWHERE, ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in {*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / name for name in ELSEWHERE)}
)
_LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
_TARGET = re.compile(r"^\(([\w-]+)\)=$|<a id=\"([\w-]+)\"", re.MULTILINE)


@functools.cache
def made_pages() -> dict[str, str]:
    return {f"docs/{name}": text for name, text in reference.pages().items()}


def links(text: str) -> list[tuple[str, str]]:
    return [(target, anchor or "") for target, anchor in _LINK.findall(docs.masked(text))]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page as GitHub and MyST name them."""
    names: set[str] = set()
    prose = re.sub(r"^( *)(```+).*?^ *\2 *$", "", text, flags=re.DOTALL | re.MULTILINE)
    for title in _HEADING.findall(prose):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = sum(
            name == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", name) is not None for name in names
        )
        names.add(f"{slug}-{count}" if count else slug)
    return names | {first or second for first, second in _TARGET.findall(prose)}


def text_of(path: str, site: bool) -> str | None:
    """Return a page, or an empty text for another file or folder that exists."""
    if site and path in made_pages():
        return made_pages()[path]
    place = ROOT / path
    if not place.exists():
        return None
    return place.read_text() if place.suffix == ".md" else ""


def dead_links(page: str, text: str, site: bool = False) -> list[str]:
    dead = []
    for target, anchor in links(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) if target else page
        there = text_of(path, site)
        if there is None or (anchor and there and anchor not in anchors(there)):
            dead.append(f"{target}#{anchor}" if anchor else target)
    return dead


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page):
    assert dead_links(page, (ROOT / page).read_text()) == []


def test_links_of_pages_from_the_code_lead_somewhere():
    dead = {
        page: dead_links(page, re.sub(r"```{toctree}.*?```", "", text, flags=re.DOTALL), site=True)
        for page, text in made_pages().items()
    }
    assert {page: names for page, names in dead.items() if names} == {}


def test_pages_from_the_code_are_in_the_repository():
    # After a change of help, errors or the Python interface: python -m scripts.reference --write
    texts = {name: (DOCS / name).read_text() for name in reference.committed()}
    names = ("api", "cli", "errors", "op-package-interfaces")
    assert set(texts) == {f"reference/{name}.md" for name in names}
    assert texts == reference.committed()


def test_addresses_in_the_package_are_pages_of_the_site():
    addresses = set()
    for path in (ROOT / "xdlc").rglob("*.toml"):
        if path.name in ("help.toml", "problems.toml"):
            addresses |= set(re.findall(r'^page = "([^"#]*)', path.read_text(), re.MULTILINE))
    names = {name.removesuffix(".md") for name in docs.pages()}
    assert {address.removesuffix(".md") for address in addresses} - names == set()


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("docs/adr/")])
def test_pages_are_named_by_links(page):
    here = posixpath.dirname(page)
    prose = re.sub(r"^( *)(```+).*?^ *\2 *$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    names = re.findall(r"`([\w./-]+\.md)`", prose)
    pages = {*PAGES, *made_pages()} - {"README.md"}  # other folders have files of that name, too
    assert [name for name in names if {name, posixpath.normpath(posixpath.join(here, name))} & pages] == []


def test_anchors_are_those_of_github():
    text = "# A `b`, c\n## Same\n## Same\n```\n# code\n```\n(xd104)=\n## XD104: x\n"
    assert anchors(text) == {"a-b-c", "same", "same-1", "xd104", "xd104-x"}


def test_links_of_the_site_are_those_of_its_places():
    places = {"CONTRIBUTING.md": "project/contributing.md", "docs/guides/a.md": "guides/a.md"}
    page = "[x](docs/guides/a.md#b), [`y`](scripts/z.py), [home](README.md), `[x](docs/guides/a.md)`\n"
    assert docs.with_links(page, "CONTRIBUTING.md", places) == (
        "[x](../guides/a.md#b), `y`, [home](../index.md), `[x](docs/guides/a.md)`\n"
    )


def test_the_sidebar_names_pages_that_exist():
    entries = [f"docs/{entry}.md" for entries in CONTENTS.values() for entry in entries if "*" not in entry]
    assert [entry for entry in entries if text_of(entry, site=True) is None] == []


def test_the_sidebar_has_every_page():
    listed = re.findall(r"^/(.*)$", "".join(docs.pages().values()), re.MULTILINE)
    assert sorted(set(docs.pages()) - {f"{name}.md" for name in listed}) == ["index.md"]


def test_a_code_of_errors_has_an_anchor_and_its_parts():
    entry = {"title": "float ops", "why": "W.", "example": "xdlc prepare", "fix": "F.", "page": "start/x.md"}
    page = reference.errors_page({"exit_codes": {"2": "usage"}, "problems": {"XD104": entry}})
    assert "xd104" in anchors(page)
    assert "| 2 | usage |" in page
    assert "W.\n\nThis may fail:\n\n```console\n$ xdlc prepare\n```\n\n**Fix.** F." in page


def test_the_page_of_a_tool_has_its_flags():
    page = made_pages()["docs/reference/cli/info.md"]
    assert "$ xdlc info" in page
    assert "`--json`\n: " in page
    assert {f"docs/{path}.md" for path, _, _ in reference.manual()} <= set(made_pages())


def test_the_site_needs_nothing_from_outside():
    for path in (DOCS / "_static").iterdir():
        assert not re.search(r"https?://", path.read_text()), path
    assert isinstance(DOCS, Path)
