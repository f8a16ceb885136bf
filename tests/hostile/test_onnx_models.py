"""Hostile ONNX models: refused or converted, with bounded resources."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.hostile.confined import End, Server, harmless
from tests.support.protobuf import field, varint

BIG = (1 << 63) - 1


def value(name: str, shape: Sequence[Any] | None, type: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, type, shape)


def model(
    nodes: Sequence[Any],
    weights: dict[str, Any] | None = None,
    *,
    inputs: Sequence[Any] = (),
    outputs: Sequence[str] = ("y",),
    opsets: Sequence[tuple[str, int]] = (("", 18),),
    functions: Sequence[Any] = (),
) -> Any:
    """Return a model; without ``inputs`` it has the input ``x`` of shape [1, 4]."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        list(inputs) or [value("x", [1, 4])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [
            given if isinstance(given, TensorProto) else numpy_helper.from_array(np.asarray(given), name)
            for name, given in (weights or {}).items()
        ],
    )
    imports = [helper.make_opsetid(*entry) for entry in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def convert(server: Server, folder: Path, made: Any) -> End:
    """Convert a model or a file's bytes within the limits; return the outcome."""
    path = folder / "model.onnx"
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return harmless(server.call("xconv-onnx-to-dlc", "-i", path, "-o", folder / "model.dlc"))


def refused(end: End, *parts: str) -> None:
    assert end.status, end.output
    for part in parts:
        assert part in end.errors


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


# ------------------------------------------------------------------ sizes


@pytest.mark.parametrize(
    "shape", [[1 << 31], [BIG], [BIG - 1] * 4, [(1 << 31) - 1] * 3, [1] * 10000, [1 << 20] * 3]
)
def test_impossible_inputs(server: Server, tmp_path: Path, shape: list[int]) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], inputs=[value("x", shape)])
    refused(convert(server, tmp_path, made), "'x'")


@pytest.mark.parametrize("dims", [[-5], [1 << 31], [BIG], [1 << 20] * 3, [(1 << 31) - 1] * 4, [1] * 10000])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT4])
def test_impossible_weights(server: Server, tmp_path: Path, dims: list[int], kind: int) -> None:
    weight = TensorProto(name="w", data_type=kind, dims=dims, raw_data=bytes(16))
    node = helper.make_node("Add", ["x", "w"], ["y"])
    refused(convert(server, tmp_path, model([node], {"w": weight})), "tensor 'w'")
    held = helper.make_node("Constant", [], ["w"], value=weight)
    refused(convert(server, tmp_path, model([held, node])))


SIZES = {
    "Reshape": (["x", "s"], {"s": ints(1 << 40, 1 << 40)}, {}),
    "Expand": (["x", "s"], {"s": ints(BIG, BIG, 4)}, {}),
    "Tile": (["x", "s"], {"s": ints(BIG, 1 << 20)}, {}),
    "ConstantOfShape": (["s"], {"s": ints(1 << 20, 1 << 20)}, {}),
    "Range": (["a", "b", "c"], {"a": np.int64(0), "b": np.int64(1 << 62), "c": np.int64(1)}, {}),
    "Pad": (["x", "s"], {"s": ints(0, 0, 1 << 30, 1 << 30)}, {}),
    "OneHot": (["i", "d", "v"], {"i": ints(0, 1), "d": ints(1 << 40), "v": np.float32([0, 1])}, {}),
    "Split": (["x", "s"], {"s": ints(1 << 62, 1 << 62)}, {}),
    "TopK": (["x", "s"], {"s": ints(1 << 62)}, {}),
    "Unsqueeze": (["x", "s"], {"s": ints(1 << 62)}, {}),
    "HannWindow": (["s"], {"s": np.int64(1 << 40)}, {}),
    "EyeLike": (["x"], {}, {"k": BIG, "dtype": 77}),
    "DepthToSpace": (["x4"], {}, {"blocksize": 1 << 40}),
    "Resize": (["x4", "", "s"], {"s": np.float32([1, 1, 1e9, 1e9])}, {}),
    "ConvTranspose": (["x4", "w"], {"w": np.ones((3, 3, 2, 2), np.float32)}, {"strides": [1 << 40] * 2}),
    "AffineGrid": (["t", "s"], {"t": np.ones((1, 2, 3), np.float32), "s": ints(1, 1, 1 << 20, 1 << 20)}, {}),
    "MaxUnpool": (["x4", "i"], {"i": np.zeros((1, 3, 8, 8), np.int64)}, {"kernel_shape": [1 << 20] * 2}),
    "Transpose": (["x"], {}, {"perm": list(range(100_000))}),
    "Conv": (["x4", "w"], {"w": np.ones((3, 3, 2, 2), np.float32)}, {"strides": [0, 0]}),
}


