"""Graphs of several models in one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.control_flow_models import if_model
from tests.support.custom_ops import scale_graph
from tests.support.htp_models import cnn
from xdlc.container import describe, udo
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Graph, Model, Tensor, make_op, raw_data, static
from xdlc.ir.dtype import FLOAT32

WEIGHT = np.arange(64, dtype=np.float32)


def scaling(size: int, *, name: str = "main", port: str = "x") -> Model:
    """Return y = w * relu(x) with a weight that all of them have."""
    graph = Graph(name)
    x = graph.add_input(Tensor(port, (size, 64), FLOAT32))
    h, y = (Tensor(each, (size, 64), FLOAT32) for each in "hy")
    graph.append(make_op(graph, "Relu", [x], [h], name="relu"))
    weight = graph.add_tensor(static("w", WEIGHT))
    graph.append(make_op(graph, "ElementWiseMultiply", [h, weight], [y], name="mul"))
    graph.add_output(y)
    return Model({name: graph})


def linked(*models: Any, **options: Any) -> tuple[Model, list[str]]:
    notices: list[str] = []
    return xdlc.link(models, notify=notices.append, **options), notices


def test_graphs_keep_names_that_are_unique() -> None:
    model, notices = linked(scaling(1, name="a"), scaling(2, name="b"))
    assert list(model.graphs) == ["a", "b"]
    assert model.main.name == "a"
    assert not notices
    assert model.metadata["history"][-1]["tool"] == "xdlc-link"


def test_graphs_of_one_network_are_named_after_their_shapes() -> None:
    model, notices = linked(scaling(1), scaling(3))
    assert list(model.graphs) == ["main_1x64", "main_3x64"]
    assert len(notices) == 2


def test_other_graphs_are_named_after_their_files(tmp_path: Path) -> None:
    for stem, port in (("first", "x"), ("second", "z")):
        scaling(1, port=port).save(tmp_path / f"{stem}.dlc")
    model, notices = linked(tmp_path / "first.dlc", tmp_path / "second.dlc")
    assert list(model.graphs) == ["first", "second"]
    assert all("'main'" in notice for notice in notices)


def test_names_of_the_caller_come_first() -> None:
    model, notices = linked(scaling(1), scaling(3), names=["prompt"])
    assert list(model.graphs) == ["prompt", "main"]
    assert not notices
    with pytest.raises(UsageError, match="'same'"):
        linked(scaling(1), scaling(3), names=["same", "same"])
    with pytest.raises(UsageError, match="'main'"):
        linked(scaling(1), scaling(1))


def test_equal_weights_are_stored_once(tmp_path: Path) -> None:
    model, _ = linked(scaling(1), scaling(3))
    model.save(tmp_path / "both.dlc")
    (data,) = (entry for entry in describe(tmp_path / "both.dlc").entries if entry.name == "model.params.bin")
    assert data.size == WEIGHT.nbytes
    feeds = {"x": np.ones((3, 64), np.float32)}
    again = xdlc.load(tmp_path / "both.dlc")
    second = Model({"second": again.graphs["main_3x64"]})
    np.testing.assert_array_equal(xdlc.run(second, feeds)["y"], xdlc.run(scaling(3), feeds)["y"])


def test_branches_follow_their_graph() -> None:
    model, _ = linked(if_model(), if_model((4, 3)), names=["a", "b"])
    assert list(model.graphs) == ["a", "a_main_then", "a_main_else", "b", "b_main_then", "b_main_else"]
    feeds = {"c": np.array([True]), "x": np.full((4, 3), -1, np.float32)}
    own = Model({name: model.graphs[name] for name in ("b", "b_main_then", "b_main_else")})
    expected = xdlc.run(if_model((4, 3)), feeds)
    np.testing.assert_array_equal(xdlc.run(own, feeds)["y"], expected["y"])


def test_notes_are_merged_or_refused() -> None:
    first, second = scaling(1, name="a"), scaling(2, name="b", port="z")
    first.metadata |= {"layouts": {"x": "NC"}, "tensors": {"a": {"h": ["H"]}}, "nodes": [["n", "Relu", None]]}
    second.metadata |= {
        "layouts": {"z": "CN"},
        "tensors": {"b": {"h": ["K"]}},
        "nodes": [["n", "Relu", None]],
    }
    model, _ = linked(first, second, names=["c"])
    assert model.metadata["layouts"] == {"x": "NC", "z": "CN"}
    assert model.metadata["tensors"] == {"c": {"h": ["H"]}, "b": {"h": ["K"]}}
    assert model.metadata["nodes"] == [["n", "Relu", None]]
    third = scaling(3, name="d")
    with pytest.raises(ConstraintError, match="'x'"):
        linked(first, third)


def test_caches_are_dropped_with_a_notice_and_udos_stay() -> None:
    first = cnn(quantized=False)
    first.records["htp.cache.sm8650.0"] = raw_data(bytes(8))
    model, notices = linked(first, scale_graph())
    assert "htp.cache.sm8650.0" not in model.records
    assert any("htp.cache.sm8650.0" in notice for notice in notices)
    assert udo.definitions(model) == udo.definitions(scale_graph())


def test_other_rounding_on_the_host_is_stated() -> None:
    first, second = cnn(quantized=True), cnn(quantized=True)
    first.metadata["history"] = [{"tool": "xconv-onnx-to-dlc"}]
    second.metadata["history"] = [{"tool": "xconv-onnx-to-dlc"}, {"tool": "xdlc-quant"}]
    assert linked(first, second, names=["a", "b"])[1]
    assert not linked(second, second, names=["a", "b"])[1]


def test_what_cannot_be_linked_is_refused() -> None:
    with pytest.raises(UsageError, match="1 model"):
        xdlc.link([scaling(1)])
    with pytest.raises(UsageError, match="no graph"):
        linked(scaling(1), Model(records={"a": raw_data(b"a")}))
    both, _ = linked(scaling(1, name="a"), scaling(2, name="b"))
    with pytest.raises(UsageError, match="a, b"):
        linked(both, scaling(3), names=["c"])
