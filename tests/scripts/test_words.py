"""Rules of words: what each one reports, and what it leaves alone."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from scripts import words


def reports(source: str, path: str = "xdlc/quant/some.py") -> list[tuple[str, int, str]]:
    places = words.places_in(Path(path), textwrap.dedent(source))
    return [(place.rule, place.line, place.text) for place in places]


def function(*lines: str) -> str:
    return "def f(x):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("source", "lives"),
    [
        (function("found = x", *["x += 1"] * 3, "return found"), []),
        (function("found = x", *["x += 1"] * 4, "return found"), [("found", 2, 7)]),
        (function("for each in x:", *["    x += 1"] * 5, "    x += each"), [("each", 2, 8)]),
        (function("with x as held:", *["    x += 1"] * 5, "    x += held"), [("held", 2, 8)]),
        (function("features = x", *["x += 1"] * 5, "return features"), []),
        (function("y = [one for one in x]", *["x += 1"] * 5, "return [one for one in x]"), []),
        (function("made = x", *["x += 1"] * 5, "return [made for made in x]"), []),
        (function("made = x", *["x += 1"] * 5, "return lambda: made"), [("made", 2, 8)]),
        (function("x.known = 1", *["x += 1"] * 5, "return x.known"), []),
        (
            'def f(given):\n    """Return."""\n\n' + "    x = 1\n" * 5 + "    return given\n",
            [("given", 4, 9)],
        ),
        ('def f(given):\n    """Return."""\n\n' + "    x = 1\n" * 4 + "    return given\n", []),
        ("found = 1\n" + "x = 1\n" * 6 + "y = found\n", []),
        (
            "class A:\n    def f(self):\n" + "        other = 1\n" * 6 + "        return other\n",
            [("other", 3, 9)],
        ),
    ],
)
def test_lives_of_vague_locals(source: str, lives: list[tuple[str, int, int]]) -> None:
    expected = [
        (words.NAMES, first, f"local {name!r} lives for {last - first + 1} lines")
        for name, first, last in lives
    ]
    assert reports(source) == expected


def test_phrases_in_strings_and_across_fields() -> None:
    assert reports('text = f"W4A8 is nothing that {soc} takes"\n') == [
        (words.STRINGS, 1, "phrase 'nothing that {} takes'")
    ]
    assert reports('text = """One.\n\n--soc goes with --runtime"""\n') == [
        (words.STRINGS, 3, "phrase 'goes with'")
    ]
    assert reports('def f(x):\n    """Return whether `x` is None."""\n    return x is None\n') == []


@pytest.mark.parametrize(("length", "is_long"), [(80, False), (81, True)])
def test_first_lines_of_docstrings(length: int, is_long: bool) -> None:
    source = f'def f():\n    """{"a" * length}\n\n    {"b" * 100}\n    """\n'
    assert reports(source) == [(words.DOCSTRINGS, 2, "first line of 81 characters")] * is_long


def test_banned_words_in_comments_docstrings_and_messages() -> None:
    source = (
        '"""It tells."""\nx = "it told us"  # asked\ny = "extent"\nz = f"{extent(1, 2)} and {x}"\nasked = 1\n'
    )
    assert sorted(reports(source)) == [
        (words.BANNED, 1, "banned word 'tells'"),
        (words.BANNED, 2, "banned word 'asked'"),
        (words.BANNED, 2, "banned word 'told'"),
    ]
    assert reports(source, "tests/test_some.py") == []


def test_banned_words_in_pages() -> None:
    page = "A `told` word.\n\n```\nasked\n```\n\n    tells\n\nIt is told.\n"
    places = list(words.places_in_page(Path("docs/page.md"), page))
    assert [(place.line, place.text) for place in places] == [(9, "banned word 'told'")]


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("xdlc/errors.py", "xdlc"),
        ("xdlc/ir/graph.py", "xdlc/ir"),
        ("xdlc/a/b/c.py", "xdlc/a"),
        ("A.md", "A.md"),
    ],
)
def test_packages(path: str, package: str) -> None:
    assert words.package_of(Path(path)) == package