@pytest.mark.parametrize("type", SIZES)
def test_operators_that_ask_for_terabytes(server: Server, tmp_path: Path, type: str) -> None:
    names, weights, attributes = SIZES[type]
    node = helper.make_node(type, names, ["y", *(["z"] if type in ("Split", "TopK") else [])], **attributes)
    inputs = [value("x", [1, 4]), value("x4", [1, 3, 8, 8])]
    opset = 22 if type in ("AffineGrid", "MaxUnpool") else 18
    refused(convert(server, tmp_path, model([node], weights, inputs=inputs, opsets=[("", opset)])), type)


FOLDS = {
    "Expand": (["c", "s"], {"c": np.ones(1, np.float32), "s": ints(1 << 19, 1 << 18)}, {}),
    "Tile": (["c", "s"], {"c": np.ones((1, 1), np.float32), "s": ints(1 << 19, 1 << 18)}, {}),
    "Add": (["c", "d"], {"c": np.ones((100_000, 1), np.float32), "d": np.ones(100_000, np.float32)}, {}),
    "MatMul": (
        ["c", "d"],
        {"c": np.ones((100_000, 1), np.float32), "d": np.ones((1, 100_000), np.float32)},
        {},
    ),
    "Einsum": (["c", "c"], {"c": np.ones(10_000, np.float32)}, {"equation": "a,b->ab"}),
    "Pad": (["c", "s"], {"c": np.ones((1, 1), np.float32), "s": ints(0, 0, 1 << 19, 1 << 18)}, {}),
    "MaxPool": (["c"], {"c": np.ones((1, 1, 300, 300), np.float32)}, {"kernel_shape": [200, 200]}),
    "GridSample": (
        ["c", "g"],
        {"c": np.ones((1, 1, 4, 4), np.float32), "g": np.ones((1, 99, 99, 2), np.float32)},
        {},
    ),
    "RoiAlign": (
        ["c", "r", "b"],
        {"c": np.ones((1, 3, 8, 8), np.float32), "r": np.ones((1, 4), np.float32), "b": ints(0)},
        {"output_height": 3000, "output_width": 3000, "sampling_ratio": 100},
    ),
    "TfIdfVectorizer": (
        ["c"],
        {"c": ints(0, 0)},
        {
            "max_gram_length": 1 << 31,
            "max_skip_count": 1 << 31,
            "min_gram_length": 1,
            "mode": "TF",
            "ngram_counts": [0],
            "ngram_indexes": [0],
            "pool_int64s": [1],
        },
    ),
    "LSTM": (
        ["c", "w", "r"],
        {
            "c": np.ones((20_000, 1, 4), np.float32),
            "w": np.ones((1, 16, 4), np.float32),
            "r": np.ones((1, 16, 4), np.float32),
        },
        {"hidden_size": 4},
    ),
    "NonZero": (["c"], {"c": np.ones((2000, 2000), np.float32)}, {}),
    "CumSum": (["c", "a"], {"c": np.ones((3000, 3000), np.float32), "a": np.int64(0)}, {}),
    "ScatterElements": (
        ["c", "i", "c"],
        {"c": np.ones((1000, 1000), np.float32), "i": np.zeros((1000, 1000), np.int64)},
        {},
    ),
}


@pytest.mark.parametrize("type", FOLDS)
def test_known_values_are_not_worked_out_at_any_price(server: Server, tmp_path: Path, type: str) -> None:
    names, weights, attributes = FOLDS[type]
    convert(server, tmp_path, model([helper.make_node(type, names, ["y"], **attributes)], weights))


