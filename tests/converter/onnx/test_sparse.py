"""Sparse initializers and constants, which are dense in a DLC."""

from __future__ import annotations

import time

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import xdlc
from xdlc.converter.onnx.reader import DENSE_BYTES
from xdlc.errors import ModelError, UnsupportedOp, XdlcError

DENSE = np.array([[0, 2, 0], [0, 0, 0], [-3, 0, 4]], np.float32)
LINEAR, COORDINATES = [1, 6, 8], [[0, 1], [2, 0], [2, 2]]


def sparse(values, indices, dims, name="w"):
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.asarray(values, np.float32), name),
        numpy_helper.from_array(np.asarray(indices, np.int64), f"{name}_indices"),
        dims,
    )


def with_initializers(*tensors):
    nodes = [helper.make_node("Identity", ["x"], ["v0"])]
    for index, tensor in enumerate(tensors):
        nodes.append(helper.make_node("MatMul", [f"v{index}", tensor.values.name], [f"v{index + 1}"]))
    nodes.append(helper.make_node("Relu", [f"v{len(tensors)}"], ["y"]))
    return model(nodes, tensors)


def with_constant(tensor, attribute="sparse_value"):
    constant = helper.make_node("Constant", [], ["w"], name="held")
    constant.attribute.add(name=attribute, type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=tensor)
    return model([constant, helper.make_node("MatMul", ["x", "w"], ["y"])])


def model(nodes, tensors=()):
    value = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], sparse_initializer=list(tensors))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def converted(folder, source):
    (folder / "m.onnx").write_bytes(source.SerializeToString())
    xdlc.convert(folder / "m.onnx").save(folder / "m.dlc")
    return xdlc.load(folder / "m.dlc")


@pytest.mark.parametrize("indices", [LINEAR, COORDINATES])
@pytest.mark.parametrize("make", [with_initializers, with_constant])
def test_sparse_tensors_are_dense_in_a_dlc(tmp_path, make, indices):
    source = make(sparse([2, -3, 4], indices, [3, 3]))
    loaded = converted(tmp_path, source)
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    np.testing.assert_allclose(xdlc.run(loaded, {"x": x})["y"], wanted, rtol=1e-6)
    held = [tensor.numpy() for tensor in loaded.main.tensors.values() if tensor.is_static]
    assert any(np.array_equal(array, DENSE) or np.array_equal(array, DENSE.T) for array in held)


def test_sparse_tensors_may_be_empty(tmp_path):
    loaded = converted(tmp_path, with_initializers(sparse([], [], [3, 3])))
    assert not xdlc.run(loaded, {"x": np.ones((2, 3), np.float32)})["y"].any()


def test_sparse_tensors_of_a_branch(tmp_path):
    branches = [
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["r"])],
            name,
            [],
            [helper.make_tensor_value_info("r", 1, [2, 3])],
            sparse_initializer=[sparse([factor, factor, factor], LINEAR, [3, 3])],
        )
        for name, factor in (("then", 1), ("else", 2))
    ]
    source = model([helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])])
    source.graph.input.append(helper.make_tensor_value_info("c", 9, []))
    loaded = converted(tmp_path, source)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for chosen, factor in ((True, 1), (False, 2)):
        found = xdlc.run(loaded, {"x": x, "c": np.array(chosen)})["y"]
        np.testing.assert_allclose(found, factor * x @ (DENSE != 0))


@pytest.mark.parametrize(
    ("values", "indices", "dims", "reason"),
    [
        ([1, 2], [8, 1], [3, 3], "ascending"),
        ([1, 2], [1, 1], [3, 3], "ascending"),
        ([1, 2], [[2, 0], [0, 2]], [3, 3], "ascending"),
        ([1, 2], [1, 9], [3, 3], "outside the shape"),
        ([1, 2], [-1, 2], [3, 3], "outside the shape"),
        ([1, 2], [[0, 0], [0, 3]], [3, 3], "outside the shape"),
        ([1, 2], [[0, 0], [-1, 5]], [3, 3], "outside the shape"),
        ([1, 2], [0, 1, 2], [3, 3], "positions of shape [3]"),
        ([1, 2], [[0], [1]], [3, 3], "positions of shape [2, 1]"),
        ([[1, 2]], [0, 1], [3, 3], "values of shape [1, 2]"),
        ([1], [0], [3, -3], "impossible dimensions"),
        ([1], [0], [], "impossible dimensions"),
        ([1], [0], [3, 0], "impossible dimensions"),
    ],
)
@pytest.mark.parametrize("make", [with_initializers, with_constant])
def test_contradictions_are_refused(tmp_path, make, values, indices, dims, reason):
    with pytest.raises(ModelError) as caught:
        converted(tmp_path, make(sparse(values, indices, dims)))
    assert reason in caught.value.problem
    assert "'w'" in caught.value.where or "held" in caught.value.where


@pytest.mark.parametrize("dims", [[1 << 30, 3], [1 << 62, 1 << 62], [DENSE_BYTES // 4 + 1]])
def test_what_would_be_too_large_is_refused_at_once(tmp_path, dims):
    start = time.perf_counter()
    with pytest.raises(UnsupportedOp) as caught:
        converted(tmp_path, with_initializers(sparse([1], [0], dims)))
    assert f"more than {DENSE_BYTES} bytes" in caught.value.problem
    assert time.perf_counter() - start < 5


def test_many_large_ones_are_refused_at_once(tmp_path):
    start = time.perf_counter()
    tensors = [sparse([1], [0], [DENSE_BYTES // 16, 3], f"w{index}") for index in range(64)]
    with pytest.raises(XdlcError) as caught:
        converted(tmp_path, with_initializers(*tensors))
    assert "sparse tensors of the model" in str(caught.value)
    assert time.perf_counter() - start < 5
