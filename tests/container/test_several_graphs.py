"""Names and weights of several graphs in a file."""

import numpy as np
import pytest

from tests.container.test_storage import both_versions, check_round_trip, one_op
from xdlc.container import describe, load, save
from xdlc.container.flatbuffer import decode
from xdlc.container.write4 import make_entries
from xdlc.errors import ContainerError
from xdlc.ir import ArrayData, BlockScaleOffset, Model, Role, Tensor, static
from xdlc.ir.data import Transform
from xdlc.ir.dtype import FLOAT32, SFIXED8
from xdlc.schema._generated import dlc4_model


def several_graphs(*names: str) -> Model:
    model = Model()
    for count, name in enumerate(names, 1):
        graph = one_op(weight=static("w", np.full(count, count, np.float32))).main
        graph.name = name
        model.add_graph(graph)
    return model


def stored_bytes(path) -> int:
    (data,) = (entry for entry in describe(path).entries if entry.name == "model.params.bin")
    return data.size


@both_versions
def test_graphs_stand_by_name_but_keep_their_order(tmp_path, version):
    found = check_round_trip(several_graphs("main", "else", "then", "é", "a"), tmp_path, version)
    assert list(found.graphs) == ["main", "else", "then", "é", "a"]
    path = tmp_path / "m.dlc"
    entry = next(entry for entry in describe(path).entries if entry.name == "model")
    content = path.read_bytes()[entry.offset + 8 : entry.offset + entry.size]
    written = decode(content, dlc4_model.Model, "here").graphs
    assert [graph.name for graph in written] == ["a", "else", "main", "then", "é"]


def test_equal_weights_of_several_graphs_are_stored_once(tmp_path):
    model = Model()
    for name, first in (("a", 0), ("b", 0), ("c", 1)):
        graph = one_op(weight=static("w", np.arange(first, first + 100, dtype=np.float32))).main
        graph.name = name
        model.add_graph(graph)
    check_round_trip(model, tmp_path)
    assert stored_bytes(tmp_path / "m.dlc") == 2 * 400
    load(tmp_path / "m.dlc").save(tmp_path / "again.dlc")
    assert (tmp_path / "again.dlc").read_bytes() == (tmp_path / "m.dlc").read_bytes()
    check_round_trip(model, tmp_path, "4.0")


def test_data_of_a_size_that_one_graph_has_is_not_read(tmp_path):
    def refuse(_array):
        raise AssertionError

    model = several_graphs("a", "b")
    lazy = Transform([ArrayData(np.zeros(9, np.float32))], refuse, (9,), np.float32)
    model.graphs["b"].add_tensor(Tensor("lazy", (9,), FLOAT32, None, lazy, Role.STATIC))
    assert make_entries(model).data[-2:]


def test_equal_scales_of_blocks_are_stored_once(tmp_path):
    model, sizes = Model(), []
    for name in "ab":
        encoding = BlockScaleOffset((1, 1, 16, 1), (0.5, 1.0, 2.0, 4.0), bits=4)
        graph = one_op(weight=static("w", np.ones((1, 1, 32, 2), np.int8), SFIXED8, encoding)).main
        graph.name = name
        model.add_graph(graph)
        sizes.append(len(make_entries(model).encodings))
    assert sizes[0] == sizes[1] > 0
    check_round_trip(model, tmp_path)


def test_graphs_without_a_record_of_their_order_stand_by_name(tmp_path):
    save(several_graphs("m", "n", "l"), tmp_path / "m.dlc")
    content = (tmp_path / "m.dlc").read_bytes().replace(b"xdlc.io", b"xdlc.no")
    (tmp_path / "m.dlc").write_bytes(content)
    assert list(load(tmp_path / "m.dlc").graphs) == ["l", "m", "n"]


@pytest.mark.parametrize("place", ["graph", "tensor", "op"])
def test_names_that_are_not_unicode_are_refused(tmp_path, place):
    model = one_op()
    name = "a\ud800"
    if place == "graph":
        model.main.name = name
    elif place == "tensor":
        model.main.rename(model.main.outputs[0], name)
    else:
        model.main.rename_op(model.main.ops[0], name)
    with pytest.raises(ContainerError):
        save(model, tmp_path / "m.dlc")
