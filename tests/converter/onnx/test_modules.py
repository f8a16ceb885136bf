"""Modules of nodes, which torch's exporter writes apart from their names."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

import xdlc
from xdlc.converter.onnx.reader import LONGEST_SCOPES, SCOPES, module_of


def node(scopes: str) -> onnx.NodeProto:
    proto = helper.make_node("Relu", ["x"], ["y"], "node_relu")
    proto.metadata_props.add(key=SCOPES, value=scopes)
    return proto


@pytest.mark.parametrize(
    ("scopes", "module"),
    [
        ("['', 'features', 'features.0', 'relu']", "features/features.0"),
        ("['', 'relu']", ""),
        ("[]", ""),
        ("['', 1, 'relu']", None),
        ("'features'", None),
        ("__import__('os')", None),
        ("[" * 2000, None),
        (f"['', '{'n' * LONGEST_SCOPES}', 'relu']", None),
        ("", None),
    ],
)
def test_the_last_scope_is_the_node(scopes: str, module: str | None) -> None:
    assert module_of(node(scopes)) == module


def test_modules_are_stored_in_the_dlc(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("['', 'head', 'relu']"), helper.make_node("Tanh", ["y"], ["z"], "node_tanh")],
        "main",
        [info("x", onnx.TensorProto.FLOAT, [1, 4])],
        [info("z", onnx.TensorProto.FLOAT, [1, 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    xdlc.convert(tmp_path / "net.onnx").save(tmp_path / "net.dlc")
    assert xdlc.load(tmp_path / "net.dlc").metadata["modules"] == {"node_relu": "head"}
