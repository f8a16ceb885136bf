"""Netron's own reader, run by node without a browser, shows what the model holds.

Netron 9.3 has two gaps, with the vendor's files as well: it does not know that format 4.1 has its data in
the entry ``model.params.bin``, so every static tensor is empty, and it takes 64-bit scalars for 32 bits.  So
each model is opened three times: as format 4.0, by Netron as it is, for everything but real scalars; as
format 4.1, by Netron as it is, for everything but these and data; and as format 4.1 with a driver that has
Netron follow the ranges and read wide scalars.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import build, floats, node
from tests.support.single_ops import op_graph
from tests.support.transformer_model import transformer
from xdlc.container.opnames import from_qnn
from xdlc.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    Model,
    Op,
    Param,
    ScaleOffset,
    Tensor,
    b8,
    f32,
    i32,
    make_op,
    static,
    u32,
)
from xdlc.ir import dtype as dtypes

DRIVER = Path(__file__).with_name("netron_driver.mjs")
TIMEOUT = 120
FEW = 64
CLASSES = {"sfixed": "qint", "ufixed": "quint"}
# Real types that Netron 9.3 refuses together with the whole file.
REFUSED = (dtypes.FLOAT64, dtypes.BFLOAT16)


def _knows_modules(version: tuple[int, ...]) -> bool:
    """Whether this node takes Netron's files for modules, which no package.json says."""
    return (20, 19) <= version < (21,) or version >= (22, 7)


