"""Activation functions that read the result of a product unrounded: one instruction computes both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Graph, Op, ScaleOffset, Tensor
from xdlc.ir.quantization import float_data
from xdlc.opdefs.elementwise_enums import NEURON
from xdlc.prepare.hta.compile import scaling
from xdlc.runtime import args, htp_fusion

Array = Any  # numpy.ndarray


def functions(graph: Graph, result: Tensor) -> list[Op]:
    """Return the activation functions that read a result unrounded."""
    return [op for op in graph.consumers(result) if htp_fusion.reads_unrounded(op) is result]


def is_clip(function: Op) -> bool:
    """Return whether onnxruntime takes a function for the clipping that storing its result is anyway."""
    encoding = function.outputs[0].encoding
    return _name(function) == "Relu" and isinstance(encoding, ScaleOffset) and encoding.offset == 0


def constants(function: Op, made: scaling.Constants, steps: Array) -> scaling.Constants:
    """Return the constants of a product and the function behind it.

    Args:
        function: The function.
        made: Constants of the product, as if it were the function's result.
        steps: What a step of the accumulator stands for, per output channel.

    Raises:
        ConstraintError: If the slope of a Prelu is not one number, or one per channel.
    """
    name = _name(function)
    result = function.outputs[0].encoding
    if not isinstance(result, ScaleOffset):
        raise ConstraintError("has no single scale", where=f"tensor {function.outputs[0].name!r}")
    if name == "Relu":
        return replace(made, settings={**made.settings, "low": -result.offset})
    if name == "Prelu":
        return scaling.bent(made, steps * _slopes(function) / result.scale)
    if name == "HardSwish":
        low, high = ((limit + result.offset) * result.scale for limit in function.outputs[0].dtype.limits)
        return scaling.curved(made, steps, max(-low, high), result.scale)
    raise ConstraintError(f"{name} has no integer form behind a product")


def _name(function: Op) -> str:
    return args.operation(function, NEURON) if function.type == "ElementWiseNeuron" else function.type


def _slopes(function: Op) -> Array:
    import numpy as np

    source, slope = args.operand(function, 0), args.operand(function, 1)
    channels = source.shape[-1]
    if not slope.is_static or slope.size not in (1, channels) or slope.shape[-1:] != (slope.size,):
        raise ConstraintError(
            f"has slopes of shape {list(slope.shape)}, should be static, one number or {channels} of them"
        )
    return np.broadcast_to(float_data(slope).numpy().astype(np.float64).reshape(-1), (channels,))
