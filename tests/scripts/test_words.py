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


FAULTS = {
    "that of the model": "'that of'",
    "W4A8 is nothing that v68 takes": "'nothing that v68 takes'",
    "--soc goes with --runtime": "'goes with'",
    "types that QNN has not": "'has not'",
    "the layer is to be split": "'is to be'",
    "demo.dlc is no folder": "'is no folder'",
    "what the caller does with it stays": "'what' begins a sentence",
    "It runs. Of a cache, two copies exist.": "'Of' begins a sentence",
    "it is a fact; a second is one; a third is one": "2 semicolons",
    "the word " * 17: "sentence of 34 words",
}
PLAIN = (
    "it takes 3 seconds, or a few minutes",
    "it has not been converted; there is no cache",
    "What does it cost? It is free.",
    "of the model",
    "Abs Add Ceil " * 20,
)


@pytest.mark.parametrize(("text", "fault"), [*FAULTS.items(), *((text, "") for text in PLAIN)])
def test_prose_of_strings_tables_and_pages(text: str, fault: str) -> None:
    places = [
        *words.places_in(Path("xdlc/some.py"), f"x = {text!r}\n"),
        *words.places_in_table(Path("xdlc/some.toml"), f'text = "{text}"\n'),
        *words.places_in_page(Path("docs/some.md"), f"{text}\n"),
    ]
    assert [place.rule for place in places] == [words.PROSE] * (3 if fault else 0)
    assert all(fault in place.text for place in places)


def test_prose_knows_fields_and_skips_docstrings_and_tests() -> None:
    source = '"""Is that of x."""\nx = 1\n"""Is that of x."""\ny = f"""one\n{x} takes {x}"""\n'
    assert [line for _, line, _ in reports(source)] == [4]
    assert reports(source, "tests/test_some.py") == []


@pytest.mark.parametrize(("length", "is_long"), [(80, False), (81, True)])
def test_first_lines_of_docstrings(length: int, is_long: bool) -> None:
    source = f'def f():\n    """{"a" * length}\n\n    {"b" * 100}\n    """\n'
    assert reports(source) == [(words.DOCSTRINGS, 2, "first line of 81 characters")] * is_long


def test_prose_of_a_page_is_read_by_paragraph_item_and_cell() -> None:
    page = (
        "# That of a title\n\n```\nthat of code\n```\n\n    that of code\n\nA `that of`, which is to\n"
        "be. Long.\n- those of\n  items\n\n| a cell | that of |\n|---|---|\n<!-- that of -->\n"
    )
    places = words.places_in_page(Path("docs/page.md"), page)
    assert [(place.line, place.text.split(":")[0]) for place in places] == [
        (9, "phrase 'is to be'"),
        (11, "phrase 'those of'"),
        (14, "phrase 'that of'"),
    ]


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
