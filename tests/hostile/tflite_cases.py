"""Hostile TFLite files, by what is wrong with them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tests.converter.tflite.flexbuffer_writer import flexbuffer
from tests.converter.tflite.models import TinyModel
from xdlc.container.flatbuffer_encode import encode
from xdlc.converter.tflite.file import NAMES
from xdlc.schema._generated import tflite as schema

BIG = (1 << 31) - 1
SHAPES = ((), (0,), (1,), (3,), (2, 3), (1, 4, 4, 2), (1, 2, 2, 2, 2, 2, 2, 2))


def small() -> Any:
    """Return the root table of conv(x) * w [3] + b -> y, with x [1, 4, 4, 3]."""
    model = TinyModel()
    x = model.tensor("x", [1, 4, 4, 3])
    w = model.tensor("w", data=np.ones((2, 1, 1, 3)))
    b = model.tensor("b", data=np.ones(2))
    c = model.tensor("c", [1, 4, 4, 2])
    s = model.tensor("s", data=np.ones(2))
    y = model.tensor("y", [1, 4, 4, 2])
    model.op("CONV_2D", [x, w, b], [c], stride_h=1, stride_w=1)
    model.op("MUL", [c, s], [y], fused_activation_function=1)
    model.graphs[0].inputs, model.graphs[0].outputs = [x], [y]
    return model.build()


def small_bytes() -> bytes:
    """Return the file of ``small``."""
    return bytes(encode(small()))


def put(path: str, value: Any) -> Callable[[Any], object]:
    """Return a change of the field that a path of names and indices leads to."""
    *steps, last = path.split(".")

    def change(root: Any) -> None:
        for step in steps:
            root = root[int(step)] if step.isdigit() else getattr(root, step)
        if last.isdigit():
            root[int(last)] = value
        else:
            setattr(root, last, value)

    return change


def _shapes() -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Iterate over changes of shapes in ``small``, by name."""
    for shape in ([-1], [BIG] * 4, [1 << 30] * 8, [0, 4], [-BIG - 1, 2], [1] * 300, [1, 4, 4, BIG]):
        for index in (0, 1, 3, 5):
            yield f"tensor {index}: shape {shape[:9]}", put(f"subgraphs.0.tensors.{index}.shape", shape)