class Netron:
    def __init__(self, node: str, folder: Path) -> None:
        self.node = node
        self.folder = folder

    def open(self, path: Path, *options: str) -> dict[str, Any]:
        """Return what Netron shows of a file: format, errors, graphs."""
        done = subprocess.run(
            [self.node, str(DRIVER), str(self.folder), str(path), *options],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"netron cannot open {path.name}: {done.stderr}"
        return dict(json.loads(done.stdout))

    def check(self, model: Model, path: Path) -> None:
        """Save a model of one graph and compare what Netron shows with it."""
        inline = path.with_suffix(".inline.dlc")
        model.save(inline, version="4.0")
        assert self.differences(model, inline, data=True) == []
        model.save(path)
        assert self.differences(model, path) == []
        assert self.differences(model, path, "--data-entry", data=True, reals=True) == []

    def differences(self, model: Model, path: Path, *options: str, **look_at: bool) -> list[str]:
        """Return what Netron shows of a file otherwise than a model of one graph holds it."""
        shown = self.open(path, *options)
        assert shown["format"] == "DLC"
        assert shown["errors"] == []
        (graph,) = shown["graphs"]
        return list(differences(model.main, graph, **look_at))


@pytest.fixture(scope="session")
def netron() -> Netron:
    package = importlib.util.find_spec("netron")
    if package is None or package.origin is None:
        pytest.skip("needs Netron: pip install netron")
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node 20.19 or later in the path")
    text = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if not _knows_modules(tuple(int(part) for part in text.lstrip("v").split("-")[0].split("."))):
        pytest.skip(f"needs node 20.19 or 22.7 or later, found {text}")
    return Netron(node, Path(package.origin).parent)


def differences(
    graph: Graph, shown: dict[str, Any], *, data: bool = False, reals: bool = False
) -> Iterator[str]:
    """Yield what Netron shows otherwise than the graph holds it.

    Args:
        graph: The graph that was saved.
        shown: What the driver printed of it.
        data: Whether Netron could find the data; without, tensors may be empty.
        reals: Whether it read scalars of 64 bits.
    """
    if shown["name"] != graph.name:
        yield f"graph {graph.name!r} is shown as {shown['name']!r}"
    nodes = shown["nodes"]
    if [node["name"] for node in nodes] != [op.name for op in graph.ops]:
        yield f"nodes are {[node['name'] for node in nodes]}, should be {[op.name for op in graph.ops]}"
        return
    used: dict[str, Tensor] = {}
    for op, shown_op in zip(graph.ops, nodes, strict=True):
        yield from (f"op {op.name!r}: {line}" for line in _op(op, shown_op, data, reals))
        used.update((tensor.name, tensor) for tensor in (*op.inputs, *op.outputs) if tensor is not None)
    tensors = dict(shown["tensors"])
    if tensors.keys() - {"null_tensor"} != used.keys():
        yield f"tensors that only one side has: {(tensors.keys() - {'null_tensor'}) ^ used.keys()}"
        return
    for name, tensor in used.items():
        own = tensors[name]
        yield from (f"tensor {name!r}: {line}" for line in _type(tensor, own))
        if (own["data"] is not None) != (tensor.data is not None):
            yield f"tensor {name!r}: data is {own['data']}"
        elif tensor.data is not None:
            yield from (f"tensor {name!r}: data {line}" for line in _elements(tensor, own["data"], data))


def _op(op: Op, node: dict[str, Any], data: bool, reals: bool) -> Iterator[str]:
    type, params, strings = from_qnn(op.type, op.package, op.params)
    if node["type"] != type:
        yield f"type is {node['type']}, should be {type}"
    for what, tensors in (("inputs", op.inputs), ("outputs", op.outputs)):
        names = ["null_tensor" if tensor is None else tensor.name for tensor in tensors]
        if node[what] != names:
            yield f"{what} are {node[what]}, should be {names}"
    expected: dict[str, Param | str] = {**params, **strings, "packageName": op.package}
    shown = node["attributes"]
    if list(shown) != sorted(expected):
        yield f"attributes are {list(shown)}, should be {sorted(expected)}"
        return
    for name, value in expected.items():
        if isinstance(value, Tensor):
            yield from (f"attribute {name!r}: {line}" for line in _elements(value, shown[name], data))
        elif not isinstance(value, str) and value.dtype.is_float:
            if reals and float(shown[name]) != value.value:
                yield f"attribute {name!r} is {shown[name]}, should be {value.value}"
        else:
            plain = value if isinstance(value, str) else value.value
            if shown[name] != plain or isinstance(shown[name], bool) != isinstance(plain, bool):
                yield f"attribute {name!r} is {shown[name]!r}, should be {plain!r}"


def _type(tensor: Tensor, found: dict[str, Any]) -> Iterator[str]:
    if found["shape"] != list(tensor.shape):
        yield f"shape is {found['shape']}, should be {tensor.shape}"
    if found["dtype"] != _name(tensor.dtype):
        yield f"datatype is {found['dtype']}, should be {tensor.dtype}"


def _name(dtype: DType) -> str:
    if dtype.kind == "bool":
        return "boolean"
    return f"{CLASSES.get(dtype.kind, dtype.kind)}{dtype.bits}"


def _elements(tensor: Tensor, shown: dict[str, Any], data: bool) -> Iterator[str]:
    yield from _type(tensor, shown)
    stored = np.ascontiguousarray(tensor.numpy())
    raw = stored.tobytes()
    if not data:
        if shown["nbytes"] and shown["sha256"] != hashlib.sha256(raw).hexdigest():
            yield f"has {shown['nbytes']} bytes that differ"
        return
    if (shown["nbytes"], shown["sha256"]) != (len(raw), hashlib.sha256(raw).hexdigest()):
        yield f"has {shown['nbytes']} bytes, should have {len(raw)}, or they differ"
    if 0 < len(raw) <= FEW:
        values = [float(value) for value in shown["values"]]
        if not np.array_equal(values, stored.astype(np.float64).reshape(-1), equal_nan=True):
            yield f"values are {values}, should be {stored.reshape(-1).tolist()}"


def _decoder(_models: Any) -> Any:
    """Return a network of the windows and views that other models lack."""
    nodes = [
        node("Conv", "x dw", "d", pads=[1, 1, 1, 1], group=6),
        node("Resize", "d - sizes", "s", mode="linear", coordinate_transformation_mode="half_pixel"),
        node("ConvTranspose", "x up b", "t", strides=[2, 2]),
        node("Concat", "s t", "c", axis=1),
        node("Slice", "c from to axes steps", "l"),
        node("MaxPool", "l", "p", kernel_shape=[2, 2]),
        node("ReduceMean", "p", "m", axes=[2, 3], keepdims=1),
        node("Sub", "p m", "y"),
    ]
    weights = {
        "dw": floats(6, 1, 3, 3),
        "sizes": np.array([1, 1, 2, 2], np.float32),
        "up": floats(6, 4, 2, 2),
        "b": floats(4),
        "from": np.array([1, 0]),
        "to": np.array([9, 16]),
        "axes": np.array([1, 2]),
        "steps": np.array([2, 4]),
    }
    return build(nodes, {"x": floats(1, 6, 8, 8)}, weights, ["y"], 17)


@pytest.mark.parametrize(
    ("make", "types"),
    [
        (lambda models: models.cnn(), "Conv2d DepthWiseConv2d Neuron FullyConnected"),
        (_decoder, "ResizeBilinear TransposeConv2d Concat StridedSlice Pool Reduce Eltwise_Binary"),
        (lambda models: transformer(), "LayerNorm MatMul Neuron Eltwise_Binary Softmax"),
    ],
)
def test_a_float_model(netron: Netron, models: Any, make: Any, types: str, tmp_path: Path) -> None:
    model = xdlc.convert(models.save(make(models)))
    assert {from_qnn(op.type, op.package, op.params)[0] for op in model.main.ops} >= set(types.split())
    netron.check(model, tmp_path / "net.dlc")


@pytest.mark.parametrize("options", [{}, {"act_bitwidth": 16, "weights_bitwidth": 4}])
def test_a_quantized_model(netron: Netron, models: Any, options: dict[str, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    samples = [{"x": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(2)]
    model = xdlc.quantize(xdlc.convert(models.save(models.cnn())), samples, **options)
    kinds = {tensor.dtype.kind for tensor in model.main.tensors.values()}
    assert {"ufixed", "sfixed"} <= kinds
    netron.check(model, tmp_path / "net.dlc")


def _holder(*statics: Tensor, **params: Param) -> Model:
    """Return a model of one custom op with static tensors of any type."""
    x, y = (Tensor(name, (1, 2), dtypes.FLOAT32) for name in "xy")
    return Model({"g": op_graph("Hold", [x, None, *statics], [y], params, package="tests")})


def test_every_data_type_and_awkward_names(netron: Netron, tmp_path: Path) -> None:
    numbers = np.array([[0, 1, 2], [3, 100, 127]])
    statics = [
        static(f"{dtype.name}/\u00e9\u65e5-{index}", numbers.astype(dtype.numpy), dtype)
        for index, dtype in enumerate(dtypes.BY_NAME.values())
        if dtype.bits >= 8 and dtype not in REFUSED
    ]
    assert len(statics) == 17
    statics += [
        static("Z", np.float32(1.5)),
        static("a", np.zeros((0, 3), np.float32)),
        static("Aa", np.array([[-128], [127]], np.int8), dtypes.SFIXED8, AxisScaleOffset(0, (0.5, 0.25))),
        static("per_tensor", np.array([7], np.uint8), dtypes.UFIXED8, ScaleOffset(0.1, -128)),
        static("four_bits", np.array([-8, 7], np.int8), dtypes.SFIXED8, ScaleOffset(0.1, 0, bits=4)),
        static("_", np.array([np.inf, -np.inf, np.nan], np.float32)),
    ]
    params: dict[str, Param] = {
        "small": f32(1e-5),
        "negative": i32(-3),
        "yes": b8(True),
        "no": b8(False),
        "rank0": static("p", np.float32(2)),
        "table": static("q", np.arange(6, dtype=np.int32).reshape(2, 3)),
    }
    netron.check(_holder(*statics, **params), tmp_path / "net.dlc")


def test_scalars_that_need_64_bits(netron: Netron, tmp_path: Path) -> None:
    model = _holder(large=u32((1 << 31) + 1), small=f32(1e-5))
    model.save(tmp_path / "net.dlc")
    assert netron.differences(model, tmp_path / "net.dlc", "--data-entry", data=True, reals=True) == []


def test_a_wide_graph_is_recognised(netron: Netron, tmp_path: Path) -> None:
    """Netron recognizes a flatbuffer only by the places of its root and vtable."""
    graph = Graph("wide")
    tensor = graph.add_input(Tensor("x", (1, 4), dtypes.FLOAT32))
    for index in range(500):
        weight = graph.add_tensor(static(f"w{index}", np.full(4, index, np.float32)))
        out = graph.add_tensor(Tensor(f"t{index}", (1, 4), dtypes.FLOAT32))
        graph.append(make_op(graph, "ElementWiseBinary", [tensor, weight], [out], {"operation": u32(0)}))
        tensor = out
    graph.add_output(tensor)
    model = Model()
    model.add_graph(graph)
    netron.check(model, tmp_path / "net.dlc")


def test_a_difference_is_found(netron: Netron, models: Any, tmp_path: Path) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    path = tmp_path / "net.dlc"
    model.save(path, version="4.0")
    weight = next(op for op in model.main.ops if op.type == "Conv2d").inputs[1]
    assert weight is not None
    changed = weight.numpy().copy()
    changed.reshape(-1)[-1] += 1
    weight.data = static("changed", changed).data
    (line,) = netron.differences(model, path, data=True)
    assert line.startswith(f"tensor {weight.name!r}: data has {weight.nbytes} bytes")


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name", ["yolox_nano", "ultraface_rfb320", "mlperf_resnet8", "mobilenet_v2_quant_nnstreamer"]
)
def test_a_real_model(netron: Netron, corpus: Path, name: str, tmp_path: Path) -> None:
    (path,) = (corpus / "onnx" / name).glob("*.onnx")
    netron.check(xdlc.convert(path), tmp_path / "net.dlc")
