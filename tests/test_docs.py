"""Pages about the house: the index of decisions and the pictures."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = ROOT / "docs" / "adr"


def test_every_decision_is_in_the_index_with_its_status():
    rows = []
    for path in sorted(DECISIONS.glob("0*.md")):
        number, title, status = re.match(r"# (\d{4}): (.*)\n\nStatus: (.*)\n", path.read_text()).groups()
        rows.append(f"| [{number}]({path.name}) | {title} | {status} |")
    assert (DECISIONS / "README.md").read_text().strip().split("\n")[-len(rows) :] == rows


def test_the_picture_has_the_layers_that_the_imports_keep():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == ["xdlc"])
    page = (ROOT / "docs" / "project" / "architecture.md").read_text()
    picture = page.split("## Layers")[1].split("```")[1]
    drawn = [re.findall(r"[a-z_]+", line.split("  ")[0]) for line in picture.strip().split("\n")[1:]]
    assert drawn == [re.findall(r"[a-z_]+", layer) for layer in layers]


def test_the_picture_of_child_processes_has_each_service():
    page = (ROOT / "docs" / "project" / "architecture.md").read_text()
    picture = page.split("## Child processes")[1].split("```")[1]
    rows = picture[picture.index(" service ") :].strip().split("\n")[1:]
    package = ROOT / "xdlc"
    services = [
        path.relative_to(package).with_suffix("").as_posix().replace("/", ".")
        for path in package.rglob("*.py")
        if re.search(r"^def commands\(\)", path.read_text(), re.MULTILINE)
    ]
    assert sorted(row.split()[0] for row in rows) == sorted(services)


def test_the_picture_of_the_quantizer_has_its_steps_in_order():
    page = (ROOT / "docs" / "project" / "architecture.md").read_text()
    lines = page.split("## The quantizer")[1].split("```")[1].strip().split("\n")[1:]
    rows = [(line.split()[0], line.split()[-1]) for line in lines]
    package = ROOT / "xdlc" / "quant"
    for step, module in rows:
        path = package / f"{module}.py"
        assert path.exists() or module == "algorithms"
        assert module == "algorithms" or f"def {step}(" in path.read_text()
    tree = ast.parse((package / "pipeline.py").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}

    def calls(name):
        nodes = [node for node in ast.walk(functions[name]) if isinstance(node, ast.Call)]
        for call in sorted(nodes, key=lambda call: (call.end_lineno, call.end_col_offset)):
            called = getattr(call.func, "id", getattr(call.func, "attr", ""))
            yield from calls(called) if called in functions else ()
            yield called

    made = calls("quantize")
    assert [step for step, _ in rows if step not in made] == []
