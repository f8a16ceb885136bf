"""Budgets of the source tree, which may only sink.

    python -m scripts.budget            # compare the tree with scripts/budget.toml
    python -m scripts.budget --lower    # write the figures of the tree into it

Figures are lines of code and modules by package, files of a conversion, literals that list op types, and
what breaks the rules of `scripts/words.py`.  Packages may trade; the sum of a kind may only sink.  A commit
that raises the sum of code, modules or files of a conversion ends with a line `Pays-for: <feature>`.
"""

from __future__ import annotations

import argparse
import ast
import gc
import subprocess
import sys
import tempfile
import tomllib
import types
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts import words

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "xdlc"
CEILINGS = "scripts/budget.toml"
TRAILER = "Pays-for"
COMMITS = 50

PAID_BY_FEATURES = ("code", "modules", "conversion")
KINDS = (*PAID_BY_FEATURES, "op_types", *words.RULES)

OP_TYPES_IN_A_LITERAL = 2
HOMES = ("opdefs", "converter", "runtime/ops", "container/opnames.py")

Figures = Mapping[str, Mapping[str, int]]


def code_lines(text: str, tree: ast.Module) -> int:
    """Return the number of lines that are not blank, a comment, an import or part of a docstring."""
    lines = {
        number
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def files_of_a_conversion() -> set[str]:
    """Return the modules whose code runs while a Conv and a Relu are converted and saved.

    Imports and caches are warm: the second of two conversions is traced.
    """
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    import xdlc

    weight = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "weight")
    nodes = [
        helper.make_node("Conv", ["image", "weight"], ["features"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["features"], ["result"], "relu"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "main",
        [info("image", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
        [info("result", onnx.TensorProto.FLOAT, [1, 4, 8, 8])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    files: set[str] = set()

    def trace(frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "net.onnx", Path(folder) / "net.dlc"
        onnx.save(model, source)
        xdlc.convert(source).save(target)
        sys.setprofile(trace)
        try:
            xdlc.convert(source).save(target)
        finally:
            sys.setprofile(None)
    modules = {str(Path(file).relative_to(PACKAGE)) for file in files if file.startswith(f"{PACKAGE}/")}
    if not modules:
        raise SystemExit(f"xdlc is imported from {xdlc.__file__}, not from {PACKAGE}")
    return modules


def lists_of_op_types(tree: ast.Module, op_types: set[str]) -> list[int]:
    """Return the lines of literals that list op types."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict)
        and len(op_types & {item.value for item in _items(node) if isinstance(item, ast.Constant)})
        > OP_TYPES_IN_A_LITERAL
    ]


def _items(node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> Iterable[ast.expr | None]:
    return node.keys if isinstance(node, ast.Dict) else node.elts


def measure() -> tuple[Figures, list[str]]:
    """Return the figures of the tree, and the places of literals that list op types."""
    figures: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    op_types = {path.stem for path in (PACKAGE / "opdefs" / "data" / "ops").glob("*.xml")}
    lists = []
    for file in words.files():
        text = file.read_text()
        tree = ast.parse(text)
        path = file.relative_to(ROOT)
        package = words.package_of(path)
        if file.is_relative_to(PACKAGE):
            figures["code"][package] += code_lines(text, tree)
            figures["modules"][package] += 1
            if not file.relative_to(PACKAGE).as_posix().startswith(HOMES):
                lists += [f"{path}:{line}" for line in lists_of_op_types(tree, op_types)]
        for place in words.places_in(path, text, tree):
            figures[place.rule][package] += 1
    for place in words.places_in_texts():
        figures[place.rule][words.package_of(place.path)] += 1
    figures["conversion"]["files"] = len(files_of_a_conversion())
    figures["op_types"]["lists"] = len(lists)
    return figures, lists


def above(figures: Figures, ceilings: Figures) -> list[str]:
    """Return a line for each figure above its ceiling."""
    return [
        f"{kind} of {package}: {figure:,}, above {ceilings.get(kind, {}).get(package, 0):,}"
        for kind in KINDS
        for package, figure in sorted(figures[kind].items())
        if figure > ceilings.get(kind, {}).get(package, 0)
    ]


def lowered(ceilings: Figures, figures: Figures) -> Figures:
    """Return the ceilings with the figures of each kind whose sum does not rise."""
    sums = {kind: sum(ceilings.get(kind, {}).values()) for kind in KINDS}
    return {
        kind: figures[kind] if sum(figures[kind].values()) <= sums[kind] else ceilings.get(kind, {})
        for kind in KINDS
    }


def dumped(ceilings: Figures) -> str:
    """Return the text of the file of ceilings."""
    text = "# Ceilings, written by `python -m scripts.budget --lower`. CONTRIBUTING.md has the rules.\n"
    for kind in KINDS:
        rows = (f'"{package}" = {figure}\n' for package, figure in sorted(ceilings[kind].items()) if figure)
        text += f"\n[{kind}]\n" + "".join(rows)
    return text


class History:
    """The commits of a repository that changed the ceilings; none in a folder without git."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def committed(self) -> str:
        """Return the ceilings of the last commit."""
        return self._git("show", f"HEAD:{CEILINGS}")

    def sums(self) -> dict[str, int]:
        """Return the sum of each kind that its last commits allow.

        The first one sets it; a later one lowers it, or raises it for a feature that its message names.
        """
        allowed: dict[str, int] = {}
        log = self._git("log", "--first-parent", f"-{COMMITS}", "--format=%H %P", "--", CEILINGS)
        for line in reversed(log.splitlines()):
            commit, *parents = line.split()
            excluded = [f"^{parent}" for parent in parents[:1]]
            trailers = self._git("log", f"--format=%(trailers:key={TRAILER},valueonly)", commit, *excluded)
            for kind, total in sums_of(self._git("show", f"{commit}:{CEILINGS}")).items():
                is_paid = bool(trailers.strip()) and kind in PAID_BY_FEATURES
                allowed[kind] = total if is_paid else min(total, allowed.get(kind, total))
        return allowed

    def _git(self, *arguments: str) -> str:
        command = ("git", "-C", str(self.root), *arguments)
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except FileNotFoundError:
            return ""


def sums_of(text: str) -> dict[str, int]:
    """Return the sum of each kind in a text of ceilings."""
    return {kind: sum(rows.values()) for kind, rows in tomllib.loads(text).items()}


def raised(text: str, history: History) -> tuple[list[str], list[str]]:
    """Return the sums that rose against the rules, and those that need a line in the commit to come."""
    errors, notices = [], []
    is_committed = text == history.committed()
    allowed = history.sums()
    for kind, total in sums_of(text).items():
        if total > allowed.get(kind, total):
            line = f"the sum of {kind} rose from {allowed[kind]:,} to {total:,}"
            if kind not in PAID_BY_FEATURES:
                errors.append(line)
            elif is_committed:
                errors.append(f"{line}: its commit has no line '{TRAILER}: <feature>'")
            else:
                notices.append(f"{line}: end the commit's message with a line '{TRAILER}: <feature>'")
    return errors, notices


def main() -> int:
    """Compare the tree with its ceilings, or lower these."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lower", action="store_true", help="write the figures of kinds whose sum has not risen"
    )
    is_lowering = parser.parse_args().lower
    gc.disable()  # syntax trees have a million nodes and no cycles
    figures, lists = measure()
    file = ROOT / CEILINGS
    if is_lowering:
        file.write_text(dumped(lowered(tomllib.loads(file.read_text()), figures)))
    text = file.read_text()
    ceilings = tomllib.loads(text)
    for kind in KINDS:
        print(f"{kind:12} {sum(figures[kind].values()):7,} of {sum(ceilings.get(kind, {}).values()):7,}")
    errors, notices = raised(text, History(ROOT))
    problems = above(figures, ceilings)
    problems += [f"{place}: query a trait of xdlc.opdefs.traits, or move it to opdefs" for place in lists]
    for line in (*problems, *errors, *notices):
        print(line)
    if any(line.startswith(words.RULES) for line in problems):
        print("python -m scripts.words --show PACKAGE prints the places")
    return int(bool(problems or errors))


if __name__ == "__main__":
    sys.exit(main())