FATAL = {
    "Div": (["c", "d"], {"c": ints(-BIG - 1, 7), "d": ints(-1, -1)}, {}),
    "Max": (["c", ""], {"c": np.ones(3, np.float32)}, {}),
    "GatherND": (["c", "i"], {"c": np.ones((2, 2), np.float32), "i": ints(1, 1)}, {"batch_dims": -5}),
    "LayerNormalization": (["c", "c"], {"c": np.ones(3, np.float32)}, {"axis": 1 << 31}),
    "Split": (["c"], {"c": np.ones(6, np.float32)}, {"num_outputs": 3}),
    "Unique": (["c"], {"c": np.ones((3, 0), np.float32)}, {"axis": 0}),
    "Range": (["a", "b", "d"], {"a": np.int32(2), "b": np.int32(-1 << 31), "d": np.int32(-3)}, {}),
}


@pytest.mark.parametrize("type", FATAL)
def test_constants_for_which_engines_die(server: Server, tmp_path: Path, type: str) -> None:
    names, weights, attributes = FATAL[type]
    convert(server, tmp_path, model([helper.make_node(type, names, ["y"], **attributes)], weights))


def test_lists_for_numbers(server: Server, tmp_path: Path) -> None:
    node = helper.make_node("BatchNormalization", ["x", *"cccc"], ["y"], epsilon=[1.0, 2.0, 3.0])
    refused(convert(server, tmp_path, model([node], {"c": np.ones(4, np.float32)})), "epsilon")


def test_doubling(server: Server, tmp_path: Path) -> None:
    nodes = [helper.make_node("Concat", [f"t{n}"] * 2, [f"t{n + 1}"], axis=0) for n in range(60)]
    made = model(nodes, {"t0": np.ones((4, 4), np.float32)}, outputs=["t60"])
    refused(convert(server, tmp_path, made), "impossible shape")
    refused(convert(server, tmp_path, model(nodes, inputs=[value("t0", [4, 4])], outputs=["t60"])))


