"""Hostile TensorFlow files: refused or converted, with bounded resources."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.tensorflow.tf_checkpoints import (
    MAGIC,
    Checkpoint,
    block,
    save,
    saved_model,
    stored,
)
from tests.converter.tensorflow.tf_models import FLOAT, Function, Graph, Shape, add_node
from tests.hostile.confined import End, Server, harmless
from tests.support.protobuf import varint
from xdlc.converter.tensorflow.messages import message

W = np.full((2, 3), 0.5, np.float32)
BIG = (1 << 63) - 1


def convert(server: Server, path: Path, *words: object) -> End:
    return harmless(server.call("xconv-tensorflow-to-dlc", "-i", path, "-o", path.parent / "a.dlc", *words))


def plain() -> Graph:
    return Graph().input("x", 2, 3).const("w", W).node("AddV2", "sum", ["x", "w"], T=FLOAT)


def functional() -> Graph:
    """A graph whose function gets an input and a variable."""
    graph = Graph().input("in", 2, 3).node("VarHandleOp", "w", dtype=FLOAT, shape=Shape((2, 3)))
    nodes = [
        ("ReadVariableOp", "read", ["w"], {"dtype": FLOAT}),
        ("AddV2", "add", ["x", "read:value:0"], {"T": FLOAT}),
    ]
    graph.function("body", ["x", "w"], {"out": "add:z:0"}, nodes)
    return graph.node("StatefulPartitionedCall", "call", ["in", "w"], f=Function("body"), Tout=[FLOAT])


def folder_of(folder: Path, checkpoint: Checkpoint | None = None) -> Path:
    given = checkpoint or Checkpoint().add("key", W).add_objects({1: "key"})
    return save(saved_model(functional(), {"x": "in:0"}, {"y": "call:0"}, bound={"body": [1]}), folder, given)


# ------------------------------------------------------------------ damage


@pytest.mark.parametrize("part", range(12))
def test_truncated_graphs(server: Server, tmp_path: Path, part: int) -> None:
    whole = functional().const("more", np.ones(700, np.float32)).proto.SerializeToString()
    path = tmp_path / "model.pb"
    path.write_bytes(whole[: len(whole) * (part + 1) // 13])
    assert convert(server, path).status


@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("name", ["saved_model.pb", "variables.index", "variables.data-00000-of-00001"])
def test_truncated_saved_models(server: Server, tmp_path: Path, name: str, part: int) -> None:
    folder_of(tmp_path)
    (file,) = tmp_path.rglob(name)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * part // 6])
    assert convert(server, tmp_path).status


# ------------------------------------------------------------------ graphs


def body(*nodes: tuple[str, str, list[str], dict[str, Any]], returned: str, arguments: int = 1) -> Graph:
    """A graph that calls a function of some nodes."""
    names = [f"a{index}" for index in range(arguments)]
    graph = plain().function("f", names, {"r": returned}, nodes)
    return graph.node("PartitionedCall", "y", ["sum"], f=Function("f"), Tout=[FLOAT])


def call(name: str, function: str, value: str = "a0") -> tuple[str, str, list[str], dict[str, Any]]:
    return "PartitionedCall", name, [value], {"f": Function(function), "Tout": [FLOAT]}


def doubling(levels: int) -> Graph:
    """Functions of which each calls the one before twice."""
    graph = plain().function("f0", ["a0"], {"r": "n:y:0"}, [("Relu", "n", ["a0"], {})])
    for level in range(1, levels):
        nodes = [call("one", f"f{level - 1}"), call("two", f"f{level - 1}", "one:output:0")]
        graph.function(f"f{level}", ["a0"], {"r": "two:output:0"}, nodes)
    return graph.node("PartitionedCall", "y", ["sum"], f=Function(f"f{levels - 1}"), Tout=[FLOAT])


def inside_each_other(levels: int) -> Graph:
    graph = plain().function("f0", ["a0"], {"r": "n:y:0"}, [("Relu", "n", ["a0"], {})])
    for level in range(1, levels):
        graph.function(f"f{level}", ["a0"], {"r": "c:output:0"}, [call("c", f"f{level - 1}")])
    return graph.node("PartitionedCall", "y", ["sum"], f=Function(f"f{levels - 1}"), Tout=[FLOAT])


def branching(levels: int) -> Graph:
    """Functions whose If has the one before as both branches."""
    graph = plain().function("f0", ["a0"], {"r": "n:y:0"}, [("Relu", "n", ["a0"], {})])
    for level in range(1, levels):
        branch = Function(f"f{level - 1}")
        node = ("StatelessIf", "c", ["a0", "a0"], {"then_branch": branch, "else_branch": branch})
        graph.function(f"f{level}", ["a0"], {"r": "c:output:0"}, [node])
    return graph.node("PartitionedCall", "y", ["sum"], f=Function(f"f{levels - 1}"), Tout=[FLOAT])


def tensor(**changes: Any) -> Graph:
    """A graph with a constant that is changed."""
    graph = plain()
    proto = next(entry for entry in graph.proto.node[1].attr if entry.key == b"value").value.tensor
    for name, value in changes.items():
        if name == "sizes":
            proto.ClearField("tensor_shape")
            for size in value:
                proto.tensor_shape.dim.add(size=size)
        elif isinstance(value, list):
            getattr(proto, name)[:] = value
        else:
            setattr(proto, name, value)
    return graph


def chain(count: int) -> Graph:
    """Calls one after the other of a function that returns its argument."""
    graph = plain().function("f", ["a0"], {"r": "a0"}, [])
    for index in range(count):
        before = f"c{index - 1}" if index else "sum"
        add_node(graph.proto.node, "PartitionedCall", f"c{index}", [before], f=Function("f"), Tout=[FLOAT])
    return graph.node("Unknown", "y", [f"c{count - 1}"])


def crossing() -> Graph:
    """Two calls each of which returns the other's result."""
    graph = plain().function("f", ["a0"], {"r": "a0"}, [])
    return (
        graph.node("PartitionedCall", "p", ["q"], f=Function("f"), Tout=[FLOAT])
        .node("PartitionedCall", "q", ["p"], f=Function("f"), Tout=[FLOAT])
        .node("AddV2", "y", ["p", "sum"])
    )


