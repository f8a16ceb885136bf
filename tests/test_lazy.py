"""Packages with modules imported on use: their lists of names agree."""

from __future__ import annotations

import ast
import importlib
from importlib.util import resolve_name
from pathlib import Path

import pytest

import xdlc

ROOT = Path(xdlc.__file__).parent
PACKAGES = {
    ".".join(path.parent.relative_to(ROOT.parent).parts): path
    for path in sorted(ROOT.rglob("__init__.py"))
    if "names_of" in path.read_text(encoding="utf-8")
}


def _seen_by_types(path: Path) -> dict[str, str]:
    """Return the module of each name that a package imports for type checkers alone."""
    return {
        alias.asname or alias.name: str(statement.module)
        for block in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


@pytest.mark.parametrize("name", PACKAGES)
def test_types_exports_and_homes_agree(name: str) -> None:
    package = importlib.import_module(name)
    exported = set(package.__all__)
    homes = {one: resolve_name(home, name) for one, home in package._HOMES.items()}
    seen = {one: home for one, home in _seen_by_types(PACKAGES[name]).items() if one in exported}
    assert homes.keys() <= exported
    assert homes.keys() - vars(package).keys() <= seen.keys()
    assert seen == {one: homes.get(one) for one in seen}
    for one in exported:
        getattr(package, one)
