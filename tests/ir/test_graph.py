"""The verbs of a graph keep producers and use lists true."""

import copy
import pickle

import numpy as np
import pytest

from tests.support.differences import differences
from xdlc.diff import diff
from xdlc.errors import ModelError
from xdlc.ir import (
    ArrayData,
    Dequantized,
    Graph,
    MappedData,
    MappedFile,
    Model,
    Op,
    Origin,
    Role,
    ScaleOffset,
    Tensor,
    f32,
    make_op,
    static,
)
from xdlc.ir.dtype import FLOAT32, UFIXED8
from xdlc.ir.graph import is_udo


def tensor(name):
    return Tensor(name, (2,), FLOAT32)


def chain(*types):
    """x -> t0 -> t1 ... ; the last tensor is the output."""
    graph = Graph("g")
    value = graph.add_input(tensor("x"))
    for index, type_name in enumerate(types):
        op = make_op(graph, type_name, [value], [tensor(f"t{index}")], name=f"op{index}")
        value = graph.append(op).outputs[0]
    graph.add_output(value)
    return graph


def check(graph):
    """Producers, uses, names and counts agree with the list of ops."""
    ops = list(graph.ops)
    assert len(graph) == len(ops)
    uses = {}
    for op in ops:
        assert op.graph is graph
        for source in op.inputs:
            if source is not None:
                uses.setdefault(source, set()).add(op)
        for output in op.outputs:
            assert output.producer is op
            assert graph.tensors[output.name] is output
    for name, held in graph.tensors.items():
        assert held.name == name
        assert set(graph.consumers(held)) == uses.get(held, set())
        assert held.producer is None or held.producer in ops
    graph.verify()


def names(graph):
    return [op.name for op in graph.ops]


def test_replace_moves_every_reader_and_leaves_the_old_tensor():
    graph = chain("Relu", "Tanh")
    x, t0 = graph.tensors["x"], graph.tensors["t0"]
    graph.append(make_op(graph, "ElementWiseAdd", [t0, t0], [tensor("sum")]))
    graph.replace(t0, x)
    check(graph)
    assert [op.type for op in graph.consumers(x)] == ["Relu", "Tanh", "ElementWiseAdd"]
    assert graph.consumers(t0) == ()
    graph.replace(x, x)
    check(graph)
    with pytest.raises(ModelError, match="graph output"):
        graph.replace(graph.tensors["t1"], x)


def test_remove_refuses_while_the_result_is_read():
    graph = chain("Relu", "Tanh")
    first, last = graph.ops
    for op in (first, last):
        with pytest.raises(ModelError, match="another op reads"):
            graph.remove(op)
    graph.replace(graph.tensors["t0"], graph.tensors["x"])
    graph.remove(first)
    check(graph)
    assert names(graph) == ["op1"]
    assert "t0" not in graph.tensors
    graph.append(make_op(graph, "Relu", [graph.tensors["x"]], [tensor("t0")], name="op0"))
    check(graph)


def test_inserting_keeps_the_order():
    graph = chain("Relu", "Tanh")
    first, last = graph.ops
    x, t0 = graph.tensors["x"], graph.tensors["t0"]
    graph.insert_before(first, make_op(graph, "Relu", [x], [tensor("a")], name="a_op"))
    graph.insert_before(last, make_op(graph, "Relu", [t0], [tensor("b")], name="b_op"))
    graph.insert_after(last, make_op(graph, "Relu", [t0], [tensor("c")], name="c_op"))
    check(graph)
    assert names(graph) == ["a_op", "op0", "b_op", "op1", "c_op"]


def test_iteration_survives_removal_of_the_current_op():
    graph = chain("Relu", "Tanh", "Sigmoid")
    for op in graph.ops:
        if op.type == "Tanh":
            graph.replace(op.outputs[0], op.inputs[0])
            graph.remove(op)
    check(graph)
    assert names(graph) == ["op0", "op2"]


def test_replace_op_takes_over_outputs():
    graph = chain("Relu", "Tanh", "Sigmoid")
    _, middle, last = graph.ops
    new = Op("Gelu", middle.inputs, middle.outputs, name="gelu")
    graph.replace_op(middle, new)
    check(graph)
    graph.replace_op(last, Op("Elu", last.inputs, last.outputs, name="elu"))
    check(graph)
    assert [op.type for op in graph.ops] == ["Relu", "Gelu", "Elu"]


