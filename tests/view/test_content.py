"""Content of the page of one model."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cache_models import put_cache
from tests.support.control_flow_models import if_model
from tests.support.custom_ops import converted, custom, my_node, onnx_model, place, scale_graph
from tests.support.htp_models import cnn
from tests.support.pages import HOSTILE
from tests.support.section_models import on_cpu, residual
from xdlc.container import cache_provenance
from xdlc.container.aip_record import OWN_RECORD
from xdlc.container.cache_provenance import GraphFacts
from xdlc.ir import (
    ArrayData,
    AxisScaleOffset,
    BlockScaleOffset,
    Encoding,
    Graph,
    Model,
    Op,
    Origin,
    ScaleOffset,
    Tensor,
    f32,
    static,
    string,
    u32,
)
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.fingerprint import fingerprint
from xdlc.view import content
from xdlc.view.graphs import HOST, INSERTED, UDO, encoding_text, short_value


def side(model: Model, **options: Any) -> dict[str, Any]:
    """Return the side of a model, as the page reads it."""
    return json.loads(json.dumps(content.side(model, **options), allow_nan=False))


def overlays(model: Model) -> dict[str, dict[str, Any]]:
    return {overlay["key"]: overlay for overlay in side(model)["overlays"]}


def test_graph_tensors_and_ops() -> None:
    model = cnn(quantized=True)
    only = side(model, name="net.dlc", nbytes=123)
    assert (only["file"], only["bytes"], only["problems"]) == ("net.dlc", 123, [])
    (graph,) = only["graphs"]
    names = [tensor[0] for tensor in graph["tensors"]]
    assert names == list(model.main.tensors)
    assert [names[place] for place in graph["inputs"] + graph["outputs"]] == ["x", "y"]
    conv, *_, dense = graph["ops"]
    assert (conv[0], graph["types"][conv[1]]) == ("conv2d_conv", "Conv2d")
    assert [names[place] for place in (*conv[3], *conv[4])] == ["x", "w", "b", "conv"]
    assert conv[5]["stride"] == "[1, 1]"
    assert conv[5]["pad_amount"] == "[[1, 1], [1, 1]]"
    assert graph["ops"][1][5]["operation"] == "4 (RELU)"
    assert graph["types"][dense[1]] == "FullyConnected"
    rows = dict(zip(names, graph["tensors"], strict=True))
    assert rows["x"][1:5] == ["ufixed8", [1, 8, 8, 4], "input", "scale 0.00784314, offset -128"]
    assert rows["w"][3] == "static"
    assert rows["w"][4].startswith("per channel (axis 3): 8 scales ")
    assert graph["stats"][rows["w"][5] - 1]["n"] == 288
    assert rows["conv"][5] == 0


def test_statistics_can_be_omitted() -> None:
    assert side(cnn(quantized=False), statistics=False)["graphs"][0]["stats"] == []


def test_omitted_inputs_open_dimensions_and_reasons() -> None:
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 4), FLOAT32, dynamic_axes=(0,)))
    y = Tensor("y", (1, 4), FLOAT32)
    graph.append(
        Op("Odd", [x, None], [y], {"beta": f32(0.1), "name": string("s")}, name="o", origin=Origin((), "why"))
    )
    graph.add_output(y)
    (only,) = side(Model({"g": graph}))["graphs"]
    assert only["tensors"][0][2] == [None, 4]
    (op,) = only["ops"]
    assert (op[3], op[5], op[7], op[10]) == ([0, -1], {"beta": 0.1, "name": "s"}, "why", INSERTED)


def test_bodies_are_graphs_of_their_own() -> None:
    only = side(if_model())
    assert [graph["name"] for graph in only["graphs"]] == ["main", "main_then", "main_else"]
    choose = next(op for op in only["graphs"][0]["ops"] if op[0] == "choose")
    assert (choose[8], choose[9], choose[10]) == ([1, 2], "xdlc", HOST)
    assert dict(only["facts"])["ops"] == "4"


def test_a_command_of_properties_and_history_is_one_fact() -> None:
    model = if_model()
    model.metadata["properties"] = {"converter-command": "convert a=1"}
    model.metadata["history"] = [{"tool": "convert", "args": {"command": "convert a=1", "b": "2"}}]
    facts = side(model)["facts"]
    assert [label for label, _ in facts][-3:] == ["converter-command", "made by", "b"]
    assert facts[0][0] == "input"


def test_user_defined_ops_have_package_and_flag() -> None:
    (graph,) = side(scale_graph())["graphs"]
    flagged = [op for op in graph["ops"] if op[10] & UDO]
    assert flagged
    assert all(op[9] not in (0, "xdlc") for op in flagged)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        (ScaleOffset(0.25, -3, 4), "scale 0.25, offset -3, 4 bits"),
        (AxisScaleOffset(3, (1.0, 0.5)), "per channel (axis 3): 2 scales 0.5 to 1 (1, 0.5)"),
        (
            AxisScaleOffset(0, tuple(range(1, 65)), (-1,) * 64),
            "per channel (axis 0): 64 scales 1 to 64, offsets -1 to -1",
        ),
        (BlockScaleOffset((1, 8), (1.0,) * 16), "per block of 1x8: 16 scales 1 to 1"),
    ],
)
def test_encodings_are_short_texts(encoding: Encoding, text: str) -> None:
    assert encoding_text(encoding) == text


def test_values_are_short() -> None:
    assert [short_value(value) for value in (1.23456789, float("nan"), 2**60, True, [1.0, [2]])] == [
        1.2346, "nan", str(2**60), "true", "[1, [2]]",
    ]  # fmt: skip
    assert len(short_value("x" * 100_000)) < 5000


def test_figures_of_ops() -> None:
    model = cnn(quantized=True)
    figures = overlays(model)
    assert figures["macs"]["graphs"][0] == [8 * 8 * 8 * 9 * 4, 0, 0, 0, 5 * 128]
    assert figures["weights"]["graphs"][0] == [288 + 32, 0, 0, 0, 640 + 20]
    assert figures["bytes"]["graphs"][0][1] == 2 * 8 * 8 * 8
    assert figures["bits"]["graphs"][0] == ["A8W8", "A8", "A8", "A8", "A8W8"]
    assert figures["dtype"]["colors"] == {"ufixed8": "c3"}
    assert set(figures["backend"]["graphs"][0]) == {"HTP"}
    assert "inserted" not in figures


def test_classes_have_colors_and_empty_overlays_are_left_out() -> None:
    for model in (cnn(quantized=True), cnn(quantized=False), scale_graph(), if_model(), residual()):
        for key, overlay in overlays(model).items():
            values = [value for row in overlay["graphs"] for value in row]
            if overlay["kind"] == "class":
                assert {value for value in values if value is not None} == set(overlay["colors"]), key
            assert any(values), key


def test_inserted_ops_have_their_reason() -> None:
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 2), FLOAT32))
    y = Tensor("y", (2, 1), FLOAT32)
    reason = "the UDO needs another layout"
    perm = static("", np.uint32([1, 0]))
    graph.append(Op("Transpose", [x], [y], {"perm": perm}, name="t", origin=Origin((), reason)))
    graph.add_output(y)
    overlay = overlays(Model({"g": graph}))["inserted"]
    assert (overlay["graphs"], overlay["notes"]) == ([["inserted"]], [{"0": reason}])


def test_permutes_before_user_defined_ops_are_shown_with_their_reason(tmp_path: Path) -> None:
    op = custom("Paint", [place("image", layout="NHWC")], [place("y", layout="NHWC")])
    node = my_node("Paint", ["x"], ["y"])
    source = onnx_model([node], {"x": (np.float32, [1, 3, 4, 5])}, {"y": (np.float32, [1, 7, 4, 5])})
    model = converted(tmp_path, source, op)
    (graph,) = side(model)["graphs"]
    flags = [(graph["types"][each[1]], each[10], bool(each[7])) for each in graph["ops"]]
    assert flags == [("Transpose", INSERTED, True), ("Paint", UDO, False), ("Transpose", INSERTED, True)]


def test_caches_are_records_and_overlays() -> None:
    model = cnn(quantized=True)
    name = put_cache(model, "sm8650")
    only = side(model)
    title, facts = only["records"][0]
    assert title == f"cache {name}"
    assert dict(facts)["arch"] == "v75"
    overlay = {each["key"]: each for each in only["overlays"]}[f"cache:{name}"]
    assert overlay["graphs"] == [["cnn"] * 5]


def test_parts_of_a_cache_are_classes() -> None:
    model = cnn(quantized=True)
    name = put_cache(model, "sm8650")
    facts = cache_provenance.read(model)
    names = tuple(op.name for op in model.main.ops)
    parts = replace(facts[name], graphs={"cnn": GraphFacts(fingerprint(model.main), "cnn", names[:2])})
    cache_provenance.write(model, {**facts, name: parts})
    assert overlays(model)[f"cache:{name}"]["graphs"] == [["cnn", "cnn", None, None, None]]


def test_sections_are_an_overlay() -> None:
    model = on_cpu(residual(), [3])
    overlay = overlays(model)["hta"]
    assert set(overlay["graphs"][0]) == {"HNN 0-2", f"HNN 3-{len(model.main) - 1}"}


def test_damaged_records_are_problems() -> None:
    model = cnn(quantized=True)
    model.records[OWN_RECORD] = ArrayData(np.uint8([1, 2, 3]))
    assert any(graph is None for _, graph, _ in side(model)["problems"])


def test_nodes_without_ops_are_listed_with_their_reason() -> None:
    model = cnn(quantized=True)
    model.metadata["nodes"] = [("shape", "Shape", "its result is known while converting")]
    ((_, facts),) = side(model)["records"]
    assert facts == [["shape (Shape)", "its result is known while converting"]]


def test_a_model_of_records_alone() -> None:
    model = cnn(quantized=True)
    put_cache(model, "sm8650")
    model.graphs.clear()
    only = side(model)
    assert only["graphs"] == []
    assert only["records"][0][0].startswith("cache htp.cache.")


def test_hostile_names_stay_what_they_are() -> None:
    graph = Graph(HOSTILE)
    x = graph.add_input(Tensor(HOSTILE, (1,), FLOAT32))
    y = Tensor("y", (1,), FLOAT32)
    graph.append(Op(HOSTILE, [x], [y], {HOSTILE: u32(1)}, name=HOSTILE, origin=Origin((HOSTILE,))))
    graph.add_output(y)
    model = Model({HOSTILE: graph}, {"properties": {HOSTILE: HOSTILE}, "history": [{"tool": HOSTILE}]})
    assert side(model)["graphs"][0]["ops"][0][0] == HOSTILE


def test_content_needs_no_processes_and_no_engines() -> None:
    script = (
        "import sys, xdlc.view.content; "
        "print([name for name in ('subprocess', 'multiprocessing', 'fcntl', 'ctypes', 'onnx', 'onnxruntime') "
        "if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_ten_thousand_ops_are_small() -> None:
    import base64
    import gzip

    graph = Graph("big")
    value = graph.add_input(Tensor("x", (1, 8), FLOAT32))
    for number in range(10_000):
        node = f"/layer{number // 100}/block{number // 10 % 10}/relu{number}/Relu"
        result = Tensor(f"{node}_output_0", (1, 8), FLOAT32)
        params = {"operation": u32(4)}
        graph.append(Op("ElementWiseNeuron", [value], [result], params, name=node, origin=Origin((node,))))
        value = result
    graph.add_output(value)
    text = json.dumps(content.side(Model({"big": graph})), separators=(",", ":")).encode()
    assert len(base64.b64encode(gzip.compress(text, mtime=0))) < 150 * 10_000
