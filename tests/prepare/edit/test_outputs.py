from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.control_flow_models import if_model
from tests.support.htp_models import cnn
from xdlc.errors import ProblemList, StorageError, UsageError
from xdlc.ir import Graph, Model, Tensor, make_op, raw_data, u32
from xdlc.ir import dtype as dt
from xdlc.prepare.edit import edit
from xdlc.runtime.cpu import CpuSession


def ports(model: Model, graph: str | None = None) -> tuple[list[str], list[str], list[str]]:
    held = model.graphs[graph] if graph else model.main
    held.verify()
    return [t.name for t in held.inputs], [t.name for t in held.outputs], [op.name for op in held.ops]


def two_graphs() -> Model:
    """Return graphs ``one`` and ``two`` whose tensors have the same names."""
    model = Model()
    for name in ("one", "two"):
        graph = model.add_graph(Graph(name))
        a, b = (graph.add_input(Tensor(key, (2,), dt.FLOAT32)) for key in "ab")
        c, d = (Tensor(f"{key}_{name}", (2,), dt.FLOAT32) for key in "cd")
        graph.append(make_op(graph, "ElementWiseNeuron", [a], [c], {"operation": u32(4)}, name="relu"))
        graph.append(make_op(graph, "ElementWiseBinary", [c, b], [d], {"operation": u32(0)}, name="add"))
        graph.add_output(d)
    return model


@pytest.mark.parametrize(
    ("options", "outputs"),
    [
        ({"set_output_tensors": ["relu", "pool"]}, ["relu", "pool"]),
        ({"set_output_tensors": "pool,relu"}, ["pool", "relu"]),
        ({"set_output_tensors": ["cnn pool,relu"]}, ["pool", "relu"]),
        ({"set_output_tensors": {"cnn": ["pool"]}}, ["pool"]),
        ({"set_output_layers": ["poolmax2d_pool", "conv2d_conv"]}, ["pool", "conv"]),
        ({"set_output_layers": ["poolmax2d_pool"], "set_output_tensors": ["y", "pool"]}, ["pool", "y"]),
    ],
)
def test_named_tensors_take_the_place_of_the_outputs(options: dict[str, Any], outputs: list[str]) -> None:
    model = cnn(quantized=True)
    edited = edit(model, **options)
    assert ports(edited)[:2] == (["x"], outputs)
    assert ports(model)[1] == ["y"]
    for tensor in edited.main.outputs:
        assert tensor.encoding == model.main.tensors[tensor.name].encoding
        assert tensor.encoding is not None


def test_what_no_output_needs_goes_and_the_values_stay() -> None:
    model = cnn(quantized=True)
    edited = edit(model, set_output_tensors=["pool"])
    assert ports(edited)[2] == ["conv2d_conv", "elementwiseneuron_relu", "poolmax2d_pool"]
    assert not {"v", "c", "flat", "y"} & set(edited.main.tensors)
    feeds = {"x": np.random.default_rng(1).uniform(-1, 1, (1, 8, 8, 4)).astype("float32")}
    np.testing.assert_array_equal(
        CpuSession(edited).run(feeds)["pool"], CpuSession(model, outputs=["pool"]).run(feeds)["pool"]
    )


def test_an_input_that_is_needed_no_more_goes_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="graph 'one': .* input 'b', because no output needs it"):
        edited = edit(two_graphs(), set_output_tensors=["c_one"])
    assert ports(edited, "one") == (["a"], ["c_one"], ["relu"])
    assert ports(edited, "two")[:2] == (["a", "b"], ["d_two"])


def test_names_of_another_graph() -> None:
    edited = edit(two_graphs(), set_output_tensors=["d_one c_one", "two d_two,c_two"])
    assert ports(edited, "one")[1] == ["d_one", "c_one"]
    assert ports(edited, "two")[1] == ["d_two", "c_two"]
    with pytest.raises(UsageError, match=r"graph 'two' has this name: .*'two c_two'"):
        edit(two_graphs(), set_output_tensors=["c_two"])
    with pytest.raises(UsageError, match=r"has no graph 'tow'\n.*nearest: two"):
        edit(two_graphs(), set_output_tensors={"tow": ["c_two"]})


def test_a_name_may_hold_blanks_and_commas() -> None:
    model = two_graphs()
    model.main.rename(model.main.tensors["c_one"], "c, one")
    assert ports(edit(model, set_output_tensors=["c, one", "d_one"]))[1] == ["c, one", "d_one"]


def test_an_input_list_names_ops_and_tensors(tmp_path: Path) -> None:
    listing = tmp_path / "list.txt"
    listing.write_text("#poolmax2d_pool\n%relu y\nno/such/file.raw\n")
    assert ports(edit(cnn(quantized=False), input_list=listing))[1] == ["pool", "relu", "y"]
    listing.write_text("no/such/file.raw\n")
    with pytest.warns(UserWarning, match=r"list\.txt has no line with ops \(#\) or tensors \(%\)"):
        assert ports(edit(cnn(quantized=False), input_list=listing))[1] == ["y"]
    with pytest.raises(StorageError, match="cannot be read"):
        edit(cnn(quantized=False), input_list=tmp_path / "none.txt")


def test_all_wrong_names_are_reported_at_once() -> None:
    with pytest.raises(ProblemList) as caught:
        edit(cnn(quantized=False), set_output_tensors=["pol", "x", "w"], set_output_layers=["conv2d"])
    said = str(caught.value)
    assert caught.value.exit_code == UsageError.exit_code
    for words in (
        "has no tensor 'pol'\n  fix: nearest: pool",
        "'x' cannot be an output: it is an input",
        "'w' cannot be an output: it is a constant",
        "has no op 'conv2d'\n  fix: nearest: conv2d_conv",
    ):
        assert words in said


def test_graphs_that_an_op_runs_keep_their_outputs() -> None:
    model = if_model()
    inner = next(name for name in model.graphs if name != model.main.name)
    tensor = model.graphs[inner].outputs[0].name
    with pytest.raises(UsageError, match=r"its outputs are the outputs of op"):
        edit(model, set_output_tensors={inner: [tensor]})


def test_sections_of_the_network_before_are_dropped() -> None:
    model = cnn(quantized=True)
    model.records = {
        "xdlc.aip.metadata0": raw_data(b"section"),
        "xdlc.aip.facts": raw_data(b"{}"),
        "other": raw_data(b"kept"),
    }
    assert set(edit(model, set_output_tensors=["y"]).records) == set(model.records)
    with pytest.warns(UserWarning, match=r"dropped.*xdlc\.aip\.metadata0"):
        edited = edit(model, set_output_tensors=["pool"])
    assert set(edited.records) == {"other"}
    assert set(model.records) == {"xdlc.aip.metadata0", "xdlc.aip.facts", "other"}


def test_the_history_tells_what_was_changed(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("%relu\n")
    options = {"set_output_tensors": {"cnn": ["pool", "y"]}, "buffer_data_type": "x=float32"}
    edited = edit(cnn(quantized=True), input_list=tmp_path / "list.txt", **options)
    (step,) = edited.metadata["history"]
    assert step["tool"] == "xdlc-graph-prepare"
    assert step["args"] == {"set_output_tensors": "cnn pool,y;relu", "buffer_data_type": "x=float32"}