def test_set_output_frees_the_old_tensor():
    graph = chain("Relu", "Tanh")
    last = list(graph.ops)[-1]
    graph.set_output(last, 0, tensor("raw"))
    graph.append(make_op(graph, "Relu", [graph.tensors["raw"]], [graph.tensors["t1"]], name="post"))
    check(graph)
    assert graph.outputs[0].producer.name == "post"
    first = graph.ops[0]
    with pytest.raises(ModelError, match="already has a source"):
        graph.set_output(first, 0, graph.tensors["raw"])
    with pytest.raises(ModelError, match="already has a source"):
        graph.set_output(first, 0, graph.tensors["x"])


def test_a_refused_op_leaves_the_graph_as_it_was():
    graph = chain("Relu", "Tanh")
    x = graph.tensors["x"]
    before = sorted(graph.tensors)
    with pytest.raises(ModelError, match="already has a source"):
        graph.append(Op("Relu", [x], [tensor("n"), graph.tensors["t0"]], name="n"))
    with pytest.raises(ModelError, match="two ops are named"):
        graph.append(Op("Relu", [x], [tensor("n")], name="op0"))
    with pytest.raises(ModelError, match="already has a source"):
        graph.append(Op("Relu", [x], [x], name="n"))
    assert sorted(graph.tensors) == before
    check(graph)


def test_an_op_whose_tensor_name_is_taken_leaves_the_graph_as_it_was():
    graph = chain("Relu", "Tanh")
    x = graph.tensors["x"]
    with pytest.raises(ModelError, match="two tensors are named 't0'"):
        graph.append(Op("Relu", [x], [tensor("t0")], name="n"))
    with pytest.raises(ModelError, match="two tensors are named 't0'"):
        graph.append(Op("Relu", [tensor("t0")], [tensor("n")], name="n"))
    check(graph)


def test_rename():
    graph = chain("Relu", "Tanh")
    graph.rename(graph.tensors["t0"], "hidden")
    check(graph)
    assert "t0" not in graph.tensors
    with pytest.raises(ModelError, match="'x'"):
        graph.rename(graph.tensors["hidden"], "x")


def test_prune_removes_what_nobody_reads():
    graph = chain("Relu", "Tanh")
    t0 = graph.tensors["t0"]
    dead = graph.append(make_op(graph, "Elu", [t0], [tensor("dead")])).outputs[0]
    weight = graph.add_tensor(static("w", np.ones(2, np.float32)))
    graph.append(make_op(graph, "ElementWiseAdd", [dead, weight], [tensor("deader")]))
    graph.add_tensor(static("unused", np.ones(2, np.float32)))
    assert graph.prune()
    check(graph)
    assert names(graph) == ["op0", "op1"]
    assert sorted(graph.tensors) == ["t0", "t1", "x"]
    assert not graph.prune()


def test_clone_is_independent_but_shares_data():
    graph = chain("Relu")
    weight = graph.add_tensor(static("w", np.ones(2, np.float32)))
    op = make_op(
        graph,
        "Op",
        [None, weight],
        [tensor("y")],
        {"alpha": f32(0.5), "table": static("", np.arange(3))},
        package="p",
        origin=Origin(("n",), "why"),
    )
    graph.append(op)
    model = Model({"g": graph}, {"history": [{"tool": "t"}]})
    twin = model.clone()
    assert differences(model, twin) == []
    check(twin.main)
    assert twin.main.tensors["w"].data is weight.data
    twin.main.rename(twin.main.tensors["y"], "z")
    twin.metadata["history"][0]["tool"] = "other"
    list(twin.main.ops)[-1].params["alpha"] = f32(1)
    assert sorted(graph.tensors) == ["t0", "w", "x", "y"]
    kinds = [row[3] for row in diff(model, twin).rows()]
    assert kinds == ["kind", "params", "tensor-names", "history"]


def test_verify_finds_use_before_production_and_cycles():
    graph = Graph("g")
    a, b = tensor("a"), tensor("b")
    graph.append(Op("Relu", [b], [a], name="one"))
    graph.append(Op("Relu", [a], [b], name="two"))
    with pytest.raises(ModelError, match="'one' reads 'b', but no earlier op writes") as caught:
        graph.verify()
    assert "cycle" in caught.value.fix


def test_verify_finds_tensors_without_a_source():
    graph = Graph("g")
    graph.append(Op("Relu", [tensor("ghost")], [tensor("y")], name="one"))
    with pytest.raises(ModelError, match="no op produces it"):
        graph.verify()
    graph.tensors["ghost"].role = Role.NULL
    graph.verify()


def test_sole_consumer_counts_the_caller():
    graph = chain("Relu", "Tanh")
    assert graph.sole_consumer(graph.tensors["t0"]).name == "op1"
    assert graph.sole_consumer(graph.tensors["t1"]) is None
    graph.append(make_op(graph, "Relu", [graph.tensors["t0"]], [tensor("other")]))
    assert graph.sole_consumer(graph.tensors["t0"]) is None


