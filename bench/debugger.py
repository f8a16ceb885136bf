"""Planted faults: does the debugger name the op of each, and how long does it take?

    python -m bench.debugger [--frameworks onnx pytorch tensorflow tflite caffe] [--other_samples]

A small network of each framework, made here with seeded weights, is converted, quantized, and run for raw
results.  One fault at a time is planted into the DLC, its quantized form or the results, and the source model
is the reference.  A line for each fault has the verdict, the op that is named, its error alone, and the time.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from tests.converter.caffe import nets
from xdlc.compare.engines import HostEngine, computed
from xdlc.debug.report import DebugReport
from xdlc.ir import ArrayData, AxisScaleOffset, Model, Op, Scalar, ScaleOffset, Tensor
from xdlc.ir.partitions import entering, partition_of

SIDE, CHANNELS, CLASSES = 24, 16, 10
MATRICES = ("Conv2d", "FullyConnected", "MatMul", "DepthWiseConv2d")
Array = Any
Network = Callable[[Path], tuple[Path, dict[str, Any]]]
Plant = Callable[[Model, dict[str, Array], Mapping[str, Array]], str]
FRAMEWORKS: dict[str, Network] = {}


def network(build: Network) -> Network:
    """Register what writes a network, under its own name."""
    FRAMEWORKS[build.__name__] = build
    return build


@network
def onnx(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the network as ONNX model."""
    import onnx as package
    from onnx import helper, numpy_helper

    random = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> Any:
        spread = (2.0 / np.prod(shape[1:])) ** 0.5
        return numpy_helper.from_array((random.standard_normal(shape) * spread).astype("f4"), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], name="first", pads=[0, 0, 1, 1], strides=[2, 2]),
        node("Relu", ["c1"], ["r1"], name="relu1"),
        node("Conv", ["r1", "w2", "b2"], ["c2"], name="depthwise", pads=[1, 1, 1, 1], group=CHANNELS),
        node("HardSwish", ["c2"], ["h2"], name="hardswish"),
        node("Conv", ["h2", "w3", "b3"], ["c3"], name="second", pads=[1, 1, 1, 1]),
        node("Add", ["c3", "r1"], ["a3"], name="add"),
        node("Relu", ["a3"], ["r3"], name="relu3"),
        node("GlobalAveragePool", ["r3"], ["p"], name="pool"),
        node("Flatten", ["p"], ["f"], name="flatten"),
        node("Gemm", ["f", "w4", "b4"], ["y"], name="dense", transB=1),
    ]
    stored = [weights("w1", CHANNELS, 3, 3, 3), weights("w2", CHANNELS, 1, 3, 3)]
    stored += [weights("w3", CHANNELS, CHANNELS, 3, 3), weights("w4", CLASSES, CHANNELS)]
    stored += [weights(name, size) for name, size in (("b1", 16), ("b2", 16), ("b3", 16), ("b4", 10))]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, (1, 3, SIDE, SIDE))],
        [helper.make_tensor_value_info("y", 1, (1, CLASSES))],
        stored,
    )
    opsets = [helper.make_opsetid("", 18)]
    package.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "net.onnx")
    return folder / "net.onnx", {}


