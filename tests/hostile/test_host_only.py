"""Strangers' DLCs with host ops, branches and loops: they run, or are an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import xdlc
from tests.hostile.confined import End, Server, harmless
from xdlc import ir
from xdlc.ir import Model, Op, Param
from xdlc.ir.dtype import UNDEFINED
from xdlc.runtime.host_kernels import DOMAIN


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a DLC, inputs for it, and their list."""
    folder = tmp_path_factory.mktemp("good")
    onnx.save(host_ops(), folder / "model.onnx")
    model = xdlc.convert(folder / "model.onnx", unroll_loops=0)
    model.save(folder / "model.dlc")
    words = []
    for tensor in model.main.inputs:
        path = folder / f"{tensor.name}.raw"
        np.ones(tensor.shape, np.float32).tofile(path)
        words.append(f"{tensor.name}:={path}")
    (folder / "list.txt").write_text(" ".join(words) + "\n")
    return folder


def host_ops() -> Any:
    """Return an ONNX model of operators that the host executes, a branch and a loop."""

    def value(name: str, shape: list[int] | None, type: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, type, shape)

    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Relu", ["s"], ["t"])],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [1, 4])],
        [value("d", [], TensorProto.BOOL), value("t", [1, 4])],
    )
    branches = [
        helper.make_graph([helper.make_node(type, ["x"], [type])], type, [], [value(type, [1, 4])])
        for type in ("Sin", "Cos")
    ]
    grams = {"max_gram_length": 1, "min_gram_length": 1, "max_skip_count": 0, "mode": "TF"}
    grams |= {"ngram_counts": [0], "ngram_indexes": [0, 1], "pool_int64s": [1, 2]}
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Unique", ["x"], ["distinct"], sorted=1),
        helper.make_node("RandomNormal", [], ["noise"], shape=[2, 2]),
        helper.make_node("TfIdfVectorizer", ["ids"], ["counts"], **grams),
        helper.make_node("Multinomial", ["x"], ["drawn"], sample_size=3),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["kept"]),
        helper.make_node("If", ["choice"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Loop", ["trips", "", "x"], ["z"], body=body),
    ]
    inputs = [value("x", [1, 4]), value("ids", [4], TensorProto.INT64), value("boxes", [1, 3, 4])]
    inputs += [value("scores", [1, 2, 3]), value("choice", [], TensorProto.BOOL)]
    inputs += [value("trips", [], TensorProto.INT64)]
    outputs = [onnx.ValueInfoProto(name=node.output[0]) for node in nodes]
    known = [numpy_helper.from_array(np.asarray([3]), "most")]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def run(server: Server, folder: Path, good: Path, model: Model) -> End | None:
    """Run a DLC within the limits; return the outcome, None if it is not written."""
    try:
        model.save(folder / "model.dlc")
    except xdlc.XdlcError:
        return None
    words = ["--container", folder / "model.dlc", "--input_list", good / "list.txt"]
    return harmless(server.call("xdlc-net-run", *words, "--output_dir", folder / "out"))


def test_the_good_file_is_good(server: Server, good: Path, tmp_path: Path) -> None:
    end = run(server, tmp_path, good, xdlc.load(good / "model.dlc"))
    assert end is not None
    assert not end.status, end.errors


def op_of(model: Model, type: str) -> Op:
    return next(op for graph in model.graphs.values() for op in graph.ops if op.type == type)


@pytest.mark.parametrize("type", ["No", "Loop", "PyOp", "Scan", "SequenceEmpty", "../x"])
@pytest.mark.parametrize("domain", [None, "com.microsoft", "evil", "ai.onnx.ml"])
def test_types_that_are_not_listed(
    server: Server, good: Path, tmp_path: Path, type: str, domain: str | None
) -> None:
    model = xdlc.load(good / "model.dlc")
    op = op_of(model, "NonZero")
    op.type = type
    if domain is not None:
        op.params[DOMAIN] = ir.string(domain)
    end = run(server, tmp_path, good, model)
    assert end is not None
    assert end.status


def test_types_that_steer_a_terminal(server: Server, good: Path, tmp_path: Path) -> None:
    model = xdlc.load(good / "model.dlc")
    op_of(model, "NonZero").type = "\x1b[31m\u202eNo"
    end = run(server, tmp_path, good, model)
    assert end is not None
    assert end.status
    assert not {"\x1b", "\u202e"} & set(end.errors)


@pytest.mark.parametrize("value", [ir.string("x"), ir.f32(float("nan")), ir.static("p", np.arange(3))])
@pytest.mark.parametrize("type", ["ElementWiseBinary", "ElementWiseUnary", "ElementWiseNeuron"])
def test_operations_that_are_no_numbers(
    server: Server, good: Path, tmp_path: Path, type: str, value: Param
) -> None:
    model = xdlc.load(good / "model.dlc")
    op_of(model, type).params["operation"] = value
    end = run(server, tmp_path, good, model)
    assert end is not None
    assert "operation" in end.errors


def test_outputs_of_no_type(server: Server, good: Path, tmp_path: Path) -> None:
    model = xdlc.load(good / "model.dlc")
    op_of(model, "NonZero").outputs[0].dtype = UNDEFINED
    end = run(server, tmp_path, good, model)
    assert end is not None
    assert "undefined" in end.errors
