"""Checks of words: names of locals, first lines of docstrings, prose of messages and pages.

    python -m scripts.words --show xdlc/quant    # the places in a folder or a file
    python -m scripts.words                      # the number of places by package

`scripts/budget.py` holds the numbers, which may only sink.
"""

from __future__ import annotations

import argparse
import ast
import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CODE = ("xdlc", "tests")
GENERATED = "_generated"

VAGUE_NAMES = frozenset(["found", "held", "made", "given", "wanted", "known", "each", "one", "other"])
LONGEST_LIFE = 5
LONGEST_FIRST_LINE = 80
LONGEST_SENTENCE = 32
PHRASES = re.compile(
    r"""\b(?: (?:that|those|the\ ones?)\ of\b | likewise | all\ the\ same | on\ (?:its|their)\ own\ account
    | ha(?:s|ve|d)\ not(?=[.,;:)]|$|\ (?:an?|the|any|all|enough|its|their)\b) | (?:has|have|is|are)\ to\ be
    | takes\b(?!\ (?:[a-z]+\ ){0,3}(?:\d|{}|seconds?|minutes?|hours?|time|long|care|place|effect)\b)
    | nothing\ that\b.*\btakes? | go(?:es)?\ with | hang(?:s|ing)?\ on | changes\ nothing | is\ none
    | becomes?\ of | beside | (?<!there\ )(?:is|are)\ no\ (?!longer|more|less|larger|smaller)\w+ )\b""",
    re.X | re.I,
)
_FRONT = re.compile(r"(?:Of|[Ww]hat|[Ww]hose|[Ww]here|[Ee]lse)\b")
_SENTENCE = re.compile(r".+?(?:[.:?!](?=\s)|$)", re.S)
_SMALL_WORDS = re.compile(r"\b(?:the|an?|is|are|of|to|and|in|it|for|with)\b")

NAMES, DOCSTRINGS, PROSE = RULES = ("names", "docstrings", "prose")


class Place(NamedTuple):
    """A line that breaks a rule."""

    rule: str
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def package_of(path: Path) -> str:
    """Return the folder of the second level, as `xdlc/quant`, or the first for a file that is in it."""
    return path.parts[0] if len(path.parts) == 2 else "/".join(path.parts[:2])


def places_in(path: Path, text: str, tree: ast.Module | None = None) -> Iterator[Place]:
    """Iterate over what breaks a rule in a Python file."""
    tree = tree or ast.parse(text)
    content = contents_of(tree)
    for name, first, last in vague_locals(tree, content.vague_lines):
        yield Place(NAMES, path, first, f"local {name!r} lives for {last - first + 1} lines")
    for line, docstring in content.docstrings:
        length = len(docstring.split("\n", 1)[0].strip())
        if length > LONGEST_FIRST_LINE:
            yield Place(DOCSTRINGS, path, line, f"first line of {length} characters")
    if path.parts[0] == "xdlc":
        for line, string in content.strings:
            if " " in string:
                yield from _faults(path, line, string)


def places_in_table(path: Path, text: str) -> Iterator[Place]:
    """Iterate over faults of prose in the strings of a TOML file."""
    for match in re.finditer(r'"""(.+?)"""|"([^"\n]+)"', text, re.S):
        yield from _faults(path, text.count("\n", 0, match.start()) + 1, match[1] or match[2])


def places_in_page(path: Path, text: str) -> Iterator[Place]:
    """Iterate over faults of prose in a Markdown page: in paragraphs, items of lists and cells of tables."""
    blank = re.compile(r"```.*?```|<!--.*?-->|^ {4}.*?$|^#.*?$|^:::.*?$", re.S | re.M)
    text = blank.sub(lambda skipped: "\n" * skipped[0].count("\n"), text)
    text = re.sub(r'`[^`]*`|"[^"\n]*"|\]\([^)\n]*\)', lambda code: "{}" + "\n" * code[0].count("\n"), text)
    for match in re.finditer(r"(?:[^\n|]|\n(?!\s*(?:[-*|>]|\d+\.|\n)))+", text):
        block = match[0].lstrip("\n")
        yield from _faults(path, text.count("\n", 0, match.end() - len(block)) + 1, block)


def _faults(path: Path, line: int, text: str) -> Iterator[Place]:
    for match in _SENTENCE.finditer(text):
        sentence = " ".join(match[0].split()).lstrip("-*> ")
        if sentence.endswith("?"):
            continue
        faults = [f"phrase {phrase[0]!r}" for phrase in PHRASES.finditer(sentence)]
        words = sentence.split()
        if len(words) > 3 and _FRONT.match(sentence) and not text[: match.end()].startswith(" "):
            faults.append(f"{words[0]!r} begins a sentence")
        if len(_SMALL_WORDS.findall(sentence)) > 2:
            if len(words) > LONGEST_SENTENCE:
                faults.append(f"sentence of {len(words)} words")
            if sentence.count(";") > 1:
                faults.append(f"{sentence.count(';')} semicolons")
        for fault in faults:
            yield Place(PROSE, path, line + text.count("\n", 0, match.start()), f"{fault}: {sentence[:60]}")


# --- Prose


class Content(NamedTuple):
    """The strings and docstrings of a module with their lines, and the lines of vague names.

    A field of an f-string is `{}`.
    """

    strings: list[tuple[int, str]]
    docstrings: list[tuple[int, str]]
    vague_lines: list[int]