def _changes() -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Iterate over other changes of ``small`` that break it, by name."""
    tensor, graph, operator = "subgraphs.0.tensors.0", "subgraphs.0", "subgraphs.0.operators.0"
    for name, numbers in {
        f"{operator}.inputs.0": (-1, -2, 6, BIG, -BIG - 1),
        f"{operator}.outputs.0": (-1, 6, BIG, 0, 1),
        f"{operator}.opcode_index": (2, BIG, (1 << 32) - 1),
        f"{graph}.inputs.0": (-1, 6, BIG, 5, 3),
        f"{graph}.outputs.0": (-1, 6, -BIG - 1),
        "subgraphs.0.tensors.1.buffer": (4, BIG, (1 << 32) - 1),
        f"{tensor}.type": (5, 8, 11, 13, 14, 23, 99, -1),
        "subgraphs.0.tensors.1.type": (1, 5, 9, 17, 14, 77),
        "operator_codes.0.builtin_code": (len(NAMES), BIG, -5, 32, 127),
        "operator_codes.0.deprecated_builtin_code": (-128, 127),
        "operator_codes.0.version": (-1, 0, BIG),
        "version": (0, 2, 4, (1 << 32) - 1),
        f"{operator}.large_custom_options_offset": (BIG, (1 << 64) - 1),
        "subgraphs.0.tensors.1.external_buffer": (1, (1 << 32) - 1),
        f"{operator}.builtin_options.stride_h": (0, -1, BIG),
        f"{operator}.builtin_options.dilation_hfactor": (0, -1, BIG),
        f"{operator}.builtin_options.padding": (2, -1, 100),
        f"{operator}.builtin_options.fused_activation_function": (6, 5, -1),
    }.items():
        yield from ((f"{name} = {number}", put(name, number)) for number in numbers)
    yield "signature of another rank", put(f"{tensor}.shape_signature", [-1])
    yield "signature below -1", put(f"{tensor}.shape_signature", [1, -7, 4, 3])
    for name in ("subgraphs", "operator_codes", "buffers"):
        yield f"no {name}", put(name, [])
        yield f"{name} missing", put(name, None)
    for name in ("tensors", "inputs", "outputs", "operators"):
        yield f"sub-graph without {name}", put(f"{graph}.{name}", None)
    for name in ("inputs", "outputs"):
        yield f"operator without {name}", put(f"{operator}.{name}", None)
        yield f"operator with 10,000 {name}", put(f"{operator}.{name}", [0] * 10_000)
    yield "two producers of a tensor", put("subgraphs.0.operators.1.outputs", [3])
    yield "input that is made", put(f"{graph}.inputs", [3])
    yield "inputs of one tensor", put(f"{graph}.inputs", [0, 0, 0])
    yield "custom operator without a name", put("operator_codes.0", schema.OperatorCode(builtin_code=32))
    yield "name of 1 MB", put(f"{tensor}.name", "x" * 1_000_000)
    for offset, size in ((2, 1 << 40), (1 << 63, 8), (10, (1 << 64) - 1), ((1 << 64) - 1, 24), (100, 7)):
        buffer = schema.Buffer(offset=offset, size=size)
        yield f"buffer at {offset} of {size}", put("buffers.1", buffer)
    for nbytes in (0, 1, 23, 25):
        yield f"weight of {nbytes} bytes", put("buffers.1", schema.Buffer(data=bytes(nbytes)))
    quantized = schema.QuantizationParameters
    for words, quantization in {
        "nan scale": quantized(scale=[float("nan")], zero_point=[0]),
        "negative scale": quantized(scale=[-1.0]),
        "infinite scale": quantized(scale=[float("inf")]),
        "scales that do not fit": quantized(scale=[1.0] * 7, zero_point=[0]),
        "zero points that do not fit": quantized(scale=[1.0, 1.0], zero_point=[0] * 3, quantized_dimension=0),
        "axis out of range": quantized(scale=[1.0, 1.0], quantized_dimension=9),
        "negative axis": quantized(scale=[1.0, 1.0], quantized_dimension=-1),
        "zero point of 64 bits": quantized(scale=[1.0], zero_point=[1 << 62]),
        "blocks of another tensor": quantized(
            details_type=2, details=schema.BlockwiseQuantization(scales=999, zero_points=-7, block_size=-3)
        ),
        "blocks of size 0": quantized(details_type=2, details=schema.BlockwiseQuantization()),
        "several axes": quantized(details_type=3, details=schema.MultiAxisQuantization(scales=99)),
    }.items():
        for index, kind in ((0, 9), (1, 9), (1, 17)):

            def change(root: Any, index: int = index, kind: int = kind, given: Any = quantization) -> None:
                found = root.subgraphs[0].tensors[index]
                found.quantization, found.type = given, kind

            yield f"{words} of tensor {index} of type {kind}", change


def _sparse() -> Iterator[tuple[str, bytes]]:
    dense, csr = schema.DimensionMetadata, schema.DimensionMetadata

    def rows(segments: Any, indices: Any) -> Any:
        return csr(
            format=1,
            array_segments_type=1,
            array_segments=schema.Int32Vector(values=segments),
            array_indices_type=1,
            array_indices=schema.Int32Vector(values=indices),
        )

    for words, order, block, dims in (
        ("order out of range", [0, 9, 2, 3], [], [dense(dense_size=2)] * 4),
        ("order repeated", [0, 0, 0, 0], [], [dense(dense_size=2)] * 4),
        ("too few dimensions", [0, 1, 2, 3], [], [dense(dense_size=2)]),
        ("no dimensions", [], [], []),
        ("negative size", [0, 1, 2, 3], [], [dense(dense_size=-2)] * 4),
        ("huge size", [0, 1, 2, 3], [], [dense(dense_size=BIG)] * 4),
        ("block map out of range", [0, 1, 2, 3, 4], [7], [dense(dense_size=1)] * 5),
        ("segments that fall", [0, 1, 2, 3], [], [dense(dense_size=2), rows([5, 0, 9], [0])] * 2),
        ("indices out of range", [0, 1, 2, 3], [], [dense(dense_size=2), rows([0, 1, 2], [9, -9])] * 2),
        ("segments missing", [0, 1, 2, 3], [], [csr(format=1)] * 4),
        ("format unknown", [0, 1, 2, 3], [], [dense(format=7, dense_size=2)] * 4),
        ("1,000 dimensions", list(range(1000)), [], [dense(dense_size=2)] * 1000),
    ):
        root = small()
        root.subgraphs[0].tensors[1].sparsity = schema.SparsityParameters(
            traversal_order=order, block_map=block, dim_metadata=dims
        )
        yield f"sparse: {words}", bytes(encode(root))


def _nested() -> Iterator[tuple[str, bytes]]:
    """Iterate over files of sub-graphs that run each other."""

    def chain(count: int, times: int, last: int, type: str = "IF") -> bytes:
        """Return sub-graphs that each run the next one; the last runs ``last``."""
        model = TinyModel()
        for index in range(count):
            if index:
                model.begin()
            c, x = model.tensor("c", [], np.bool_), model.tensor("x", [4])
            following = index + 1 if index + 1 < count else last
            for turn in range(times):
                y = model.tensor(f"y{turn}", [4])
                if type == "IF":
                    model.op("IF", [c, x], [y], then_subgraph_index=following, else_subgraph_index=following)
                elif type == "WHILE":
                    model.op("WHILE", [x], [y], cond_subgraph_index=following, body_subgraph_index=following)
                else:
                    model.op(
                        "STABLEHLO_COMPOSITE", [x], [y], name="a", decomposition_subgraph_index=following
                    )
            model.graph.inputs, model.graph.outputs = ([c, x] if type == "IF" or not index else [x]), [y]
        return bytes(encode(model.build()))

    for type in ("IF", "WHILE", "STABLEHLO_COMPOSITE"):
        yield f"{type}: runs itself", chain(1, 1, 0, type)
        yield f"{type}: runs itself after three", chain(4, 1, 1, type)
        yield f"{type}: no such sub-graph", chain(2, 1, 77, type)
        yield f"{type}: negative sub-graph", chain(2, 1, -1, type)
        yield f"{type}: 40 sub-graphs, each run twice", chain(40, 2, -1, type)
        yield f"{type}: 12 sub-graphs, each run twice, end", chain(12, 2, 13, type)
        yield f"{type}: 2,000 deep", chain(2000, 1, 2000, type)
    caller = TinyModel()
    x, y = caller.tensor("x", [4]), caller.tensor("y", [4])
    caller.op("CALL_ONCE", [], [], init_subgraph_index=0)
    caller.op("ABS", [x], [y])
    caller.graph.inputs, caller.graph.outputs = [x], [y]
    yield "CALL_ONCE: runs itself", bytes(encode(caller.build()))
    caller = TinyModel()
    x = last = caller.tensor("x", [4])
    for index in range(4000):
        last, before = caller.tensor(f"y{index}", [4]), last
        caller.op("ABS", [before], [last])
    caller.codes[1:] = []
    for operator in caller.graph.operators:
        operator.opcode_index = 0
    caller.graph.inputs, caller.graph.outputs = [x], [last]
    yield "4,000 operators", bytes(encode(caller.build()))


def _custom() -> Iterator[tuple[str, bytes]]:
    """Iterate over files of custom operators with broken options."""
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    most = {"max_detections": BIG, "num_classes": 2, "max_classes_per_detection": BIG}
    options: dict[str, bytes] = {
        "nothing": b"",
        "zeros": bytes(64),
        "ones": b"\xff" * 64,
        "root of 3 bytes": b"\0\0\0\x04\x03",
        "map without keys": b"\0\0\0\0\x09\x24\x01",
        "offset to itself": bytes(16) + b"\0\x28\x01",
        "truncated map": flexbuffer({"max_detections": 10, "num_classes": 2})[20:],
        "200 deep": flexbuffer(deep),
        "huge counts": flexbuffer(most),
        "texts for numbers": flexbuffer(dict.fromkeys(most, "x")),
        "lists for numbers": flexbuffer({name: [1, {}] for name in most}),
        "nothing for numbers": flexbuffer({**dict.fromkeys(most, 2), "y_scale": "x"}),
        "infinite scale": flexbuffer({**dict.fromkeys(most, 2), "y_scale": float("inf")}),
        "no message": flexbuffer(["AddV2", b"\xff\xff\xff"]),
        "message cut off": flexbuffer(["AddV2", b"\x12\x7fAddV2"]),
        "attribute of the wrong kind": flexbuffer(["AddV2", b"\x12\x05AddV2*\x07\n\x01T\x12\x02\x28\x01"]),
        "numbers for texts": flexbuffer([1, 2]),
        "padding 77": struct.pack("<5i", 77, 2, 2, 2, 2),
        "stride 0": struct.pack("<5i", 1, 0, 0, 2, 2),
        "huge steps": struct.pack("<5i", 2, BIG, BIG, 2, 2),
        "huge window": struct.pack("<5i", 1, BIG, BIG, BIG, BIG),
    }
    for type in ("TFLite_Detection_PostProcess", "FlexAddV2", "MaxUnpooling2D", "Convolution2DTransposeBias"):
        for name, data in options.items():
            model = TinyModel()
            x, w = model.tensor("x", [1, 6, 4]), model.tensor("w", [1, 6, 3])
            a, y = model.tensor("a", data=np.ones((6, 4))), model.tensor("y", [1, 2, 4])
            if type[0] in "MC":
                model.graph.tensors[x].shape = model.graph.tensors[w].shape = [1, 2, 2, 1]
            model.op(type, [x, w, a][: 2 if type[0] in "FM" else 3], [y], custom_options=data)
            model.graph.inputs, model.graph.outputs = [x, w], [y]
            yield f"{type}: {name}", bytes(encode(model.build()))


def _large() -> Iterator[tuple[str, bytes]]:
    """Iterate over small files whose constants denote results of many gigabytes."""
    some: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "FILL": ([[BIG, BIG], 1.0], {}),
        "BROADCAST_TO": ([np.ones((1, 1), np.float32), [BIG, BIG]], {}),
        "RANGE": ([0, BIG, 1], {}),
        "TILE": ([np.ones((1, 1), np.float32), [BIG, BIG]], {}),
        "PAD": ([np.ones((1, 1), np.float32), [[0, BIG], [BIG, BIG]]], {}),
        "MIRROR_PAD": ([np.ones((1, 1), np.float32), [[0, BIG], [BIG, BIG]]], {}),
        "ONE_HOT": ([[0, 1], BIG, 1.0, 0.0], {}),
        "RESIZE_BILINEAR": ([None, [BIG, BIG]], {}),
        "RESIZE_NEAREST_NEIGHBOR": ([None, [BIG, BIG]], {}),
        "SCATTER_ND": ([[[0]], [1.0], [BIG]], {}),
        "SPARSE_TO_DENSE": ([[0], [BIG], 1.0, 0.0], {}),
        "RANDOM_UNIFORM": ([[BIG, BIG]], {}),
        "DILATE": ([None, [BIG] * 4, 0.0], {}),
        "SPACE_TO_BATCH_ND": ([None, [BIG, BIG], [[0, BIG], [0, BIG]]], {}),
        "STABLEHLO_PAD": ([None, 0.0], {"interior_padding": [BIG] * 4}),
        "STABLEHLO_IOTA": ([], {"iota_dimension": 0}),
        "STABLEHLO_BROADCAST_IN_DIM": ([1.0], {"broadcast_dimensions": []}),
        "MATRIX_DIAG": ([np.ones(60_000, np.float32)], {}),
        "MAX_POOL_2D": ([None], {"filter_width": BIG, "filter_height": BIG, "stride_w": 1, "stride_h": 1}),
        "DEPTH_TO_SPACE": ([None], {"block_size": BIG}),
        "SPACE_TO_DEPTH": ([None], {"block_size": BIG}),
        "LOCAL_RESPONSE_NORMALIZATION": ([None], {"radius": BIG}),
        "SPLIT": ([0, None], {"num_splits": BIG}),
        "UNPACK": ([None], {"num": BIG}),
        "REVERSE_SEQUENCE": ([None, [BIG]], {}),
        "CONV_3D": ([None, np.ones((1, 1, 1, 2, 2), np.float32)], {"stride_d": BIG}),
    }
    for type, (values, options) in some.items():
        model = TinyModel()
        x, y = model.tensor("x", [1, 4, 4, 2]), model.tensor("y", [BIG, BIG])
        inputs = [
            x
            if each is None
            else model.tensor("w", (), np.float32 if np.asarray(each).dtype.kind == "f" else np.int32, each)
            for each in values
        ]
        model.op(type, inputs, [y], **options)
        model.graph.inputs, model.graph.outputs = [x], [y]
        yield f"{type} to a huge result", bytes(encode(model.build()))


def _bytes() -> Iterator[tuple[str, bytes]]:
    data = small_bytes()
    for keep in (0, 1, 4, 7, 8, 9, 12, 20, 33, 64, 100, 150, 200, 300, 400, len(data) // 2, len(data) - 1):
        yield f"first {keep} bytes", data[:keep]
    yield "another identifier", data[:4] + b"TFL2" + data[8:]
    yield "zeros after the identifier", data[:8] + bytes(len(data) - 8)
    yield "ones after the identifier", data[:8] + b"\xff" * (len(data) - 8)
    for root in (0, 4, len(data) - 2, len(data), (1 << 32) - 1):
        yield f"root at {root}", struct.pack("<I", root) + data[4:]
    root = small()
    root.subgraphs[0].operators[0].builtin_options_type = 40
    root.subgraphs[0].operators[0].builtin_options = schema.IfOptions(then_subgraph_index=0)
    yield "options of another operator", bytes(encode(root))


def huge() -> dict[str, bytes]:
    """Return the files that want much time or memory, by what is wrong with them."""
    return dict([*_nested(), *_large(), *_changed(_shapes())])


def broken() -> dict[str, bytes]:
    """Return the other files by what is wrong with them."""
    return dict([*_bytes(), *_sparse(), *_custom(), *_changed(_changes())])


def _changed(changes: Iterable[tuple[str, Callable[[Any], object]]]) -> Iterator[tuple[str, bytes]]:
    for name, change in changes:
        root = small()
        change(root)
        yield name, bytes(encode(root))