def looping(
    *, ends: bool = True, conditions: int = 1, frames: tuple[str, str] = ("f", "f"), cut: str = ""
) -> Graph:
    """A loop of TensorFlow 1, with parts that are missing or do not fit each other."""
    graph = plain().const("zero", np.int32(0)).const("one", np.int32(1)).const("many", np.int32(1 << 30))
    for index, value in enumerate(("zero", "sum")):
        graph.node("Enter", f"e{index}", [value], frame_name=frames[index])
        graph.node("Merge", f"m{index}", [f"e{index}", f"n{index}"], N=2)
        graph.node("Switch", f"s{index}", [f"m{index}", f"c{index % max(conditions, 1)}"])
        graph.node("NextIteration", f"n{index}", [f"b{index}"])
        if ends:
            graph.node("Exit", f"x{index}", [f"s{index}"])
    graph.node("AddV2", "b0", ["s0:1", "one"]).node("Tanh", "b1", ["s1:1"]).node(
        "Less", "less", ["m0", "many"]
    )
    for index in range(conditions):
        graph.node("LoopCond", f"c{index}", ["less"])
    for node in graph.proto.node:
        if node.name.decode() == cut:
            del node.input[-1]
    return graph.node("Relu", "y", ["x1" if ends else "m1"])


def frames(levels: int) -> Graph:
    graph, value = plain(), "sum"
    for level in range(levels):
        graph.node("Enter", f"e{level}", [value], frame_name=f"f{level}")
        value = f"e{level}"
    return graph.node("Relu", "y", [value])


def switches(count: int) -> Graph:
    """Switches and Merges in a row, each pair of which doubles the ways through."""
    graph, value = plain().input("p", dtype="bool"), "sum"
    for index in range(count):
        graph.node("Switch", f"s{index}", [value, "p"]).node("Relu", f"t{index}", [f"s{index}:1"])
        graph.node("Merge", f"m{index}", [f"s{index}", f"t{index}"], N=2)
        value = f"m{index}"
    return graph.node("Relu", "y", [value])


