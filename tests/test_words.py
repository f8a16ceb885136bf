"""Banned words of the glossary in docstrings, comments, messages, help texts and documentation."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
PACKAGES = sorted(path.name for path in (ROOT / "xdlc").iterdir() if (path / "__init__.py").is_file())


def banned() -> re.Pattern[str]:
    """Return a pattern of the words in the last table of the glossary."""
    table = GLOSSARY.read_text().split("## Words that are not used")[1]
    words = [word for row in re.findall(r"^\| ([a-z ,]+) \|", table, re.M) for word in row.split(", ")]
    words.remove("word")
    return re.compile(
        r"(?<![\w`'\"-])(" + "|".join(sorted(words, key=len, reverse=True)) + r")(?![\w`])", re.I
    )


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over comments, docstrings and strings of more than one word, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def found_in_code(folder: Path, pattern: re.Pattern[str]) -> list[str]:
    """Return a line for each banned word in the Python files of a folder."""
    lines = []
    for path in sorted(folder.rglob("*.py")):
        for line, text in prose(path.read_text()):
            for match in pattern.finditer(text):
                number = line + text[: match.start()].count("\n")
                lines.append(f"{path.relative_to(ROOT)}:{number}: {match[0]!r}")
    return lines


def test_the_table_is_read():
    assert banned().search("code that tells nothing")
    assert not banned().search("an `extent` is quoted, a sample is not")


def test_prose_is_comments_docstrings_and_messages():
    text = '"""A doc string."""\nx = "a message"  # a comment\ny = "word"\n'
    assert sorted(prose(text)) == [(1, "A doc string."), (2, "# a comment"), (2, "a message")]


@pytest.mark.parametrize("package", PACKAGES)
def test_code(package: str):
    assert found_in_code(ROOT / "xdlc" / package, banned()) == []


def test_modules_at_the_top():
    pattern = banned()
    lines = [
        f"{path.name}:{line}: {match[0]!r}"
        for path in sorted((ROOT / "xdlc").glob("*.py"))
        for line, text in prose(path.read_text())
        for match in pattern.finditer(text)
    ]
    assert lines == []


@pytest.mark.parametrize(
    "page",
    ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))],
)
def test_pages(page: str):
    if page == "docs/glossary.md":
        pytest.skip("it lists the words")
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / page).read_text(), flags=re.S)
    text = "\n".join("" if line.startswith("    ") else line for line in text.split("\n"))
    pattern = banned()
    lines = [
        f"{page}:{number}: {match[0]!r}"
        for number, line in enumerate(text.split("\n"), 1)
        for match in pattern.finditer(line)
    ]
    assert lines == []