def test_unique_names_and_parameter_names():
    graph = chain("Relu")
    assert graph.unique_name("x") == "x_1"
    assert graph.unique_name("op0") == "op0_1"
    op = make_op(graph, "Transpose", [], [], {"perm": static("", np.arange(2))}, name="x")
    assert op.name != "x"
    assert op.params["perm"].name == f"{op.name}_perm"
    assert op.param("perm").tolist() == [0, 1]
    assert op.param("none", 3) == 3


def test_what_is_retracted_leaves_its_names_free():
    graph = chain("Relu")
    constant = Tensor("c", (2,), FLOAT32, data=ArrayData(np.zeros(2, np.float32)), role=Role.STATIC)
    graph.unique_name("op0")
    mark, ops = graph.mark(), len(graph)
    for _ in range(3):
        value = tensor(graph.unique_name("t0"))
        graph.append(make_op(graph, "Add", [graph.tensors["x"], constant], [value], name="op0"))
    assert graph.unique_name("op0") == "op0_5"
    graph.retract(mark)
    assert len(graph) == ops
    assert set(graph.tensors) == {"x", "t0"}
    assert graph.unique_name("op0") == "op0_2"
    check(graph)


def test_an_op_is_renamed_with_its_parameters():
    graph = chain("Relu", "Relu")
    op = make_op(graph, "Transpose", [graph.tensors["t0"]], [tensor("v")], {"perm": static("", np.arange(1))})
    graph.append(op)
    graph.rename_op(op, "other")
    assert op.params["perm"].name == "other_perm"
    assert graph.unique_name("Transpose") == "Transpose"
    with pytest.raises(ModelError, match="two ops would be named 'op0'"):
        graph.rename_op(op, "op0")


def test_models_refuse_two_graphs_of_one_name_and_miss_a_main_graph():
    model = Model()
    with pytest.raises(ModelError, match="no graph"):
        _ = model.main
    graph = model.add_graph(chain("Relu"))
    assert model.add_graph(graph) is model.main
    with pytest.raises(ModelError, match="two graphs"):
        model.add_graph(Graph("g"))


@pytest.mark.parametrize(
    ("package", "custom"), [("qti.aisw", False), ("xdlc", False), ("snpe", False), ("Mine", True)]
)
def test_an_op_of_another_package_is_a_users(package, custom):
    assert is_udo(Op("Relu", [], [], name="a", package=package)) is custom


def test_ops_are_a_sequence_that_follows_the_graph():
    graph = chain("Relu", "Tanh", "Elu", "Sin")
    ops = graph.ops
    assert [len(ops), *(op.name for op in ops)] == [4, "op0", "op1", "op2", "op3"]
    assert [ops[index].name for index in (0, 1, 3, -1, -4)] == ["op0", "op1", "op3", "op3", "op0"]
    assert [op.name for op in ops[1:3]] == ["op1", "op2"]
    assert [op.name for op in reversed(ops)] == ["op3", "op2", "op1", "op0"]
    assert ops[2] in ops
    assert ops.index(ops[2]) == 2
    for index in (4, -5):
        with pytest.raises(IndexError):
            ops[index]
    first = ops[0]
    for op in ops:
        graph.unlink(op)
    assert not ops
    assert first not in ops


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_models_are_pickled_and_copied(copied, tmp_path):
    graph = chain(*["Relu"] * 1500)  # deeper than recursion may go
    path = tmp_path / "data"
    path.write_bytes(np.arange(2, dtype=np.float32).tobytes())
    mapped = MappedData(MappedFile(path), 0, (2,), np.float32)
    stored = Dequantized(ArrayData(np.array([1, 2], np.uint8)), UFIXED8, ScaleOffset(0.5, 0))
    op = graph.ops[0]
    for name, data in (("w", mapped), ("v", mapped.transform(lambda array: array * 2)), ("u", stored)):
        graph.set_inputs(op, [*op.inputs, Tensor(name, (2,), FLOAT32, data=data, role=Role.STATIC)])
    op.params["p"] = static("op0_p", np.arange(3))
    op.params["q"] = f32(2)
    model = Model({"g": graph}, {"history": [1]}, {"record": mapped})
    twin = copied(model)
    assert not differences(model, twin)
    assert twin.main is not graph
    assert twin.main.ops[0].outputs[0].dtype is FLOAT32
    assert isinstance(twin.main.tensors["u"].data, Dequantized)
    np.testing.assert_array_equal(twin.main.tensors["v"].numpy(), [0, 2])
    check(twin.main)