GRAPHS: dict[str, Callable[[], Graph]] = {
    "no nodes": Graph,
    "an input alone": lambda: Graph().input("x", 2),
    "a cycle": lambda: (
        plain().node("Relu", "a", ["b"]).node("AddV2", "b", ["a", "sum"]).node("Relu", "y", ["b"])
    ),
    "a node that reads itself": lambda: plain().node("AddV2", "a", ["a", "sum"]).node("Relu", "y", ["a"]),
    "a name that nothing has": lambda: plain().node("Relu", "y", ["nothing"]),
    "an output that the node lacks": lambda: plain().node("AddV2", "y", ["sum", "sum:7"]),
    "an output of a large number": lambda: plain().node("AddV2", "y", ["sum", "sum:999999999"]),
    "an output of an absurd number": lambda: plain().node("AddV2", "y", ["sum", "sum:99999999999999999999"]),
    "one name twice": lambda: plain().node("Relu", "sum", ["x"]),
    "an empty name": lambda: plain().node("Relu", "", ["sum"]).node("Relu", "y", [""]),
    "too many inputs": lambda: plain().node("Relu", "y", ["sum", "x", "w"] * 100),
    "a step without operands": lambda: plain().node(
        "_FusedMatMul", "y", ["x", "sum"], fused_ops=[b"FusedBatchNorm"], num_args=0, transpose_b=True
    ),
    "no inputs": lambda: plain().node("AddV2", "y", ["sum"]),
    "many parts": lambda: plain().const("i", np.int32(0)).node("Split", "y", ["i", "sum"], num_split=BIG),
    "fewer parts than none": lambda: (
        plain().const("i", np.int32(0)).node("Split", "y", ["i", "sum"], num_split=-5)
    ),
    "a function that calls itself": lambda: body(call("c", "f"), returned="c:output:0"),
    "a function without a body": lambda: body(returned="n:y:0"),
    "a function that is missing": lambda: body(call("c", "g"), returned="c:output:0"),
    "a function of more arguments": lambda: body(("Relu", "n", ["a0"], {}), returned="n:y:0", arguments=3),
    "a function that reads nothing": lambda: body(("Relu", "n", ["zz"], {}), returned="n:y:0"),
    "a function that returns nothing": lambda: body(("Relu", "n", ["a0"], {}), returned="zz:y:0"),
    "a body that reads itself": lambda: body(
        ("AddV2", "n", ["m:z:0", "a0"], {}), ("Relu", "m", ["n:z:0"], {}), returned="n:z:0"
    ),
    "an unknown output in a body": lambda: body(
        ("TopKV2", "n", ["a0", "a0"], {}), ("Relu", "m", ["n:third:0"], {}), returned="m:y:0"
    ),
    "an absurd output in a body": lambda: body(
        ("Unpack", "n", ["a0"], {"num": 2}), ("Relu", "m", ["n:output:4000000"], {}), returned="m:y:0"
    ),
    "functions that double": lambda: doubling(40),
    "functions deep inside each other": lambda: inside_each_other(3000),
    "branches that double": lambda: branching(50),
    "calls in a circle": crossing,
    "many calls": lambda: chain(4000),
    "a constant without a value": lambda: (
        Graph().input("x", 2).node("Const", "w").node("AddV2", "y", ["x", "w"])
    ),
    "a constant of an unknown type": lambda: tensor(dtype=77),
    "a constant of no type": lambda: tensor(dtype=0),
    "a constant of resources": lambda: tensor(dtype=20),
    "a constant of strings": lambda: tensor(dtype=7, tensor_content=b"", string_val=[b"x"] * 6),
    "a constant of complex numbers": lambda: tensor(
        dtype=8, tensor_content=b"", scomplex_val=[1.0, 2.0, 3.0]
    ),
    "too few bytes": lambda: tensor(tensor_content=b"123"),
    "too many bytes": lambda: tensor(tensor_content=bytes(4000)),
    "too many values": lambda: tensor(tensor_content=b"", float_val=[1.0] * 7),
    "values of another type": lambda: tensor(tensor_content=b"", int64_val=[BIG] * 3, sizes=[2, 3]),
    "a value out of range": lambda: tensor(tensor_content=b"", dtype=4, int_val=[-1, 300, 1 << 30]),
    "a huge shape": lambda: tensor(tensor_content=b"", float_val=[1.0], sizes=[1 << 30, 1 << 30]),
    "a large shape": lambda: tensor(tensor_content=b"", float_val=[1.0], sizes=[1 << 14, 1 << 14]),
    "a huge shape of zeros": lambda: tensor(tensor_content=b"", sizes=[1 << 15, 1 << 15, 4]),
    "a shape that overflows": lambda: tensor(sizes=[BIG, 2]),
    "a negative shape": lambda: tensor(sizes=[-2, -3]),
    "an unknown shape": lambda: tensor(sizes=[-1, 3]),
    "a rank of thousands": lambda: tensor(sizes=[1] * 5000),
    "a huge input": lambda: Graph().input("x", 1 << 30, 1 << 30).node("Relu", "y", ["x"]),
    "a negative input": lambda: Graph().input("x", -7, 3).node("Relu", "y", ["x"]),
    "an input of a high rank": lambda: Graph().input("x", *[1] * 400).node("Relu", "y", ["x"]),
    "an input of strings": lambda: Graph().input("x", 2, dtype="string").node("Relu", "y", ["x"]),
    "an input of an unknown type": lambda: (
        Graph().node("Placeholder", "x", dtype=3, shape=7).node("Relu", "y", ["x"])
    ),
    "an attribute of another kind": lambda: plain().node("Cast", "y", ["sum"], DstT="text", SrcT=[1, 2]),
    "an operator of no name": lambda: plain().node("", "y", ["sum"]),
    "an operator with an invalid name": lambda: plain().node("No\0pe\n/..", "y", ["sum"]),
    "a variable": lambda: plain().node("VariableV2", "v").node("AddV2", "y", ["sum", "v"]),
    "many variables": lambda: plain().node("VarHandleOp", "v").node("ReadVariableOp", "y", ["v"]),
    "a Merge of no Switch": lambda: plain().node("Merge", "y", ["x", "sum"], N=2),
    "a Merge of itself": lambda: plain().node("Merge", "m", ["sum", "m"], N=2).node("Relu", "y", ["m"]),
    "a Switch alone": lambda: plain().const("p", np.bool_(True)).node("Switch", "y", ["sum", "p"]),
    "a Switch by itself": lambda: (
        plain().node("Switch", "s", ["sum", "s"]).node("Merge", "y", ["s", "s:1"], N=2)
    ),
    "an Enter alone": lambda: plain().node("Enter", "y", ["sum"], frame_name="f"),
    "a loop without an end": lambda: looping(ends=False),
    "a loop without a condition": lambda: looping(conditions=0),
    "a loop of two conditions": lambda: looping(conditions=2),
    "a loop whose parts are of two frames": lambda: looping(frames=("f", "g")),
    "a loop that comes from nowhere": lambda: looping(cut="n1"),
    "a loop that chooses nothing": lambda: looping(cut="s0"),
    "frames inside each other": lambda: frames(200),
    "many Switches": lambda: switches(300),
    "a slice of many entries": lambda: (
        plain()
        .const("i", np.ones(100000, np.int32))
        .node("StridedSlice", "y", ["sum", "i", "i", "i"], begin_mask=-1, end_mask=1)
    ),
    "names that are paths": lambda: Graph().input("../../x", 2).node("Relu", "/etc/passwd", ["../../x"]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(server: Server, tmp_path: Path, name: str) -> None:
    end = convert(server, GRAPHS[name]().save(tmp_path / "model.pb"))
    if any(word in name for word in ("function", "cycle", "shape", "reads", "circle")):
        assert end.status
        assert "fix:" in end.errors


@pytest.mark.parametrize(
    "content",
    [
        'node { name: "x" op: ' * 3000,
        "node { attr { value { list { func { attr { value { list { func { "
        + "attr { value { list { func { " * 400,
        'node { name: "x" op: "Placeholder" } node { name: "y" op: "Relu" input: "x" ',
        "node { name: 7 }",
        'node { name: "x" op: "Const" attr { key: "value" value { tensor { dtype: DT_NONE } } } }',
        'node { name: "x" op: "Const" attr { key: "value" value { i: 99999999999999999999999 } } }',
        'node { name: "\\400\\xZZ" op: "Relu" }',
        "node { unknown { " * 2000 + "} } " * 2000,
        'node { name: "x" op: "y" } # ' + "\u0416" * 40,
    ],
    ids=str,
)
def test_text(server: Server, tmp_path: Path, content: str) -> None:
    path = tmp_path / "model.pbtxt"
    path.write_text(content)
    assert convert(server, path).status


# ------------------------------------------------------------------ checkpoints


def bomb(size: int) -> bytes:
    """Snappy data that expand to some bytes: a literal of one, and copies of it."""
    return varint(size) + b"\0a" + (b"\xfe" + struct.pack("<H", 1)) * (size // 64)


CHECKPOINTS: dict[str, Callable[[], Checkpoint]] = {
    "a wrong checksum": lambda: Checkpoint().add("key", W, crc32c=1),
    "a negative offset": lambda: Checkpoint().add("key", W, offset=-8),
    "an offset after the end": lambda: Checkpoint().add("key", W, offset=1 << 40),
    "a negative size": lambda: Checkpoint().add("key", W, size=-24),
    "a huge size": lambda: Checkpoint().add("key", W, size=BIG),
    "another size": lambda: Checkpoint().add("key", W, size=8),
    "a shard that is missing": lambda: Checkpoint().add("key", W, shard_id=3),
    "a negative shard": lambda: Checkpoint().add("key", W, shard_id=-3),
    "a huge shape": lambda: Checkpoint().add("key", W, sizes=(1 << 30, 1 << 30)),
    "a negative shape": lambda: Checkpoint().add("key", W, sizes=(-2, -3)),
    "another shape": lambda: Checkpoint().add("key", W.T.copy()),
    "an unknown type": lambda: Checkpoint().add("key", W, dtype=99),
    "strings": lambda: Checkpoint().add("key", W, dtype=7),
    "no key": lambda: Checkpoint().add("other", W),
    "a key that is a path": lambda: Checkpoint().add("../../../../etc/passwd", W),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints(server: Server, tmp_path: Path, name: str) -> None:
    made = CHECKPOINTS[name]().add_objects({1: "key"})
    assert convert(server, folder_of(tmp_path, made)).status


@pytest.mark.parametrize("shards", [0, 2, 99999, -1, (1 << 31) - 1])
def test_numbers_of_shards(server: Server, tmp_path: Path, shards: int) -> None:
    folder = folder_of(tmp_path)
    made = Checkpoint().add("key", W).add_objects({1: "key"})
    made.shards = shards
    made.save(folder / "variables" / "variables")
    (folder / "variables" / "variables.data-00000-of-00001").unlink(missing_ok=True)
    convert(server, folder)


def footer(index_offset: int, index_size: int) -> bytes:
    ranges = varint(0) + varint(0) + varint(index_offset) + varint(index_size)
    return ranges.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def table_of(body: bytes, kind: int, times: int = 1) -> bytes:
    """A table whose index names one block some times."""
    handle = varint(0) + varint(len(body))
    index = block([(b"%08d" % number, handle) for number in range(times)])
    held = stored(body, kind)
    return held + stored(index) + footer(len(held), len(index))


INDEXES: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a footer alone": lambda: footer(0, 0),
    "an index after the end": lambda: footer(1 << 60, 1 << 60),
    "an index that is the footer": lambda: stored(block([])) + footer(0, 60),
    "an integer without an end": lambda: b"\xff" * 40 + struct.pack("<Q", MAGIC),
    "another magic": lambda: footer(0, 0)[:-1] + b"x",
    "an unknown compression": lambda: table_of(block([]), 9),
    "snappy that expands to much": lambda: table_of(bomb(1 << 30), 1),
    "snappy that states less": lambda: table_of(varint(5) + bomb(1 << 20)[4:], 1),
    "snappy that copies from before": lambda: table_of(varint(60) + b"\xfe\x05\0", 1),
    "snappy that copies nothing": lambda: table_of(varint(60) + b"\0a\xfe\0\0", 1),
    "snappy that ends early": lambda: table_of(varint(1000) + b"\xf4\xff\xff", 1),
    "a block that is named often": lambda: table_of(bomb(1 << 22), 1, 5000),
    "a plain block that is named often": lambda: table_of(
        block([(b"k%06d" % i, b"") for i in range(9000)]), 0, 500
    ),
    "keys that grow": lambda: table_of(
        b"".join(varint(i) + b"\1\0a" for i in range(60000)) + struct.pack("<II", 0, 1), 0
    ),
    "more restarts than bytes": lambda: table_of(struct.pack("<I", 1 << 30), 0),
    "a key that shares too much": lambda: table_of(b"\x7f\1\0a" + struct.pack("<II", 0, 1), 0),
    "a value after the end": lambda: table_of(b"\0\1\xff\xff\xff\x7fa" + struct.pack("<II", 0, 1), 0),
    "an invalid header": lambda: table_of(block([(b"", b"\xff\xff\xff")]), 0),
    "a big-endian file": lambda: table_of(block([(b"", b"\x08\x01\x10\x01")]), 0),
}


@pytest.mark.parametrize("name", INDEXES)
def test_indexes(server: Server, tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path)
    (folder / "variables" / "variables.index").write_bytes(INDEXES[name]())
    end = convert(server, folder)
    assert end.status
    assert "variables.index" in end.errors


@pytest.mark.parametrize("seed", range(6))
def test_slices_of_partitioned_variables(server: Server, tmp_path: Path, seed: int) -> None:
    checkpoint = Checkpoint().add("key", np.zeros(0, np.float32), sizes=(2, 3)).add_objects({1: "key"})
    entry = message("BundleEntry")
    entry.ParseFromString(checkpoint.entries[b"key"])
    spans = [[(0, 9)], [(-5, 3), (0, 3)], [(0, BIG), (0, 3)], [(0, 1), (0, 3)], [(0, 2), (0, 3)], []][seed]
    part = entry.slices.add()
    for start, length in spans:
        part.sizes.add(start=start, length=length)
    checkpoint.entries[b"key"] = entry.SerializeToString()
    assert convert(server, folder_of(tmp_path, checkpoint)).status
