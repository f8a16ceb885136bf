"""ONNX: onnxruntime without optimizations."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

import xdlc
from fuzz.differential.frameworks import Framework, Refused, Undefined
from fuzz.differential.networks import Array, Network, Node, Tensor

RECURRENT = ("GRU", "LSTM", "RNN")
OTHER_SHAPE = re.compile(
    "shape mismatch|dimension mismatch|mismatch between|incompatible|could not be inferred|merge shape", re.I
)
"""Refusals of a whole for another shape than the one that ONNX infers."""
ODD = ("AffineGrid", "Conv", "ConvTranspose", "MaxUnpool", "TopK")
"""Operators of which onnxruntime computes some cases in its own way."""


def model_of(network: Network) -> Any:
    """Return the model of a network."""
    infos = []
    for name, tensor in network.inputs.items():
        sizes = network.sizes.get(name, tensor.shape)
        shape = [
            size if size == other else f"d{axis}_{size}"
            for axis, (size, other) in enumerate(zip(tensor.shape, sizes, strict=True))
        ]
        infos.append(
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)), shape
            )
        )
    nodes = [_node(node, f"n{index}", network.opset) for index, node in enumerate(network.nodes)]
    graph = helper.make_graph(
        nodes,
        "network",
        infos,
        [onnx.ValueInfoProto(name=name) for name in network.outputs],
        [numpy_helper.from_array(constant.array(), name) for name, constant in network.constants.items()],
    )
    imports = [helper.make_opsetid("", network.opset)]
    imports += [
        helper.make_opsetid(domain, 1) for domain in sorted({node.domain for node in network.nodes} - {""})
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _node(node: Node, name: str, opset: int) -> Any:
    result = helper.make_node(node.op, node.inputs, node.outputs, name, domain=node.domain)
    try:
        attributes: dict[str, Any] = onnx.defs.get_schema(node.op, opset, node.domain).attributes
    except onnx.defs.SchemaError:
        attributes = {}
    for key, value in node.attributes.items():
        if isinstance(value, dict):
            value = numpy_helper.from_array(Tensor(**value).array(), "value")
        type = attributes[key].type.value if key in attributes else None
        if type == onnx.AttributeProto.FLOAT and isinstance(value, int):
            value = float(value)
        result.attribute.append(helper.make_attribute(key, value, attr_type=type))
    return result


def outputs_of(content: bytes, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return a model's outputs by onnxruntime without optimizations.

    Raises:
        Refused: If onnxruntime refuses it.
        Undefined: If onnxruntime has no kernel for it, or the result is no tensor.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as states

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = {entry.name for entry in session.get_inputs()}
        results = session.run(None, {name: entry for name, entry in feeds.items() if name in names})
    except states.NotImplemented as error:
        raise Undefined("no kernel of onnxruntime") from error
    except (
        states.Fail,
        states.InvalidGraph,
        states.InvalidArgument,
        states.RuntimeException,
        ValueError,
    ) as error:
        if "No Op registered" in str(error) or "is under development" in str(
            error
        ):  # a version that it lacks
            raise Undefined("no such operator in onnxruntime") from error
        raise Refused(str(error).replace("\n", " ")[:300]) from error
    if not all(isinstance(entry, np.ndarray) for entry in results):
        raise Undefined("no tensor")
    return dict(zip([entry.name for entry in session.get_outputs()], results, strict=True))


def _check_window(node: Node, arrays: dict[str, Array]) -> None:
    """Leave out windows of which onnxruntime makes something else than ONNX defines.

    Raises:
        Undefined: If a kernel is larger than its padded input, which gives a count rounded towards zero;
            automatic padding ignores dilations; indices are those of another shape than the stated one; the
            only position of a grid is its end, not its beginning.
    """
    weight = arrays.get(node.inputs[1]) if node.op in ("Conv", "ConvTranspose") else None
    if weight is not None and not np.isfinite(weight).all():
        raise Undefined("infinite weights times padding")
    size = arrays.get(node.inputs[1]) if node.op == "AffineGrid" else None
    if size is not None and 1 in size[2:] and node.attributes.get("align_corners"):
        raise Undefined("a grid of one aligned position")
    if node.op == "TopK" and not node.attributes.get("sorted", 1):
        raise Undefined("an order that is not defined")
    if node.op == "MaxUnpool" and len(node.inputs) > 2:
        raise Undefined("MaxUnpool to a stated shape")
    if (
        "Pool" in node.op
        and "SAME" in node.attributes.get("auto_pad", "")
        and node.attributes.get("dilations")
    ):
        raise Undefined("a dilated pool with automatic padding")
    kernel, first = node.attributes.get("kernel_shape"), arrays.get(node.inputs[0] if node.inputs else "")
    automatic = node.attributes.get("auto_pad", "NOTSET")
    if not isinstance(kernel, list) or first is None or automatic not in ("NOTSET", "VALID"):
        return
    count = len(kernel)
    pads = (automatic == "NOTSET" and node.attributes.get("pads")) or [0] * (2 * count)
    rates = node.attributes.get("dilations") or [1] * count
    if first.ndim != count + 2 or len(pads) != 2 * count or len(rates) != count or node.op == "ConvTranspose":
        return
    for axis, size in enumerate(first.shape[2:]):
        if size + pads[axis] + pads[axis + count] < (kernel[axis] - 1) * rates[axis] + 1:
            raise Undefined("a kernel larger than its input")


class Onnx(Framework):
    """ONNX models."""

    name = "onnx"
    limits: ClassVar[Mapping[str, str]] = {
        # Which types and attributes an operator of that version has.
        "": r"Type Error: Type .* of input parameter|Unrecognized attribute|not defined for empty set",
        **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), "must be greater than 0"),
        "AffineGrid": "affine_grid.cc",  # sizes that are 0, or broadcast
        "Attention": "scale must be|attention_helper|narrowing_error",
        **dict.fromkeys(("Cast", "CastLike"), "saturate is only used"),
        "CenterCropPad": "does not match the number of axes",
        "ConvInteger": "conv_integer.cc:52|auto_pad == AutoPadType::NOTSET",  # a zero point for each channel
        "Conv": "auto_pad == AutoPadType::NOTSET",  # both kinds of padding are stated
        "ConvTranspose": "auto_pad == AutoPadType::NOTSET|cannot be used simultaneously",
        "GRU": "layout == 1|hidden_size",
        "GridSample": "expect linear, nearest or cubic",  # names of opset 16
        # Padding as wide as the kernel, or SAME where the stride is wider.
        **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), "pool_attributes.h:88|must be non-negative"),
        "MeanVarianceNormalization": "No valid axes",
        "Upsample": "upsamplebase.h",
        "LRN": r"size_ % 2 == 1",
        "LSTM": "layout == 1|hidden_size",
        "Mod": "CallModImpl",  # of floats as of integers
        "RNN": r"layout == 1|hidden_size|activations_.size",
    }

    def step(self, network: Network, node: Node, values: Sequence[Array | None]) -> list[Array]:
        """Return the results of one node by onnxruntime; constants stay constants."""
        arrays = {
            name: np.asarray(array)
            for name, array in zip(node.inputs, values, strict=True)
            if array is not None
        }
        _check_window(node, arrays)
        fixed = {name: network.constants[name] for name in arrays if name in network.constants}
        fed = {name: array for name, array in arrays.items() if name not in fixed}
        part = Network(
            "onnx",
            {name: Tensor(array.dtype.name, array.shape) for name, array in fed.items()},
            fixed,
            (node,),
            tuple(name for name in node.outputs if name),
            opset=network.opset,
        )
        results = self._outputs(part, fed)
        return [results[name] if name else np.zeros(0, np.float32) for name in node.outputs]

    def evaluate(self, network: Network, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return the outputs of the whole model by onnxruntime.

        The shapes that ONNX infers are not always those of its kernels, as of a pool that rounds its size up:
        the whole may be refused though each node runs.
        """
        try:
            outputs = self._outputs(network, feeds)
        except Refused as refusal:
            if len(network.nodes) == 1 or not OTHER_SHAPE.search(str(refusal)):
                raise
            values = self.walk(network, feeds)
            outputs = {name: values[name] for name in network.outputs}
        if any("kernel_shape" in node.attributes or node.op in ODD for node in network.nodes):
            self.walk(network, feeds)
        if "MeanVarianceNormalization" in network.ops() and any(
            not np.isfinite(each).all() for each in outputs.values()
        ):
            raise Undefined("a variance of 0 that is rounded")
        if any(node.op in RECURRENT for node in network.nodes) and not all(
            np.isfinite(each.array()).all() for each in network.constants.values()
        ):
            raise Undefined("a recurrence of infinite numbers or NaN, which onnxruntime bounds")
        return outputs

    def convert(self, network: Network, folder: Path, feeds: dict[str, Array]) -> xdlc.Model:
        """Convert the file of the model."""
        path = folder / "network.onnx"
        path.write_bytes(model_of(network).SerializeToString())
        dims = {
            name: [
                size if size == other else -1
                for size, other in zip(network.inputs[name].shape, sizes, strict=True)
            ]
            for name, sizes in network.sizes.items()
        }
        return xdlc.convert(path, dims or None, notify=lambda _: None)

    def step_of(self, node: Node, index: int, result: Array) -> float:
        """Return 1 for integers of QuantizeLinear, and tanh's error for recurrences."""
        return 1.0 if node.op == "QuantizeLinear" else 2e-7 if node.op in RECURRENT else 0.0

    def _outputs(self, network: Network, feeds: dict[str, Array]) -> dict[str, Array]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                content = model_of(network).SerializeToString()
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise Undefined("not to be written") from error
        return outputs_of(content, feeds)


@cache
def engine() -> Onnx:
    """Return the framework, with its engine loaded."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    return Onnx()