@pytest.mark.slow
def test_many_results_that_fill_the_memory_together(server: Server, tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", [f"t{n}"] * 2, [f"t{n + 1}"]) for n in range(300)]
    convert(server, tmp_path, model(nodes, {"t0": np.ones((1000, 1000), np.float32)}, outputs=["t300"]))
    nodes = [helper.make_node("ConstantOfShape", ["s"], [f"t{n}"]) for n in range(300)]
    nodes.append(helper.make_node("Sum", [f"t{n}" for n in range(300)], ["y"]))
    convert(server, tmp_path, model(nodes, {"s": ints(1000, 1000)}))


# ------------------------------------------------------------------ versions


@pytest.mark.parametrize(
    "opsets",
    [
        [("", 0)],
        [("", -1)],
        [("", 1 << 31)],
        [("", BIG)],
        [("", 17), ("ai.onnx", 18)],
        [("", 17), ("evil", 0)],
        [("", 17), ("evil", 9)],
        [("", 17), ("evil", BIG)],
    ],
)
def test_absurd_opsets(server: Server, tmp_path: Path, opsets: list[tuple[str, int]]) -> None:
    domain = opsets[-1][0] if len(opsets) > 1 else ""
    node = helper.make_node("Relu", ["x"], ["y"], domain=domain)
    refused(convert(server, tmp_path, model([node], opsets=opsets)))


# ------------------------------------------------------------------ nesting


def nested(type: str, attributes: Sequence[str], depth: int) -> bytes:
    """Return a model of nested nodes, built from bytes as protobuf refuses it."""
    leaf = helper.make_graph([helper.make_node("Relu", ["x"], ["o"])], "leaf", [], [value("o", [1, 4])])
    plain = leaf.SerializeToString()
    names = b"".join(field(1, name) for name in ((b"c",) if type == "If" else (b"", b"c", b"x")))
    kind = varint(20 << 3) + varint(5)
    others = [field(5, field(1, name.encode()) + field(6, plain) + kind) for name in attributes[1:]]
    behind = b"".join(others) + field(2, b"o") + field(4, type.encode())
    rest = field(2, b"g") + field(12, value("o", [1, 4]).SerializeToString())
    heads, tails, size = [], [], len(plain)
    for _ in range(depth):  # from the inside out, so that every size is known
        first = field(1, attributes[0].encode())
        graph = varint(6 << 3 | 2) + varint(size)
        attribute = varint(5 << 3 | 2) + varint(len(first) + len(graph) + size + len(kind))
        inside = len(names) + len(attribute) + len(first) + len(graph) + size + len(kind) + len(behind)
        head = varint(1 << 3 | 2) + varint(inside) + names + attribute + first + graph
        tail = kind + behind + rest
        heads.append(head)
        tails.append(tail)
        size += len(head) + len(tail)
    inner = b"".join([*reversed(heads), plain, *tails])
    inputs = (value("x", [1, 4]), value("c", [], TensorProto.BOOL))
    graph = inner + b"".join(field(11, entry.SerializeToString()) for entry in inputs)
    return b"\x08\x08" + field(7, graph) + field(8, b"\x10\x11")


@pytest.mark.parametrize("depth", [15, 18, 25, 100, 10_000])
def test_nested_branches_and_loops(server: Server, tmp_path: Path, depth: int) -> None:
    convert(server, tmp_path, nested("If", ["then_branch", "else_branch"], depth))
    end = convert(server, tmp_path, nested("Loop", ["body"], depth))
    if depth >= 100:
        refused(end, "nest deeper than")


def test_nested_messages_that_are_no_graphs(server: Server, tmp_path: Path) -> None:
    content = b""
    for _ in range(1000):
        content = field(4, field(1, content))  # TypeProto.sequence_type.elem_type
    convert(server, tmp_path, b"\x08\x08" + field(7, field(11, field(1, b"x") + field(2, content))))


def functions(depth: int, width: int, last: Sequence[Any]) -> list[Any]:
    """Return functions, each of which calls the one before some times in a row."""

    def function(name: str, nodes: Sequence[Any]) -> Any:
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
        return helper.make_function("f", name, ["x"], ["y"], list(nodes), opsets)

    protos = [function("f0", last)]
    for level in range(1, depth):
        names = ["x", *(f"t{n}" for n in range(width - 1)), "y"]
        calls = [
            helper.make_node(f"f{level - 1}", [names[n]], [names[n + 1]], domain="f") for n in range(width)
        ]
        protos.append(function(f"f{level}", calls))
    return protos


@pytest.mark.parametrize(("depth", "width"), [(40, 2), (9, 10), (4, 500), (1000, 1), (60, 2)])
@pytest.mark.parametrize("last", [[helper.make_node("Relu", ["x"], ["y"])], []])
def test_functions_that_explode(
    server: Server, tmp_path: Path, depth: int, width: int, last: list[Any]
) -> None:
    proto = model(
        [helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="f")],
        functions=functions(depth, width, last),
        opsets=[("", 17), ("f", 1)],
    )
    refused(
        convert(server, tmp_path, proto),
        "functions of the model are nested" if depth > 64 else "of the model expand to",
    )


@pytest.mark.parametrize("trips", [BIG, 1 << 20, -5])
def test_loops_of_any_length(server: Server, tmp_path: Path, trips: int) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Concat", ["s", "s"], ["t"], axis=0)],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", None)],
        [value("d", [], TensorProto.BOOL), value("t", None)],
    )
    node = helper.make_node("Loop", ["m", "", "w"], ["y"], body=body)
    convert(server, tmp_path, model([node], {"m": np.int64(trips), "w": np.ones((4, 4), np.float32)}))


@pytest.mark.parametrize(("type", "count"), [("Reshape", 1 << 17), ("Reshape", 1 << 26), ("Slice", 1 << 26)])
def test_fills_that_state_a_shape(server: Server, tmp_path: Path, type: str, count: int) -> None:
    fill = helper.make_node("ConstantOfShape", ["s"], ["c"], value=numpy_helper.from_array(np.array([1])))
    node = helper.make_node(type, ["x", "c", "c"] if type == "Slice" else ["x", "c"], ["y"])
    end = convert(server, tmp_path, model([fill, node], {"s": np.array([count])}))
    if type == "Reshape":
        refused(end, "axes" if count > 1 << 20 else "numbers")


# ------------------------------------------------------------------ names and lists


NAMES = ["a\0b", "a\nb\r\n", "\x1b[31mred\x1b]0;t\x07\x9b31m", "名前\u202e", "../../x", "n" * 100_000]


