"""TFLite: LiteRT with its reference kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import xdlc
from fuzz.differential.frameworks import Framework, Refused, Undefined
from fuzz.differential.networks import Array, Grid, Network, Node, Tensor
from tests.converter.tflite.models import TinyModel
from xdlc.container.flatbuffer_encode import encode

BY_LAST_AXIS = {"DEPTHWISE_CONV_2D"}
"""Operators whose weights have a scale for each entry of the last axis, not of the first."""


def content_of(network: Network, shapes: Mapping[str, tuple[int, ...]]) -> bytes:
    """Return the file of a network; shapes of results are those given, else scalars."""
    model, indices = TinyModel(), {"": -1}
    types = {}
    for name, tensor in network.inputs.items():
        indices[name] = model.tensor(name, tensor.shape, np.dtype(tensor.dtype), **_grid(tensor.quantization))
        types[name] = tensor.dtype
    last = {node.inputs[1] for node in network.nodes if node.op in BY_LAST_AXIS and len(node.inputs) > 1}
    for name, tensor in network.constants.items():
        array = tensor.array()
        axis = array.ndim - 1 if name in last else 0
        indices[name] = model.tensor(
            name, data=array, dtype=array.dtype, axis=axis, **_grid(tensor.quantization)
        )
        types[name] = tensor.dtype
    for node in network.nodes:
        first = next((types[name] for name in node.inputs if name), "float32")
        for index, name in enumerate(node.outputs):
            types[name] = node.types[index] if index < len(node.types) else first
            grid = node.quantization[index] if index < len(node.quantization) else None
            indices[name] = model.tensor(name, shapes.get(name, ()), np.dtype(types[name]), **_grid(grid))
        inputs, outputs = ([indices[name] for name in names] for names in (node.inputs, node.outputs))
        model.op(node.op, inputs, outputs, **node.attributes)
    model.graphs[0].inputs = [indices[name] for name in network.inputs]
    model.graphs[0].outputs = [indices[name] for name in network.outputs]
    return bytes(encode(model.build()))


def _grid(grid: Grid | None) -> dict[str, Any]:
    return {} if grid is None else {"scale": grid[0], "zero": grid[1]}


class Tflite(Framework):
    """TFLite models."""

    name = "tflite"
    margin = 2.5
    limits: ClassVar[Mapping[str, str]] = {
        "": r"Unsupported data type|<= INT\d*_MAX",  # enumerations without effect; large strides
        "ARG_MAX": "Unknown index output data type",
        "ARG_MIN": "Unknown index output data type",
        "CONCATENATION": "activation != kTfLiteActNone",
        "L2_NORMALIZATION": "kTfLiteActNone",
        "STRIDED_SLICE": "INT32_MIN",
        "FULLY_CONNECTED": "activation == kTfLiteAct",
    }

    def step(self, network: Network, node: Node, values: Sequence[Array | None]) -> list[Array]:
        """Return the results of one operator by LiteRT."""
        arrays = {
            name: np.asarray(array)
            for name, array in zip(node.inputs, values, strict=True)
            if array is not None
        }
        fixed = {name: network.constants[name] for name in arrays if name in network.constants}
        grids = grids_of(network)
        fed = {
            name: Tensor(array.dtype.name, array.shape, quantization=grids.get(name))
            for name, array in arrays.items()
            if name not in fixed
        }
        part = Network("tflite", fed, fixed, (node,), node.outputs)
        return list(self._outputs(part, arrays, {}).values())

    def evaluate(self, network: Network, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return the outputs of the whole model.

        Both sets of LiteRT's kernels compute it: SUM of int8 wraps in the reference kernels and saturates
        in the others.
        """
        for node in network.nodes:
            if node.op == "LOCAL_RESPONSE_NORMALIZATION" and node.attributes.get("beta", 0.0) > 1e3:
                raise Undefined("a high power of a rounded sum")
            sizes = network.constants.get(node.inputs[1]) if node.op == "RESIZE_BILINEAR" else None
            if sizes and node.quantization[0] and sizes.array().max(initial=0) > 16:
                raise Undefined("LiteRT steps by whole 1/1024 of a position")
            dropped = node.attributes.get("shrink_axis_mask", 0)
            steps = network.constants.get(node.inputs[3]) if dropped and len(node.inputs) > 3 else None
            if steps and any(step < 0 and dropped >> axis & 1 for axis, step in enumerate(steps.array())):
                raise Undefined("LiteRT leaves a dropped axis of a negative stride unwritten")
        shapes = self._shapes(network, feeds)
        outputs = self._outputs(network, feeds, shapes)
        others = self._outputs(network, feeds, shapes, optimized=True)
        for name in network.outputs:
            if outputs[name].dtype == np.int8:
                apart = np.abs(outputs[name].astype(int) - others[name].astype(int))
                if apart.max(initial=0) > 2:
                    raise Undefined("the kernels of LiteRT differ")
        if "LOCAL_RESPONSE_NORMALIZATION" in network.ops():
            return others  # the reference kernel leaves out the last channel of a window
        return outputs

    def convert(self, network: Network, folder: Path, feeds: dict[str, Array]) -> xdlc.Model:
        """Convert the model's file with the shapes that LiteRT computes."""
        try:
            shapes = self._shapes(network, feeds)
        except Refused:
            shapes = {}
        path = folder / "network.tflite"
        path.write_bytes(content_of(network, shapes))
        dims = {
            name: [
                size if size == other else -1
                for size, other in zip(network.inputs[name].shape, sizes, strict=True)
            ]
            for name, sizes in network.sizes.items()
        }
        return xdlc.convert(path, dims or None, notify=lambda _: None)

    def step_of(self, node: Node, index: int, result: Array) -> float:
        """Return 1 for scaled integers, and the error of float32 positions up to 64."""
        if index < len(node.quantization) and node.quantization[index]:
            return 1.0
        is_float = result.dtype.kind == "f"
        if node.op == "RESIZE_BILINEAR" and is_float:
            return 8e-6 * float(np.max(np.abs(result), initial=0, where=np.isfinite(result)))
        return 0.0

    def real(self, network: Network, name: str, value: Array) -> Array:
        """Return the numbers that integers with a scale stand for."""
        grid, value = grids_of(network).get(name), np.asarray(value)
        if grid is None or value.dtype.kind == "f":
            return value
        return (value.astype(np.float64) - grid[1]) * grid[0]

    def _shapes(self, network: Network, feeds: dict[str, Array]) -> dict[str, tuple[int, ...]]:
        return {name: np.shape(each) for name, each in self.walk(network, feeds).items()}

    def _outputs(
        self,
        network: Network,
        feeds: Mapping[str, Array],
        shapes: Mapping[str, tuple[int, ...]],
        *,
        optimized: bool = False,
    ) -> dict[str, Array]:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        kernels = (
            OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if optimized else OpResolverType.BUILTIN_REF
        )
        content = content_of(network, shapes)
        try:
            engine = Interpreter(
                model_content=content,
                num_threads=1,
                experimental_op_resolver_type=kernels,
            )
            details = engine.get_input_details()
            for name, detail in zip(network.inputs, details, strict=True):
                if tuple(detail["shape"]) != np.shape(feeds[name]):
                    engine.resize_tensor_input(detail["index"], np.shape(feeds[name]))
            engine.allocate_tensors()
            for name, detail in zip(network.inputs, details, strict=True):
                engine.set_tensor(detail["index"], feeds[name])
            engine.invoke()
            indices = [detail["index"] for detail in engine.get_output_details()]
            return {
                name: engine.get_tensor(index) for name, index in zip(network.outputs, indices, strict=True)
            }
        except (RuntimeError, ValueError) as error:
            raise Refused(str(error).replace("\n", " ")[:300]) from error


def grids_of(network: Network) -> dict[str, Grid]:
    """Return scale and zero point by name of inputs and results."""
    pairs = [(name, each.quantization) for name, each in network.inputs.items()]
    for node in network.nodes:
        pairs += zip(node.outputs, node.quantization, strict=False)
    return {name: grid for name, grid in pairs if grid is not None}


@cache
def engine() -> Tflite:
    """Return the framework, with its engine loaded."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import ai_edge_litert.interpreter  # noqa: F401

    return Tflite()
