"""Pages that people write by hand stay short enough to read."""

from __future__ import annotations

import re

from scripts import reference
from scripts.docs import DOCS, ROOT

LIMIT = 21_600
WRITTEN_BY_SCRIPTS = {
    "gallery.md",
    "reference/performance.md",
    "reference/supported-ops.md",
    *reference.committed(),
}
_TABLES_OF_SCRIPTS = re.compile(r"<!-- (matrix|results)\b.*?<!-- end of \1 -->", re.DOTALL)
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)


def words_by_hand() -> dict[str, int]:
    pages = {"README.md": ROOT / "README.md"}
    pages |= {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md")}
    texts = {
        name: _COMMENTS.sub("", _TABLES_OF_SCRIPTS.sub("", path.read_text()))
        for name, path in pages.items()
        if name not in WRITTEN_BY_SCRIPTS and not name.startswith("adr/")
    }
    return {name: len(text.split()) for name, text in texts.items()}


def test_pages_by_hand_are_short():
    words = words_by_hand()
    assert sum(words.values()) <= LIMIT, words
