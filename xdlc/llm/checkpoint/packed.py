"""Linear maps as integers in checkpoints: GPTQ, AWQ and compressed-tensors.

Integers are packed in words of 32 bits, with a scale for each group of inputs: in GPTQ along the inputs, in
AWQ along the outputs, in an order of its own, in compressed-tensors along the inputs of each output.  They
become encodings with the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.data import Array
from xdlc.json_fields import fits, shown
from xdlc.llm.checkpoint.model import LazyWeights, Weight

_WORD = 32
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The output whose integer each position of a word of AWQ has."""
_FIX = "use the checkpoint with float weights, or a GGUF file of Q4_0 or Q8_0"
_AGAIN = "get the whole folder again"
_Tensors = Mapping[str, ir.TensorData]


@dataclass(frozen=True, slots=True)
class _Method:
    """A form of packed weights.

    Attributes:
        name: The ``quant_method`` of configs.
        parts: Ends of names: integers, scales, and zeros and groups that may be missing.
        bits: Bits of an integer.
        adds_one: Whether zeros are stored less one.
    """

    name: str
    parts: tuple[str, str, str, str]
    bits: int
    adds_one: bool = False


def packed_weights(stated: Any, tensors: _Tensors, where: str) -> Mapping[str, Weight]:
    """Return the parameters of a checkpoint with a quantization_config.

    Args:
        stated: The content of quantization_config.

    Raises:
        UnsupportedOp: If the method, or its form, is not supported.
        ModelError: If a part of a parameter is missing.
    """
    method = _method(stated, where)
    whole, scales, zeros, groups = (f".{part}" for part in method.parts)
    stems = [name.removesuffix(whole) for name in tensors if name.endswith(whole)]
    if not stems:
        raise ModelError(f"has no tensors named *{whole}", where=where, fix=_AGAIN)
    makers = {}
    for stem in stems:
        parts = [tensors.get(stem + part) for part in (whole, scales, zeros, groups)]
        makers[f"{stem}.weight"] = _maker(method, parts, f"{where}: {shown(stem)}")
    taken = {stem + part for stem in stems for part in (whole, scales, zeros, groups, ".weight_shape")}
    for name, data in tensors.items():
        if name not in taken:
            makers[name] = partial(Weight, data)
    return LazyWeights(makers)


def _method(stated: Any, where: str) -> _Method:
    """Return the method that a quantization_config names."""
    if not isinstance(stated, dict):
        raise ModelError("quantization_config is not an object", where=where, fix=_AGAIN)
    name, bits = stated.get("quant_method"), stated.get("bits", 4)
    if name == "gptq" and type(bits) is int and bits in (2, 4, 8):
        adds_one = stated.get("checkpoint_format", "gptq") == "gptq"
        return _Method("gptq", ("qweight", "scales", "qzeros", "g_idx"), bits, adds_one)
    if name == "awq" and bits == 4 and str(stated.get("version", "gemm")).lower() == "gemm":
        return _Method("awq", ("qweight", "scales", "qzeros", "g_idx"), 4)
    groups = stated.get("config_groups")
    if name == "compressed-tensors" and isinstance(groups, dict) and len(groups) == 1:
        (group,) = groups.values()
        weights = group.get("weights", {}) if fits(group, {"weights": dict}) else {}
        is_plain = stated.get("format") == "pack-quantized" and weights.get("symmetric") is True
        if is_plain and weights.get("type") == "int" and weights.get("num_bits") in (4, 8):
            parts = ("weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx")
            return _Method("compressed-tensors", parts, int(weights["num_bits"]))
    raise UnsupportedOp(
        f"xdlc does not support these weights, which {shown(str(name))} quantized; xdlc supports "
        "GPTQ of 2, 4 and 8 bits, AWQ of 4 bits (gemm), and symmetric pack-quantized compressed-tensors",
        where=where,
        fix=_FIX,
    )