def contents_of(tree: ast.Module) -> Content:
    """Return what the rules read of a module, collected in one walk."""
    strings, docstrings, vague_lines = [], [], []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                strings.append((node.lineno, node.value))
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            strings.append((node.lineno, "".join(parts)))
            pending += [part for part in node.values if not isinstance(part, ast.Constant)]
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Name):
            if node.id in VAGUE_NAMES:
                vague_lines.append(node.lineno)
            continue
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            match node.body[0]:
                case ast.Expr(ast.Constant(str(text)), lineno=line):
                    docstrings.append((line, text))
        pending += ast.iter_child_nodes(node)
    return Content(strings, docstrings, vague_lines)


# --- Lives of locals

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Scope:
    """The vague names that a function, a lambda or a comprehension binds, with their first and last lines."""

    def __init__(self) -> None:
        self.lives: dict[str, tuple[int, int]] = {}

    def extend(self, name: str, line: int) -> None:
        first, last = self.lives.get(name, (line, line))
        self.lives[name] = (min(first, line), max(last, line))


def vague_locals(tree: ast.Module, lines: list[int]) -> list[tuple[str, int, int]]:
    """Return vague names that live too long, each with the lines of its first and its last use.

    Only functions around the `lines` are searched.
    """
    scopes: list[_Scope] = []
    for function in _outermost_functions(tree):
        if any(function.lineno <= line <= (function.end_lineno or 0) for line in lines):
            _visit(function, [], scopes)
    return [
        (name, first, last)
        for scope in scopes
        for name, (first, last) in scope.lives.items()
        if last - first >= LONGEST_LIFE
    ]


def _outermost_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    pending: list[ast.AST] = [tree]
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node
            elif isinstance(node, ast.stmt):
                pending.append(node)


def _visit(node: ast.AST, stack: list[_Scope], scopes: list[_Scope]) -> None:
    if isinstance(node, ast.ClassDef):
        stack = []  # what a method reads of its class is an attribute, and a class in a function is rare
    elif isinstance(node, _FUNCTIONS + _COMPREHENSIONS):
        scope = _Scope()
        for name, line in _bindings(node):
            scope.extend(name, line)
        scopes.append(scope)
        stack = [*stack, scope]
    elif isinstance(node, ast.Name) and node.id in VAGUE_NAMES:
        for scope in reversed(stack):
            if node.id in scope.lives:
                scope.extend(node.id, node.lineno)
                break
    for child in ast.iter_child_nodes(node):
        _visit(child, stack, scopes)


def _bindings(function: ast.AST) -> Iterator[tuple[str, int]]:
    """Iterate over the vague names that a scope itself binds; a parameter begins at the first statement."""
    if isinstance(function, _COMPREHENSIONS):
        pending: list[ast.AST] = [part.target for part in function.generators]
    elif isinstance(function, ast.Lambda):
        yield from _parameters(function.args, function.body.lineno)
        pending = []
    else:
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        body = function.body[1:] if ast.get_docstring(function, clean=False) else function.body
        yield from _parameters(function.args, body[0].lineno if body else function.lineno)
        pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(node, _COMPREHENSIONS):
            pending += [part for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]
            continue
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
            ):
                if name in VAGUE_NAMES:
                    yield name, node.lineno
        pending += ast.iter_child_nodes(node)


def _parameters(arguments: ast.arguments, line: int) -> Iterator[tuple[str, int]]:
    named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    rest = (argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None)
    return ((argument.arg, line) for argument in (*named, *rest) if argument.arg in VAGUE_NAMES)


# --- The repository


def files() -> list[Path]:
    """Return the Python files that the rules hold for; generated ones are omitted."""
    paths = (path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in paths if GENERATED not in path.parts]


def places_in_texts() -> Iterator[Place]:
    """Iterate over faults of prose in the pages of the documentation and in tables of texts for users."""
    for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))):
        if page.name != "CHANGELOG.md" and page.parent.name != "adr":
            yield from places_in_page(page.relative_to(ROOT), page.read_text())
    for table in sorted((ROOT / "xdlc").rglob("*.toml")):
        yield from places_in_table(table.relative_to(ROOT), table.read_text())


def places() -> Iterator[Place]:
    """Iterate over what breaks a rule in the repository, with paths relative to its root."""
    for path in files():
        yield from places_in(path.relative_to(ROOT), path.read_text())
    yield from places_in_texts()


def main() -> int:
    """Print the places of a folder, or how many each package has."""
    gc.disable()  # trees of syntax have no cycles, and a million nodes
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--show", metavar="PACKAGE", help="a folder or a file, as xdlc/quant")
    folder = parser.parse_args().show
    if folder:
        for place in sorted(places(), key=lambda place: (place.path, place.line)):
            if place.path.is_relative_to(folder):
                print(place)
        return 0
    numbers = Counter((package_of(place.path), place.rule) for place in places())
    print(f"{'':24}", *(f"{rule:>10}" for rule in RULES))
    for package in sorted({package for package, _ in numbers}):
        print(f"{package:24}", *(f"{numbers[package, rule]:10}" for rule in RULES))
    print(f"{'':24}", *(f"{sum(n for (_, of), n in numbers.items() if of == rule):10}" for rule in RULES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
