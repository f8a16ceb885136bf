"""The vendor's reader sees ops of users' packages as we mean them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import xdlc
from tests.support.custom_ops import converted, custom, my_node, onnx_model, param, place
from tests.support.vendor_compare import differences
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, STRING, UINT32

pytestmark = pytest.mark.vendor
F32 = np.float32
JOIN = custom(
    "Join",
    [
        place("a", layout="NHWC"),
        place("b", mandatory=False),
        place("w", mandatory=False, is_static=True),
        place("rest", mandatory=False, repeated=True),
    ],
    [place("y"), place("parts", mandatory=False, repeated=True)],
    param("mode", UINT32, enumeration=("SUM", "MEAN")),
    param("grid", FLOAT32, rank=2),
    param("label", STRING),
    param("flag", BOOL8, default="1"),
    param("axis", INT32),
)


def test_package_operands_and_parameters(tmp_path: Path, vendor_check: Any) -> None:
    grid = numpy_helper.from_array(np.arange(4, dtype=F32).reshape(2, 2))
    node = my_node(
        "Join", ["x", "", "w", "x", "z"], ["y", "p"], mode="MEAN", grid=grid, label="text", axis=-1
    )
    source = onnx_model(
        [node],
        {"x": (F32, [1, 2, 3, 4]), "z": (F32, [3])},
        {"y": (F32, [1, 5]), "p": (F32, [2])},
        {"w": np.arange(6, dtype=F32)},
    )
    converted(tmp_path, source, JOIN).save(tmp_path / "m.dlc")
    answer = vendor_check("read", tmp_path / "m.dlc")
    assert answer["ok"], answer["reason"]
    (graph,) = answer["graphs"]
    assert differences(xdlc.load(tmp_path / "m.dlc").main, graph) == []
    (op,) = [op for op in graph["ops"] if op["package"] == "Pkg"]
    assert op["type"] == "Join"
    assert len(op["inputs"]) == 5
    assert {param["name"] for param in op["params"]} == {"mode", "grid", "label", "flag", "axis"}