@pytest.mark.parametrize("name", NAMES, ids=["nul", "newline", "escape", "unicode", "path", "long"])
def test_names_are_printed_safely(server: Server, tmp_path: Path, name: str) -> None:
    good = model([helper.make_node("Relu", ["x"], [name], name)], outputs=[name])
    ends = [convert(server, tmp_path, good)]
    if not ends[0].status:
        ends.append(server.call("xdlc-info", "-i", tmp_path / "model.dlc"))
        harmless(ends[-1])
    bad = helper.make_node("No", [name], ["y"], name)
    ends.append(convert(server, tmp_path, model([bad], inputs=[value(name, [1, 4])])))
    ends.append(convert(server, tmp_path, model([helper.make_node(name, ["x"], ["y"], name, domain=name)])))
    refused(ends[-1])
    for end in ends:
        assert not {"\0", "\x07", "\x1b", "\x9b", "\u202e"} & set(end.output + end.errors)


def test_values_that_are_there_twice(server: Server, tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    made = model([node], {"w": np.ones(4, np.float32)})
    made.graph.initializer.add(name="w", data_type=1, dims=[1], float_data=[1])
    refused(convert(server, tmp_path, made), "two initializers")
    made = model([node], inputs=[value("x", [1, 4]), value("w", [4]), value("x", [2, 2])])
    refused(convert(server, tmp_path, made), "two inputs")


def test_long_lists(server: Server, tmp_path: Path) -> None:
    many = 2000
    convert(server, tmp_path, model([helper.make_node("Concat", ["x"] * many, ["y"], axis=0)]))
    convert(server, tmp_path, model([helper.make_node("Relu", ["x"] * many, ["y"])]))
    names = ["y", *(f"y{n}" for n in range(many - 1))]
    split = helper.make_node("Split", ["x"], names, axis=1, num_outputs=many)
    convert(server, tmp_path, model([split], inputs=[value("x", [1, many])]))
    inputs = [value("x", [1, 4]), *(value(f"x{n}", [1]) for n in range(many))]
    convert(server, tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], inputs=inputs))
    relu = helper.make_node("Relu", ["x"], ["y"], **{f"a{n}": n for n in range(many)})
    refused(convert(server, tmp_path, model([relu])))


@pytest.mark.parametrize(
    "equation", ["a" * 200_000, "ab" * 99_999 + "->" + "." * 99_999, ",".join(["ab"] * 999)]
)
def test_equations_of_any_length(server: Server, tmp_path: Path, equation: str) -> None:
    refused(
        convert(server, tmp_path, model([helper.make_node("Einsum", ["x", "x"], ["y"], equation=equation)]))
    )


# ------------------------------------------------------------------ external data


def stored_at(location: str, **more: object) -> Any:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=str(text))
    return model([helper.make_node("Add", ["x", "w"], ["y"])], {"w": weight})


@pytest.mark.parametrize(
    "location",
    [
        *("../outside", "/etc/passwd", "/dev/zero", "/proc/self/mem", "link", "device", "folder/passwd"),
        *("circle", "pipe", "inner", ".", "", "a\0b", "a" * 100_000, "a/" * 1000, "\x1b[31m"),
    ],
)
def test_external_data_elsewhere(server: Server, tmp_path: Path, location: str) -> None:
    (tmp_path / "outside").write_bytes(bytes(16))
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    links = {"link": "/etc/passwd", "device": "/dev/zero", "folder": "/etc", "circle": "circle"}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    end = convert(server, folder, stored_at(location))
    refused(end, "tensor 'w'")
    assert "\x1b" not in end.errors


@pytest.mark.parametrize(
    "more",
    [
        {"offset": 1 << 70},
        {"offset": BIG},
        {"offset": -4},
        {"offset": "9" * 10_000},
        {"length": 0},
        {"length": 1 << 70},
        {"offset": 8},
    ],
)
def test_external_ranges(server: Server, tmp_path: Path, more: dict[str, Any]) -> None:
    (tmp_path / "data").write_bytes(bytes(16))
    refused(convert(server, tmp_path, stored_at("data", **more)), "tensor 'w'")


def test_weights_named_as_memory(server: Server, tmp_path: Path, corpus: Path) -> None:
    (path,) = corpus.glob("onnx/**/test_evil_weights.onnx")
    refused(convert(server, tmp_path, path.read_bytes()), "evil_weights")
