"""Eager-mode quantized operators, on floats between quantize and dequantize.

A quantized tensor is held as its dequantized value and its quantizer; weights stay the integers that the
file has (aten/src/ATen/native/quantized/cpu).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.pytorch.calls import ScalarType
from xdlc.converter.pytorch.script.overloads import chosen
from xdlc.converter.pytorch.script.recorder import Recorder
from xdlc.converter.pytorch.script.types import FLOAT32, INT64
from xdlc.converter.pytorch.script.values import Object, Quantizer, Tensor
from xdlc.errors import UnsupportedOp

_PACKED = "packed parameters"
"""Kind of objects: weight, bias and options of an operator."""
_LIMITS = {12: (-128, 127), 13: (0, 255), 14: (-(1 << 31), (1 << 31) - 1)}
INTEGERS = {12: 1, 13: 0, 14: 3}
"""Types of the integers of quantized types."""
_MOVING = frozenset(
    """
    view reshape flatten permute transpose squeeze unsqueeze slice select max_pool1d max_pool2d max_pool3d
    relu cat chunk split split_with_sizes unbind contiguous clone expand narrow t repeat stack index_select
    channel_shuffle pixel_shuffle upsample_nearest1d upsample_nearest2d upsample_nearest3d hardtanh relu6
    constant_pad_nd pad unflatten unfold flip roll
    """.split()  # noqa: SIM905 - a list literal would be longer
)
"""Operators whose results are values of their argument, which need no other rounding."""
_ROUNDED = (
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d"),
    *("avg_pool3d", "leaky_relu", "mean", "upsample_bilinear2d"),
)
"""Operators whose results are rounded to the steps of their argument."""
_UNSIGNED = 13
_UNIT = Quantizer(1 / 256, 0)
_FIXED = {"sigmoid": _UNIT, "hardsigmoid": _UNIT, "tanh": Quantizer(2 / 256, 128)}
"""Quantizers of results whose range is known."""
_SMALLEST = 6.1e-5  # of a scale that is chosen from data
_FIX = "quantize the model with PT2E, or convert the float model and quantize that"


def kept(recorder: Recorder, name: str, arguments: dict[str, Any], operands: list[Tensor]) -> Any:
    """Return the result of an ATen operator, quantized if an operand is."""
    operator = name.partition(".")[0]
    if operator == "quantize_per_tensor":
        scale, zero_point = arguments["scale"], arguments["zero_point"]
        return _quantized(recorder, arguments["self"], scale, zero_point, arguments["dtype"])
    if operator == "dequantize":
        return recorder.call("clone", {"self": operands[0], "memory_format": None})
    quantizer = next((operand.quantizer for operand in operands if operand.quantizer is not None), None)
    if quantizer is None:
        return recorder.call(name, arguments)
    listed = next((value for value in arguments.values() if isinstance(value, list)), [])
    for index, operand in enumerate(listed):  # others are rounded to the steps of the first
        if isinstance(operand, Tensor) and operand.quantizer != quantizer:
            listed[index] = _rounded(recorder, operand, quantizer)
    result = recorder.call(name, arguments)
    items = result if isinstance(result, list) else [result]
    if operator not in _MOVING:
        is_fixed = operator in _FIXED and quantizer.dtype == _UNSIGNED
        if operator not in _ROUNDED and not is_fixed:
            raise _unknown(f"{name} of a quantized tensor")
        quantizer = _FIXED[operator] if is_fixed else quantizer
        items = [_rounded(recorder, item, quantizer) for item in items]
    for item in items:
        item.quantizer = quantizer
    return items if isinstance(result, list) else items[0]


def _unknown(what: str) -> UnsupportedOp:
    return UnsupportedOp(f"{what} is not supported in TorchScript", fix=_FIX)


def _quantized(recorder: Recorder, tensor: Tensor, scale: Any, zero_point: Any, dtype: int = 13) -> Tensor:
    """Return a float tensor as a quantized tensor."""
    scale, zero_point = (
        recorder.item(each) if isinstance(each, Tensor) else each for each in (scale, zero_point)
    )
    if isinstance(scale, Tensor) or isinstance(zero_point, Tensor):
        raise UnsupportedOp("a scale or zero point depends on data", fix=_FIX)
    return _rounded(recorder, tensor, Quantizer(float(scale), int(zero_point), dtype))


def _rounded(recorder: Recorder, tensor: Tensor, quantizer: Quantizer) -> Tensor:
    """Return a float tensor, rounded and with a quantizer."""
    if quantizer.dtype not in _LIMITS:
        raise UnsupportedOp("xdlc does not support tensors quantized to less than 8 bits", fix=_FIX)
    low, high = _LIMITS[quantizer.dtype]
    dtype = ScalarType(INTEGERS[quantizer.dtype])
    how = {"scale": quantizer.scale, "zero_point": quantizer.zero_point}
    given: dict[str, Any] = {**how, "quant_min": low, "quant_max": high, "dtype": dtype}
    space = "quantized_decomposed"
    integers = recorder.call("quantize_per_tensor", {"input": tensor, **given}, space, dtype)
    given["out_dtype"] = None
    made: Tensor = recorder.call("dequantize_per_tensor", {"input": integers, **given}, space, FLOAT32)
    made.quantizer = quantizer
    return made


def weight(data: Tensor, quantizer: Sequence[Any], recorder: Recorder) -> Tensor:
    """Return a stored quantized tensor as a dequantized float tensor.

    Its quantizer is its scheme, then scale and zero point, or tensors of these and an axis.
    """
    scheme, scales, zeros = str(quantizer[0]).removeprefix("torch."), *quantizer[1:3]
    if scheme not in ("per_tensor_affine", "per_channel_affine"):
        raise UnsupportedOp(f"weights quantized by the scheme {scheme} are not supported", fix=_FIX)
    arguments: dict[str, Any] = {
        "input": data,
        "quant_min": -128,
        "quant_max": 127,
        "dtype": data.dtype,
        "out_dtype": None,
    }
    if scheme == "per_tensor_affine":
        name, arguments["scale"], arguments["zero_point"] = "dequantize_per_tensor", float(scales), int(zeros)
    else:
        name, arguments["axis"] = "dequantize_per_channel", quantizer[3]
        arguments["scales"], arguments["zero_points"] = (
            recorder.cast(scales, FLOAT32),
            recorder.cast(zeros, INT64),
        )
    dequantized: Tensor = recorder.call(name, arguments, "quantized_decomposed", FLOAT32)
    return dequantized


def unpacked(recorder: Recorder, state: Any) -> Object:
    """Return packed parameters from the state that a file has."""
    if len(state) == 2:
        return _packed(*state)
    version, stored, optional = state
    known = recorder.known(stored[0]) if version == "2" else None
    options = [] if known is None else known.tolist()
    rank = options[0] if options else 0
    if len(options) < 4 * rank + 3 or not rank or options[4 * rank + 2]:
        raise _unknown("a transposed convolution, or an old form, of packed parameters is not supported")
    groups = [options[1 + index * rank : 1 + (index + 1) * rank] for index in range(3)]
    return _packed(stored[1], optional[0], *groups, options[4 * rank + 1])


def _packed(weight: Any, bias: Any, *options: Any) -> Object:
    """Return packed parameters: stride, padding, dilation, groups of a convolution."""
    return Object(_PACKED, fields={"weight": weight, "bias": bias, "options": options})


def applied(recorder: Recorder, name: str, arguments: list[Any]) -> Any:
    """Return the result of an operator ``quantized::name``."""
    operator, is_relu = name.removesuffix("_relu"), name.endswith("_relu")
    if operator in ("linear_prepack", "conv1d_prepack", "conv2d_prepack", "conv3d_prepack"):
        return _packed(*arguments)
    if operator == "linear_dynamic":
        most = 127 if len(arguments) > 2 and arguments[2] else 255
        result = _product(recorder, "linear", _dynamic(recorder, arguments[0], most), arguments[1])
        return _applied(recorder, "relu", [result]) if is_relu else result
    if operator in ("linear", "conv1d", "conv2d", "conv3d"):
        result = _product(recorder, operator, arguments[0], arguments[1])
    elif operator in ("add", "mul", "cat") and len(arguments) == 4 and arguments[2] is not None:
        result = _applied(recorder, operator, arguments[:2])
    elif name in ("hardswish", "sigmoid", "leaky_relu"):
        result = _applied(recorder, name, arguments[: 2 if name == "leaky_relu" else 1])
    else:
        raise _unknown(f"operator quantized::{name}")
    if is_relu:
        result = _applied(recorder, "relu", [result])
    return _quantized(recorder, result, *arguments[-2:])


def _applied(recorder: Recorder, name: str, given: list[Any]) -> Any:
    """Record an operator of ATen."""
    return recorder.call(*chosen(name, given, {}))


def _product(recorder: Recorder, name: str, tensor: Tensor, packed: Any) -> Any:
    """Record a convolution or matrix product with packed parameters."""
    if not isinstance(packed, Object) or packed.kind != _PACKED:
        raise UnsupportedOp(f"quantized::{name} has no packed parameters", fix=_FIX)
    fields = packed.fields
    options = [list(each) if isinstance(each, list | tuple) else each for each in fields["options"]]
    return _applied(recorder, name, [tensor, fields["weight"], fields["bias"], *options])


def _dynamic(recorder: Recorder, tensor: Tensor, most: int) -> Tensor:
    """Return a tensor rounded to at most ``most`` steps between its extremes.

    The formula is that of ``ChooseQuantizationParams`` (aten/src/ATen/native/quantized/cpu/QuantUtils.h).
    """

    def apply(name: str, *given: Any) -> Any:
        return _applied(recorder, name, list(given))

    zero = recorder.array(np.zeros((), np.float32), FLOAT32)
    low = apply("minimum", apply("min", tensor), zero)
    high = apply("maximum", apply("max", tensor), zero)
    step = apply("div", apply("sub", high, low), float(most))
    step = apply("where", apply("eq", step, 0.0), recorder.array(np.float32(0.1), FLOAT32), step)
    shift = apply("clamp", apply("round", apply("neg", apply("div", low, step))), 0.0, float(most))
    step = apply("maximum", step, recorder.array(np.float32(_SMALLEST), FLOAT32))
    steps = apply("round", apply("add", apply("mul", tensor, apply("reciprocal", step)), shift))
    made: Tensor = apply("mul", apply("sub", apply("clamp", steps, 0.0, 255.0), shift), step)
    return made
