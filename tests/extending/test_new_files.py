"""Each kind of file that CONTRIBUTING lists is added and used by the tools."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram
from tests.converter.tflite.models import TinyModel
from tests.extending.conftest import Overlay
from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.dtype import FLOAT32

X = np.array([[-1.5, 2.0, 3.5]], np.float32)
SERVICE = """
def double(request, files):
    return {"value": 2 * request["value"]}

def commands():
    return {"double": double}
"""


def model_of(models: Any, type: str, shape: tuple[int, ...] = (1, 3)) -> Path:
    """Return the ONNX file of one node."""
    node = onnx.helper.make_node(type, ["x"], ["y"], name="n")
    return models.save(models.make([node], {"x": list(shape)}, {"y": list(shape)}), f"{type}.onnx")


def dlc_of(folder: Path, type: str, package: str = "qti.aisw", count: int = 1) -> Path:
    """Return the DLC of ops of one type in a row."""
    graph = Graph("net")
    tensors = [Tensor(name, (1, 3), FLOAT32) for name in ("x", *("h" * (count - 1)), "y")]
    graph.add_input(tensors[0])
    for index, (source, target) in enumerate(itertools.pairwise(tensors)):
        graph.append(Op(type, [source], [target], name=f"n{index or ''}", package=package))
    graph.add_output(tensors[-1])
    model = Model()
    model.add_graph(graph)
    xdlc.save(model, folder / f"{type}.dlc")
    return folder / f"{type}.dlc"


def samples(folder: Path) -> Path:
    np.save(folder / "x.npy", X)
    (folder / "list.txt").write_text(f"{folder / 'x.npy'}\n")
    return folder / "list.txt"


def test_an_onnx_operator(overlay: Overlay, models: Any) -> None:
    overlay.add(
        "converter/ops/added.py",
        "from xdlc.converter.operators.registry import ANY, importer\n"
        '@importer("Added", layout=ANY)\n'
        "def added(node, b):\n"
        '    return b.unary("Relu", node.required(0))\n',
    )
    source = model_of(models, "Added")
    overlay.run("convert", "-i", source)
    (found,) = xdlc.run(source.with_suffix(".dlc"), {"x": X}).values()
    np.testing.assert_array_equal(found, np.maximum(X, 0))


def test_operators_of_two_frameworks_that_share_a_function(overlay: Overlay, tmp_path: Path) -> None:
    overlay.add(
        "converter/functions/halving.py",
        "from xdlc.converter.functions.shapes import number\n"
        "def halved(g, x):\n"
        '    return g("Mul", [x, number(g, x, 0.5)])\n',
    )
    overlay.add(
        "converter/pytorch/ops/halve.py",
        "from xdlc.converter.functions.halving import halved\n"
        "from xdlc.converter.pytorch.registry import aten\n"
        '@aten("_foobar", ignores=("arg1", "arg2", "arg3"))\n'
        "def foobar(node, g, self):\n"
        "    return halved(g, self)\n",
    )
    overlay.add(
        "converter/tflite/ops/halve.py",
        "from xdlc.converter.functions.halving import halved\n"
        "from xdlc.converter.tflite.registry import handler\n"
        '@handler("HALVE")\n'
        "def halve(node, g):\n"
        "    return halved(g, node.required(0))\n",
    )
    program, network = TinyProgram(), TinyModel()
    program.op("_foobar", program.input("x", (1, 3)))
    x, y = network.tensor("x", (1, 3)), network.tensor("y", (1, 3))
    network.op("HALVE", [x], [y])
    for source in (program.write(tmp_path), network.write(tmp_path / "net.tflite", [x], [y])):
        overlay.run("convert", "-i", source, "-o", tmp_path / "net.dlc")
        (result,) = xdlc.run(tmp_path / "net.dlc", {"x": X}).values()
        np.testing.assert_array_equal(result, X / 2)


def test_a_definition_and_its_constraint(overlay: Overlay, models: Any) -> None:
    overlay.add(
        "converter/ops/defined.py",
        "from xdlc.converter.operators.registry import ANY, importer\n"
        '@importer("Defined", layout=ANY)\n'
        "def defined(node, b):\n"
        '    return b.unary("Defined", node.required(0))\n',
    )
    relu = (overlay.folder / "xdlc/opdefs/data/ops/Relu.xml").read_text()
    defined = relu.replace("<Name>Relu<", "<Name>Defined<").replace("rank &gt;= 1", "rank &lt;= 2")
    overlay.add("opdefs/data/ops/Defined.xml", defined)
    failed = overlay.run("convert", "-i", model_of(models, "Defined", (1, 2, 3)), code=5)
    assert "rank" in failed.stderr
    assert "Defined" in failed.stderr


def test_an_operation_on_the_host(overlay: Overlay, tmp_path: Path) -> None:
    overlay.add(
        "runtime/ops/halve.py",
        "from xdlc.opdefs import args\n"
        "from xdlc.runtime.ops import lowering\n"
        '@lowering("Halve", package="xdlc")\n'
        "def halve(op, b):\n"
        "    value = b.read(args.operand(op, 0))\n"
        '    b.write(args.result(op), b.node("Mean", [value, b.node("Sub", [value, value])]))\n',
    )
    dlc = dlc_of(tmp_path, "Halve", "xdlc")
    overlay.run(
        "net-run", "--container", dlc, "--input_list", samples(tmp_path), "--output_dir", tmp_path / "out"
    )
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out/Result_0/y.raw", "<f4"), X[0] / 2)


def test_a_soc_and_a_generation(overlay: Overlay) -> None:
    newest = (overlay.folder / "xdlc/targets/data/v85.toml").read_text()
    head = newest.partition("[[soc]]")[0].replace("arch = 85", "arch = 97")
    overlay.add(
        "targets/data/v97.toml", f'{head}[[soc]]\nid = 9700\nname = "sm9999"\nvtcm_mb = 16\nfp16 = true\n'
    )
    shown = overlay.run("platform-check", "--runtime", "cpu", "--soc", "sm9999", "--json").stdout
    (found,) = json.loads(shown)["socs"]
    assert (found["arch"], found["vtcm_mb"]) == ("v97", 16)
    relu = (overlay.folder / "xdlc/opdefs/data/ops/Relu.xml").read_text().replace("qti.aisw", "Mine")
    relu = relu.replace("BACKEND_SPECIFIC", "QNN_DATATYPE_FLOAT_32")
    named = relu.replace("</OpDef>\n", "<SupportedBackend>DSP_V97</SupportedBackend></OpDef>\n")
    (overlay.folder / "mine.xml").write_text(named)
    assert "Relu" in overlay.run("udo-config", "validate", overlay.folder / "mine.xml").stdout


def test_a_graph_pass(overlay: Overlay, tmp_path: Path) -> None:
    overlay.add(
        "passes/drop_repeated.py",
        "from xdlc.passes.base import op_pass\n"
        '@op_pass("ElementWiseNeuron", stage="converter")\n'
        "def drop_repeated(graph, op):\n"
        "    before = op.inputs[0].producer\n"
        "    if before is None or (before.type, before.params) != (op.type, op.params):\n"
        "        return False\n"
        "    graph.set_inputs(op, before.inputs)\n"
        "    graph.remove(before)\n"
        "    return True\n",
    )
    dlc = dlc_of(tmp_path, "Relu", count=2)
    overlay.run("opt", dlc, "--pass", "drop_repeated", "-o", tmp_path / "less.dlc")
    assert (len(xdlc.load(dlc).main), len(xdlc.load(tmp_path / "less.dlc").main)) == (2, 1)


def test_a_range_method(overlay: Overlay, tmp_path: Path) -> None:
    overlay.add(
        "quant/range_methods/half_range.py",
        "from xdlc.quant.range_methods import range_method\n"
        "from xdlc.quant.ranges import Range\n"
        "def half(statistics, grid):\n"
        "    return Range(statistics.seen.low / 2, statistics.seen.high / 2)\n"
        'range_method("half-range", activations=half)\n',
    )
    dlc, target = dlc_of(tmp_path, "Relu"), tmp_path / "q.dlc"
    overlay.run(
        "quant", "-i", dlc, "-l", samples(tmp_path), "-o", target, "--act_quantizer_calibration", "half-range"
    )
    encoding = xdlc.load(target).main.inputs[0].encoding
    assert encoding.scale * 255 == pytest.approx((3.5 + 1.5) / 2, rel=0.01)


def test_an_accuracy_algorithm(overlay: Overlay, tmp_path: Path) -> None:
    overlay.add(
        "quant/algorithms/loud.py",
        "from xdlc.quant.algorithms import Stage, algorithm\n"
        '@algorithm("loud", Stage.GRAPH)\n'
        "def loud(plan, calibration, engine):\n"
        '    print("loud on", *(op.name for op in plan.graph.ops))\n'
        "    return plan\n",
    )
    words = ("-i", dlc_of(tmp_path, "Relu"), "-l", samples(tmp_path), "-o", tmp_path / "q.dlc")
    assert "loud on n\n" in overlay.run("quant", *words, "--algorithms", "loud").stdout


def test_a_fact_about_the_source_in_the_dlc(overlay: Overlay, tmp_path: Path) -> None:
    layers = '"layers": {"*": int},'
    overlay.replace("ir/model.py", layers, f'{layers}\n    "authors": [str],')
    overlay.replace("container/metadata.py", '"layers")', '"layers", "authors")')
    version = '"version": model.metadata.get("version", ""),'
    overlay.replace(
        "content/inspection.py", version, f'{version}\n        "authors": model.metadata.get("authors"),'
    )
    source, target = dlc_of(tmp_path, "Relu"), tmp_path / "signed.dlc"
    write = (
        "import sys, xdlc\n"
        "model = xdlc.load(sys.argv[1])\n"
        'model.metadata["authors"] = {}\n'
        "model.save(sys.argv[2])\n"
    )
    overlay.python(write.format(["A", "B"]), source, target)
    assert json.loads(overlay.run("info", "-i", target, "--json").stdout)["authors"] == ["A", "B"]
    overlay.python(write.format([1]), source, target)
    assert "authors" in overlay.run("info", "-i", target, code=6).stderr


def test_a_section_of_the_report(overlay: Overlay, tmp_path: Path) -> None:
    schema = "    schema: int\n"
    overlay.replace("quant/report/model.py", schema, f"{schema}    steps: tuple[str, ...]\n")
    steps = "tuple(op.name for op in subject.graph.ops)"
    overlay.replace("quant/report/measure.py", "        SCHEMA,\n", f"        SCHEMA,\n        {steps},\n")
    overlay.replace(
        "quant/report/page.js", "hero();", 'hero(); $("words").append(h("p", {id: "steps"}, R.steps));'
    )
    dlc, target = dlc_of(tmp_path, "Relu"), tmp_path / "q.dlc"
    words = ("-i", dlc, "-l", samples(tmp_path), "-o", target)
    for form in ("json", "html"):
        overlay.run("quant", *words, "--report", tmp_path / f"report.{form}")
    assert json.loads((tmp_path / "report.json").read_text())["steps"] == ["n"]
    page = (tmp_path / "report.html").read_text()
    assert '"steps":["n"]' in page
    assert '{id: "steps"}' in page


def test_a_tool(overlay: Overlay) -> None:
    overlay.add(
        "cli/tools/count_letters.py",
        "import click\n"
        "from xdlc.cli.tool import tool\n"
        '@tool("xdlc-count-letters")\n'
        '@click.argument("word")\n'
        "def main(word):\n"
        '    """Count letters."""\n'
        "    click.echo(len(word))\n",
    )
    assert overlay.run("count-letters", "seven").stdout == "5\n"


def test_an_answer_to_a_flag_of_another_tool(overlay: Overlay) -> None:
    overlay.extend("cli/data/info.toml", '"--as_words" = "write --json, which has no words"\n')
    refused = overlay.run("info", "--as_words", code=2)
    assert "fix: write --json, which has no words" in refused.stderr


def test_a_service_of_a_child_process(overlay: Overlay) -> None:
    overlay.add("converter/doubling.py", SERVICE)
    program = """
