"""Tests of Transposes that move before the op that cuts a tensor into parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import xdlc


@pytest.mark.parametrize(
    ("sizes", "orders"),
    [
        ((2, 3), ((0, 2, 3, 1), (0, 2, 1, 3))),
        ((2, 3), ((0, 2, 3, 1), (0, 2, 3, 1))),
        ((2, 3), ((3, 0, 2, 1), (0, 2, 3, 1))),
        ((1, 1), ((0, 2, 3, 1), (0, 2, 1, 3))),
        ((1, 4), ((0, 2, 3, 1), (0, 2, 1, 3))),
    ],
)
def test_parts_keep_their_values(tmp_path: Any, sizes: Any, orders: Any) -> None:
    count = sum(sizes)
    cut = helper.make_node("Split", ["x", "sizes"], ["a", "b"], axis=3)
    turns = [
        helper.make_node("Transpose", [name], [f"{name}_turned"], perm=list(order))
        for name, order in zip("ab", orders, strict=True)
    ]
    ends = [helper.make_node("Neg", [f"{name}_turned"], [f"{name}_out"]) for name in "ab"]
    graph = helper.make_graph(
        [cut, *turns, *ends],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6, 2, count])],
        [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None) for name in "ab"],
        [helper.make_tensor("sizes", TensorProto.INT64, [2], sizes)],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = np.arange(12 * count, dtype=np.float32).reshape(1, 6, 2, count)
    found = xdlc.run(xdlc.convert(path), {"x": x})
    parts = np.split(x, [sizes[0]], axis=3)
    for name, part, order in zip("ab", parts, orders, strict=True):
        np.testing.assert_array_equal(-found[f"{name}_out"], part.transpose(order))
