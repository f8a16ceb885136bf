"""Lists of op types outside their homes: what is known of an op type is one of its traits."""

import ast
from pathlib import Path

import xdlc
from xdlc.opdefs.loader import all_types

ROOT = Path(xdlc.__file__).parent
HOMES = ("opdefs/", "converter/", "runtime/ops/", "container/opnames.py")
MOST = 2


def literals(tree):
    """Iterate over the line and the entries of literal collections of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield node.lineno, node.elts
        elif isinstance(node, ast.Dict):
            yield node.lineno, node.keys


def test_no_module_lists_three_op_types_outside_their_homes():
    types = set(all_types())
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(HOMES):
            continue
        for line, entries in literals(ast.parse(path.read_text(encoding="utf-8"))):
            values = [entry.value for entry in entries if isinstance(entry, ast.Constant)]
            named = [value for value in values if value in types]
            if len(named) > MOST:
                found.append(f"xdlc/{name}:{line}: {', '.join(named)}")
    assert not found, "make them traits of xdlc/opdefs/data/traits.toml:\n" + "\n".join(found)