@network
def pytorch(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the network as program of torch.export, with norms."""
    import torch
    from torch import nn

    torch.manual_seed(3)

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, CHANNELS, 3, padding=1, stride=2)
            self.norm1 = nn.BatchNorm2d(CHANNELS)
            self.depthwise = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
            self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
            self.norm2 = nn.BatchNorm2d(CHANNELS)
            self.dense = nn.Linear(CHANNELS, CLASSES)

        def forward(self, x: Any) -> Any:
            one = torch.relu(self.norm1(self.first(x)))
            two = self.norm2(self.second(nn.functional.hardswish(self.depthwise(one))))
            return self.dense(torch.relu(two + one).mean((2, 3)))

    net = Net().eval()
    for norm in (net.norm1, net.norm2):
        norm.running_mean.normal_(0, 0.1)
        norm.running_var.uniform_(0.2, 0.6)
    program = torch.export.export(net, (torch.zeros(1, 3, SIDE, SIDE),))
    torch.export.save(program, folder / "net.pt2")
    return folder / "net.pt2", {}


def _keras() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    layers = keras.layers
    source = keras.Input((SIDE, SIDE, 3), batch_size=1, name="x")
    first = layers.Conv2D(CHANNELS, 3, strides=2, padding="same", name="first")(source)
    one = layers.ReLU(name="relu1")(layers.BatchNormalization(name="norm1")(first))
    two = layers.DepthwiseConv2D(3, padding="same", activation="relu6", name="depthwise")(one)
    two = layers.Conv2D(CHANNELS, 3, padding="same", name="second")(two)
    pooled = layers.GlobalAveragePooling2D(name="pool")(
        layers.ReLU(name="relu3")(layers.Add(name="add")([two, one]))
    )
    model = keras.Model(source, layers.Dense(CLASSES, name="dense")(pooled))
    random = np.random.default_rng(3)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.moving_variance.assign(random.uniform(0.2, 0.6, CHANNELS))
        elif getattr(layer, "bias", None) is not None:
            layer.bias.assign(random.normal(0, 0.1, layer.bias.shape))
    return model


@network
def tensorflow(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the network as SavedModel."""
    import tensorflow as tf

    model = _keras()
    signature = tf.function(
        lambda x: {"y": model(x)}, input_signature=[tf.TensorSpec((1, SIDE, SIDE, 3), name="x")]
    )
    tf.saved_model.save(model, str(folder / "saved"), signatures=signature)
    return folder / "saved", {}


@network
def tflite(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the network as TFLite model."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(_keras())
    (folder / "net.tflite").write_bytes(converter.convert())
    return folder / "net.tflite", {}


@network
def caffe(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the network as Caffe net, with norms and scales."""
    random = np.random.default_rng(3)

    def weights(*shape: int) -> Array:
        return random.standard_normal(shape) * (2.0 / np.prod(shape[1:])) ** 0.5

    def convolution(extra: str) -> str:
        return f"convolution_param {{ num_output: {CHANNELS} kernel_size: 3 pad: 1 {extra} }}"

    text = "".join(
        [
            nets.data(1, 3, SIDE, SIDE),
            nets.layer("Convolution", convolution("stride: 2"), "data", "first"),
            nets.layer("BatchNorm", "", "first", "norm1"),
            nets.layer("Scale", "scale_param { bias_term: true }", "norm1", "scale1"),
            nets.layer("ReLU", "", "scale1", "relu1"),
            nets.layer("Convolution", convolution(f"group: {CHANNELS}"), "relu1", "depthwise"),
            nets.layer("ReLU", "", "depthwise", "relu2"),
            nets.layer("Convolution", convolution(""), "relu2", "second"),
            nets.layer("Eltwise", "", "second relu1", "add"),
            nets.layer("ReLU", "", "add", "relu3"),
            nets.layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", "relu3", "pool"),
            nets.layer("InnerProduct", f"inner_product_param {{ num_output: {CLASSES} }}", "pool", "dense"),
        ]
    )
    size = CHANNELS
    stored = {
        "first": [weights(size, 3, 3, 3), weights(size)],
        "norm1": [weights(size) * 0.1, random.uniform(0.5, 1.5, size), np.ones(1)],
        "scale1": [random.uniform(0.5, 1.5, size), weights(size)],
        "depthwise": [weights(size, 1, 3, 3), weights(size)],
        "second": [weights(size, size, 3, 3), weights(size)],
        "dense": [weights(CLASSES, size), weights(CLASSES)],
    }
    return nets.write(folder, text, stored)


# Faults: each changes a copy of the DLC, or results by name, and returns the name of the op.


def _matrix(model: Model, place: int) -> tuple[Op, Tensor]:
    """Return an op with weights, and them."""
    ops = [op for op in model.main.ops if op.type in MATRICES]
    weights = ops[place].inputs[1]
    assert weights is not None
    return ops[place], weights


def _weights(change: Callable[[Array], Array], place: int = 0, slot: int = 1) -> Callable[[Model], str]:
    def plant(model: Model) -> str:
        op, _ = _matrix(model, place)
        tensor = op.inputs[slot]
        assert tensor is not None
        limits = np.iinfo(tensor.dtype.numpy) if tensor.dtype.is_fixed else None
        values = change(tensor.numpy().astype("f8"))
        values = values if limits is None else np.clip(np.rint(values), limits.min, limits.max)
        tensor.data = ArrayData(np.ascontiguousarray(values.astype(tensor.dtype.numpy)))
        return op.name

    return plant


def _encoding(scale: float, offset: int, place: int) -> Callable[[Model], str]:
    def plant(model: Model) -> str:
        op, tensor = _matrix(model, place)
        old = tensor.encoding
        if isinstance(old, AxisScaleOffset):
            scales, offsets = (
                [number * scale for number in old.scales],
                [number + offset for number in old.offsets],
            )
            tensor.encoding = dataclasses.replace(old, scales=tuple(scales), offsets=tuple(offsets))
        else:
            assert isinstance(old, ScaleOffset)
            tensor.encoding = dataclasses.replace(old, scale=old.scale * scale, offset=old.offset + offset)
        return op.name

    return plant


def _range(scale: float, shift: int) -> Callable[[Model], str]:
    def plant(model: Model) -> str:
        op = next(op for op in model.main.ops if op.type == "ElementWiseBinary")
        tensor = op.outputs[0]
        old = tensor.encoding
        assert isinstance(old, ScaleOffset)
        tensor.encoding = dataclasses.replace(old, scale=old.scale * scale, offset=old.offset + shift)
        return op.name

    return plant


def _nan(values: Array) -> Array:
    values.flat[3] = np.nan
    return values


def _outlier(values: Array) -> Array:
    values.flat[5] = 40 * np.abs(values).max()
    return values


def _param(name: str, change: Callable[[Array], Array]) -> Callable[[Model], str]:
    def plant(model: Model) -> str:
        op = next(op for op in model.main.ops if name in op.params and op.type in MATRICES)
        tensor = op.params[name]
        assert isinstance(tensor, Tensor)
        tensor.data = ArrayData(change(tensor.numpy()).astype(tensor.dtype.numpy))
        return op.name

    return plant


def _pad(values: Array) -> Array:
    """Return padding moved by one row from one end to the other."""
    rows = values.copy()
    rows[0] = rows[0][::-1] if rows[0][0] != rows[0][1] else [rows[0][0] + 1, rows[0][1] - 1]
    return rows


def _operation(type: str, value: int) -> Callable[[Model], str]:
    def plant(model: Model) -> str:
        op = next(op for op in model.main.ops if op.type == type)
        operation = op.params["operation"]
        assert isinstance(operation, Scalar)
        op.params["operation"] = dataclasses.replace(operation, value=value)
        return op.name

    return plant


def _results(change: Callable[[Array, Tensor], Array], place: int) -> Plant:
    """Return what changes the values of an op, and computes the later ones anew."""

    def plant(model: Model, values: dict[str, Array], feeds: Mapping[str, Array]) -> str:
        op, _ = _matrix(model, place)
        tensor, ops = op.outputs[0], list(model.main.ops)
        values[tensor.name] = change(values[tensor.name], tensor).astype("f4")
        later = ops[ops.index(op) + 1 :]
        names = [result.name for member in later for result in member.outputs]
        rest = partition_of(model.main, later, names)
        fed = {entry.name: {**feeds, **values}[entry.name] for entry in entering(later)}
        values.update(HostEngine(Model({rest.name: rest}, model.metadata)).values(fed, names))
        return op.name

    return plant


def _step(tensor: Tensor) -> float:
    assert isinstance(tensor.encoding, ScaleOffset)
    return tensor.encoding.scale


FLOAT: dict[str, Callable[[Model], str]] = {
    "padding at the other end": _param("pad_amount", _pad),
    "rows and columns of the kernel swapped": _weights(lambda w: np.swapaxes(w, 0, 1), 0),
    "filters in reverse order": _weights(lambda w: np.flip(w, -1), 2),
    "weights x 2": _weights(lambda w: w * 2, 1),
    "weights + 2 %": _weights(lambda w: w * 1.02, 2),
    "NaN in weights": _weights(_nan, 1),
    "one weight far too large": _weights(_outlier, 2),
    "bias + 0.5": _weights(lambda b: b + 0.5, 0, 2),
    "another activation": _operation("ElementWiseNeuron", 6),
    "difference in place of a sum": _operation("ElementWiseBinary", 18),
}
FIXED: dict[str, Callable[[Model], str]] = {
    "scale of weights x 2": _encoding(2.0, 0, 1),
    "zero point of weights + 1": _encoding(1.0, 1, 0),
    "zero point of weights - 1": _encoding(1.0, -1, 2),
    "weights rounded to multiples of 4": _weights(lambda w: np.rint(w / 4) * 4, 2),
    "range of a sum halved": _range(0.5, 0),
    "range of a sum shifted by a quarter": _range(1.0, 64),
    "bias x 2": _weights(lambda b: b * 2, 2, 2),
}


def _rounded_down(values: Array, tensor: Tensor) -> Array:
    """Return values of which every second one is a step lower, but none below the lowest."""
    is_even = np.arange(values.size).reshape(values.shape) % 2 == 0
    return np.where(is_even & (values > values.min()), values - _step(tensor), values)


DEVICE: dict[str, Plant] = {
    "rounded down": _results(_rounded_down, 2),
    "zero point off by one": _results(lambda values, tensor: values + _step(tensor), 1),
    "rows and columns swapped": _results(lambda values, _: np.swapaxes(values, 1, 2), 0),
}


Case = tuple[str, Model, str, str | None]


def cases(model: Model, quantized: Model, feeds: Sequence[dict[str, Array]], folder: Path) -> Iterator[Case]:
    """Iterate over name, DLC, candidate and op of each fault; None without a fault."""
    for title, base, faults in (("float", model, FLOAT), ("8 bits", quantized, FIXED)):
        yield f"{title}: none", base, "cpu", None
        for name, plant in faults.items():
            copy = base.clone()
            yield f"{title}: {name}", copy, "cpu", plant(copy)
    yield "results: none", quantized, str(folder / "none"), _write(quantized, feeds, folder / "none", None)
    for name, change in DEVICE.items():
        target = folder / name.replace(" ", "_")
        yield f"results: {name}", quantized, str(target), _write(quantized, feeds, target, change)


def _write(model: Model, feeds: Sequence[dict[str, Array]], folder: Path, change: Plant | None) -> str | None:
    """Write raw results with a fault, and return its op."""
    engine, names, op = HostEngine(model), computed(model.main), None
    for number, sample in enumerate(feeds):
        values = dict(engine.values(sample, names))
        if change is not None:
            op = change(model, values, sample)
        for name, array in values.items():
            path = folder / f"Result_{number}" / f"{name}.raw"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(np.ascontiguousarray(array, "<f4").tobytes())
    return op


def is_named(report: DebugReport, model: Model, op: str | None) -> bool:
    """Return whether a report names an op, by itself or by its source nodes; no op without a fault."""
    row = report.first_wrong
    if op is None or row is None:
        return op is None and row is None
    nodes = next(member.origin.nodes for member in model.main.ops if member.name == op)
    return row.op == op or (bool(nodes) and set(nodes) <= set(row.nodes))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frameworks", nargs="+", default=list(FRAMEWORKS), choices=list(FRAMEWORKS))
    parser.add_argument("--other_samples", action="store_true", help="samples that calibration had not")
    parser.add_argument("--act_bitwidth", type=int, default=8, choices=[8, 16])
    options = parser.parse_args()
    named = count = alarms = 0
    for framework in options.frameworks:
        with tempfile.TemporaryDirectory() as folder:
            source, files = FRAMEWORKS[framework](Path(folder))
            model = xdlc.convert(source, **files)
            entry, random = model.main.inputs[0], np.random.default_rng(1)
            feeds = [{entry.name: random.standard_normal(entry.shape).astype("f4")} for _ in range(8)]
            quantized = xdlc.quantize(model, feeds[:4], act_bitwidth=options.act_bitwidth)
            own = feeds[4:] if options.other_samples else feeds[:4]
            for name, dlc, candidate, op in cases(model, quantized, own, Path(folder) / "results"):
                start = time.monotonic()
                report = xdlc.debug(dlc, own, reference=f"{framework}:{source}", candidate=candidate, **files)
                seconds, row = time.monotonic() - start, report.first_wrong
                is_right = is_named(report, dlc, op)
                count += op is not None
                named += op is not None and is_right
                alarms += op is None and not is_right
                text = "" if row is None or row.isolated is None else f"{row.isolated.db:.1f} dB, {row.fault}"
                verdict = "right" if is_right else "WRONG"
                print(
                    f"{framework:10} {name:46} {verdict} {seconds:5.1f} s  {row and row.op}: {text}",
                    flush=True,
                )
    print(f"{named} of {count} ops named, {alarms} false alarms")
    return int(named < count or alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
