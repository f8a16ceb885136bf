"""Budgets of the source tree: modules, lines by package, files of a conversion, homes of op types.

    python scripts/budget.py

Prints a table and ends with status 1 if a figure is above its budget.  A budget is raised in the commit
that needs it, with the reason in its message.
"""

from __future__ import annotations

import ast
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "xdlc"

MODULES = 990
FILES_OF_A_CONVERSION = 69
LINES = {
    "api": 2_300,
    "boundary": 1_605,
    "cli": 5_750,
    "container": 4_225,
    "converter": 56_850,
    "ir": 3_775,
    "opdefs": 6_560,
    "options": 800,
    "passes": 9_090,
    "prepare": 3_915,
    "quant": 19_775,
    "runtime": 17_355,
    "schema": 3_250,
    "targets": 200,
    "udo": 9_350,
    "": 695,
}
TOTAL = 145_315

OP_TYPES_IN_A_LITERAL = 2
HOMES = ("opdefs", "converter", "runtime/ops", "container/opnames.py")


def lines_of(paths: list[Path]) -> int:
    """Return the number of lines of some files, blank lines and comments included."""
    return sum(len(path.read_bytes().splitlines()) for path in paths)


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
    found = {str(Path(file).relative_to(PACKAGE)) for file in files if file.startswith(f"{PACKAGE}/")}
    if not found:
        raise SystemExit(f"xdlc is imported from {xdlc.__file__}, not from {PACKAGE}")
    return found


def lists_of_op_types() -> list[str]:
    """Return the places of literals that list op types outside their homes."""
    op_types = {path.stem for path in (PACKAGE / "opdefs" / "data" / "ops").glob("*.xml")}
    places = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        if not module.startswith(HOMES):
            for node in ast.walk(ast.parse(path.read_text())):
                found = {each.value for each in _elements(node) if isinstance(each, ast.Constant)}
                if len(found & op_types) > OP_TYPES_IN_A_LITERAL:
                    places.append(f"{module}:{node.lineno}")  # type: ignore[attr-defined]
    return places


def _elements(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return node.elts
    return [key for key in node.keys if key is not None] if isinstance(node, ast.Dict) else []


def main() -> int:
    """Print the figures with their budgets."""
    files = sorted(PACKAGE.rglob("*.py"))
    rows = [("modules", len(files), MODULES)]
    for name, budget in LINES.items():
        inside = [file for file in files if (file.relative_to(PACKAGE).parts[:-1] or ("",))[0] == name]
        rows.append((f"lines of xdlc/{name}", lines_of(inside), budget))
    rows.append(("lines", lines_of(files), TOTAL))
    rows.append(("files of a conversion", len(files_of_a_conversion()), FILES_OF_A_CONVERSION))
    places = lists_of_op_types()
    rows.append(("lists of op types", len(places), 0))
    for name, figure, budget in rows:
        print(f"{name:24} {figure:7,} of {budget:7,}{'  above its budget' if figure > budget else ''}")
    for place in places:
        print(f"  {place}: query a trait of xdlc.opdefs.traits, or move it to opdefs")
    return int(any(figure > budget for _, figure, budget in rows))


if __name__ == "__main__":
    sys.exit(main())