def _maker(method: _Method, parts: list[ir.TensorData | None], where: str) -> Any:
    """Return what makes a parameter, whose parts fit each other."""
    words, scales, zeros, groups = parts
    per_word = _WORD // method.bits
    if words is None or scales is None or (zeros is None) != (method.name == "compressed-tensors"):
        raise ModelError(
            "the weight has no scales, or zero points that do not fit the method", where=where, fix=_AGAIN
        )
    if (len(words.shape), len(scales.shape), words.dtype.str) != (2, 2, "<i4"):
        raise ModelError("the weight needs int32 words and scales of 2 axes", where=where, fix=_AGAIN)
    rows, columns = words.shape
    if method.name == "gptq":
        outputs, inputs, count = columns, rows * per_word, scales.shape[0]
    elif method.name == "awq":
        outputs, inputs, count = columns * per_word, rows, scales.shape[0]
    else:
        outputs, inputs, count = rows, columns * per_word, scales.shape[1]
    expected = (outputs, count) if method.name == "compressed-tensors" else (count, outputs)
    fitting = scales.shape == expected and min(outputs, inputs, count) > 0 and inputs % count == 0
    if zeros is not None:
        fitting = fitting and zeros.shape == (count, outputs // per_word) and outputs % per_word == 0
        fitting = fitting and zeros.dtype == words.dtype
    if groups is not None:
        fitting = fitting and groups.shape == (inputs,) and groups.dtype.kind == "i"
    if not fitting:
        problem = (
            f"the weight has integers {list(words.shape)} and scales {list(scales.shape)}, which do not fit"
        )
        raise ModelError(problem, where=where, fix=_AGAIN)
    shape = (outputs, inputs)
    return partial(Weight.lazy, shape, partial(_read, method, words, scales, zeros, groups, shape, where))


def _read(
    method: _Method,
    words: ir.TensorData,
    scales: ir.TensorData,
    zeros: ir.TensorData | None,
    groups: ir.TensorData | None,
    shape: tuple[int, int],
    where: str,
) -> Weight:
    steps = scales.numpy().astype(np.float32)
    if method.name != "compressed-tensors":
        steps = steps.T
    count = steps.shape[1]
    if zeros is None:
        middles = np.full(steps.shape, 1 << (method.bits - 1), np.int32)
    else:
        middles = _unpacked(method, zeros.numpy(), 1).astype(np.int32).T + method.adds_one
    integers = words.transform(
        partial(_integers, method), shape=shape, dtype=np.uint8, by_rows=method.name == "compressed-tensors"
    )
    block = shape[1] // count
    order = None if groups is None else groups.numpy()
    if order is not None and not np.array_equal(order, np.arange(shape[1]) // block):
        if order.min() < 0 or order.max() >= count:
            raise ModelError("the weight has inputs in groups that do not exist", where=where, fix=_AGAIN)
        return Weight(integers.transform(partial(_gathered, steps, middles, order), dtype=np.float32))
    if not (np.isfinite(steps).all() and (steps > 0).all()):
        order = np.arange(shape[1]) // block
        return Weight(integers.transform(partial(_gathered, steps, middles, order), dtype=np.float32))
    positive: Any = np.ascontiguousarray(steps).reshape(-1)
    offsets: Any = np.ascontiguousarray(-middles).reshape(-1)
    bits = method.bits if method.bits < 8 else None
    return Weight(integers, ir.BlockScaleOffset((1, block), positive, offsets, bits))


def _gathered(steps: Array, middles: Array, order: Array, integers: Array) -> Array:
    """Return values of integers whose inputs have groups in any order."""
    return (integers.astype(np.int32) - middles[:, order]).astype(np.float32) * steps[:, order]


def _integers(method: _Method, words: Array) -> Array:
    """Return the integers of words: [outputs, inputs]."""
    if method.name == "gptq":
        return _unpacked(method, words, 0).T
    integers = _unpacked(method, words, 1)
    return integers.T if method.name == "awq" else integers


def _unpacked(method: _Method, words: Array, axis: int) -> Array:
    """Return the integers of words as uint8, unpacked along an axis."""
    count = _WORD // method.bits
    shifts = np.arange(0, _WORD, method.bits, dtype=np.uint32)
    if method.name == "awq":
        shifts = shifts[np.argsort(_AWQ_ORDER)]
    apart = np.expand_dims(words.astype(np.int32).view(np.uint32), axis + 1)
    apart = apart >> shifts.reshape((count, 1) if axis == 0 else (count,)) & ((1 << method.bits) - 1)
    shape = list(words.shape)
    shape[axis] *= count
    return apart.astype(np.uint8).reshape(shape)