from xdlc.worker.process import SharedWorker
print(SharedWorker("xdlc.converter.doubling").ask({"do": "double", "value": 2, "seconds": 5}, timeout=20))
"""
    assert "'value': 4" in overlay.python(program)


def test_a_file_format(overlay: Overlay, tmp_path: Path) -> None:
    overlay.extend(
        "converter/formats.py", '\n_MAGIC += ((b"MYNET", Format("a MyNet model", "export it")),)\n'
    )
    (tmp_path / "m.onnx").write_bytes(b"MYNET 1")
    refused = overlay.run("convert", "-i", tmp_path / "m.onnx", code=3)
    assert "is a MyNet model" in refused.stderr
    assert "fix: export it" in refused.stderr


def test_an_importer(overlay: Overlay, tmp_path: Path) -> None:
    overlay.add(
        "converter/reludef/__init__.py",
        '"""Importer of a made-up format."""\n'
        "from typing import Annotated, TypedDict\n"
        "from xdlc.converter.frontends import Frontend, reader\n"
        "from xdlc.options import Option\n"
        "class ReludefOptions(TypedDict, total=False):\n"
        '    slope: Annotated[str | None, Option("Slope of the function.")]\n'
        "def recognizes(path, found):\n"
        '    return path.is_file() and path.read_bytes().startswith(b"reludef")\n'
        "FRONTEND = Frontend(\n"
        '    "reludef", "a reludef model", "xconv-reludef-to-dlc", recognizes, reader("reludef"),\n'
        "    ReludefOptions,\n"
        ")\n",
    )
    overlay.add(
        "converter/reludef/reader.py",
        "from xdlc.converter.pipeline import SourceModel\n"
        "from xdlc.converter.operators.registry import Handlers\n"
        "from xdlc.converter.session.context import Source\n"
        "from xdlc.converter.session.node import GraphInput, Node, SourceGraph\n"
        "from xdlc.ir.dtype import FLOAT32\n"
        "handler = Handlers()\n"
        '@handler("Bend")\n'
        "def bend(node, g):\n"
        '    return g("Relu", node.inputs)\n'
        "def read(path, options, *, slope=0):\n"
        '    nodes = [Node("Bend", ["x"], ["y"], {}, "n")]\n'
        '    graph = SourceGraph([GraphInput("x", FLOAT32, [1, 3])], ["y"], nodes)\n'
        '    return SourceModel(Source("reludef", str(path), f"net{slope}"), graph, handler, options)\n',
    )
    overlay.add(
        "cli/tools/reludef_to_dlc.py",
        "from xdlc.cli.convert_options import converter_tool\n"
        "from xdlc.converter.reludef import FRONTEND\n"
        "main = converter_tool(FRONTEND.tool, FRONTEND)\n",
    )
    source, target = tmp_path / "m.txt", tmp_path / "m.dlc"
    source.write_text("reludef 1\n")
    models = " ".join(overlay.run("convert", "--help").stdout.split())
    assert "ONNX, " in models
    assert "reludef, " in models
    assert "--slope" in overlay.run("reludef-to-dlc", "--help").stdout
    other = overlay.run("onnx-to-dlc", "-i", source, code=3).stderr
    assert "is a reludef model, not an ONNX model\n  fix: convert it with xdlc convert" in other
    overlay.run("convert", "-i", source, "-o", target, "--slope", "2")
    assert xdlc.load(target).main.name == "net2"
    (found,) = xdlc.run(target, {"x": X}).values()
    np.testing.assert_array_equal(found, np.maximum(X, 0))
