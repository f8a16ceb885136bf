"""Source models beside their DLCs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import xdlc
from tests.support.htp_models import cnn, needs_htp
from tests.support.onnx_models import residual
from xdlc.api import view_content
from xdlc.errors import UnsupportedOp, UsageError
from xdlc.ir import ArrayData
from xdlc.view.graphs import REFUSED
from xdlc.view.source import attribute_text

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


def written(folder: Path, model: Any, name: str = "net.onnx") -> Path:
    onnx.save(parser.parse_model(f"{HEAD} {model}") if isinstance(model, str) else model, folder / name)
    return folder / name


def both(folder: Path, model: Any) -> dict[str, Any]:
    """Return the content for a source model and its DLC."""
    path = written(folder, model)
    xdlc.convert(path).save(folder / "net.dlc")
    return json.loads(json.dumps(view_content(path, against=folder / "net.dlc"), allow_nan=False))


def test_nodes_are_as_in_the_file(tmp_path: Path) -> None:
    result = both(tmp_path, residual())
    source, dlc = result["sides"]
    assert (source["kind"], source["file"], dlc["kind"]) == ("ONNX", "net.onnx", "DLC 4.1")
    (graph,) = source["graphs"]
    assert [op[0] for op in graph["ops"]] == ["first", "relu", "second", "add", "flat", "dense"]
    assert graph["types"] == ["Conv", "Relu", "Add", "Flatten", "Gemm"]
    rows = {tensor[0]: tensor for tensor in graph["tensors"]}
    assert rows["x"][1:4] == ["float32", [1, 3, 8, 8], "input"]
    assert ["input", "x: float32 1x3x8x8"] in source["facts"]
    assert rows["w1"][1:4] == ["float32", [8, 3, 3, 3], "static"]
    assert graph["stats"][rows["w1"][5] - 1]["n"] == 216
    assert rows["y"][3] == "output"
    assert [graph["tensors"][place][0] for place in graph["ops"][3][3]] == ["c2", "r1"]
    assert graph["ops"][0][5]["pads"] == "[1, 1, 1, 1]"


def test_the_trace_links_nodes_and_ops(tmp_path: Path) -> None:
    result = both(tmp_path, residual())
    source, dlc = (side["graphs"][0]["ops"] for side in result["sides"])
    pairs = {(source[a][0], dlc[b][0]) for _, a, _, b in result["link"]}
    for place, op in enumerate(dlc):
        assert {node for node, name in pairs if name == op[0]} == set(op[6]), place
    path = tmp_path / "net.onnx"
    swapped = view_content(tmp_path / "net.dlc", against=path)
    assert [side["file"] for side in swapped["sides"]] == ["net.dlc", "net.onnx"]
    assert {(b, a) for _, a, _, b in swapped["link"]} == {(a, b) for _, a, _, b in result["link"]}


def test_nodes_without_ops_have_their_reason(tmp_path: Path) -> None:
    model = "main (float[2,3] x) => (float[2,3] y) { c = Constant <value_floats = [1.0]> () y = Add(x, c) }"
    source = both(tmp_path, model)["sides"][0]
    ((_, ((name, reason),)),) = source["records"]
    (overlay,) = source["overlays"]
    place = overlay["graphs"][0].index("no op")
    assert source["graphs"][0]["ops"][place][0] in name
    assert overlay["notes"][0][str(place)] == reason
    assert overlay["graphs"][0][1 - place] == "ops"


def test_bodies_are_further_graphs(tmp_path: Path) -> None:
    model = (
        "main (float[2] x, bool c) => (float[2] y) { y = If (c) "
        "<then_branch = a () => (float[2] p) { p = Relu(x) }, "
        "else_branch = b () => (float[2] q) { q = Neg(x) }> }"
    )
    source = both(tmp_path, model)["sides"][0]
    main, *bodies = source["graphs"]
    assert main["ops"][0][8] == [1, 2]
    assert [body["types"] for body in bodies] == [["Relu"], ["Neg"]]


def test_a_source_model_alone_is_converted(tmp_path: Path) -> None:
    path = written(tmp_path, residual())
    (side,) = view_content(path)["sides"]
    assert (side["kind"], side["bytes"]) == ("ONNX", path.stat().st_size)
    assert "Conv2d" in side["graphs"][0]["types"]


def test_options_of_the_conversion(tmp_path: Path) -> None:
    path = written(tmp_path, "main (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    (side,) = view_content(path, input_dims={"x": (2, 3)})["sides"]
    assert side["graphs"][0]["tensors"][0][2] == [2, 3]
    xdlc.convert(path, input_dims={"x": (2, 3)}).save(tmp_path / "net.dlc")
    with pytest.raises(UsageError):
        view_content(tmp_path / "net.dlc", input_dims={"x": (2, 3)})


def refuse(*_args: Any, **_options: Any) -> None:
    raise UnsupportedOp("a DLC holds no strings")


def test_a_model_that_cannot_be_converted_shows_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = helper.make_node("Odd", ["x"], ["y"], name="odd", domain="my.ops")
    graph = helper.make_graph(
        [odd],
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 3])],
        [helper.make_tensor_value_info("y", 1, [1, 3])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    path = written(tmp_path, helper.make_model(graph, opset_imports=imports, ir_version=9))
    notices: list[str] = []
    (side,) = view_content(path, notify=notices.append)["sides"]
    assert side["graphs"][0]["ops"][0][10] & REFUSED
    assert side["problems"][0][1:] == [0, 0]
    assert len(notices) == 1
    with monkeypatch.context() as context:
        context.setattr("xdlc.api.viewing.read_source", refuse)
        with pytest.raises(UnsupportedOp):
            view_content(path, notify=notices.append)
    assert len(notices) == 1  # which promises a page
    with pytest.raises(UnsupportedOp):
        view_content(path, soc="sm8650", notify=notices.append)


@needs_htp
@pytest.mark.slow
def test_the_cost_of_a_soc_needs_no_report() -> None:
    (side,) = view_content(cnn(quantized=True), soc="sm8650", with_cost=True)["sides"]
    keys = {overlay["key"] for overlay in side["overlays"]}
    assert {"verdict", "dram:sm8650:8MB", "engine:sm8650:8MB"} <= keys


def test_attributes_are_short() -> None:
    assert attribute_text(ArrayData(np.zeros((3, 4), np.float32))) == "float32 [3, 4]"
    assert attribute_text(list(range(100))).endswith("and 84 more")
    assert attribute_text(object()) == "object"
    assert attribute_text(np.int64([1, 2])) == "[1, 2]"
