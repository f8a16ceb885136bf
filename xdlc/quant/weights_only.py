"""Quantization of weights alone, beside float activations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xdlc.errors import UsageError
from xdlc.ir import (
    ArrayData,
    AxisScaleOffset,
    BlockScaleOffset,
    DType,
    Encoding,
    Graph,
    Model,
    Op,
    Tensor,
    TensorData,
    packed,
)
from xdlc.ir.data import Array, Transform
from xdlc.ir.dtype import FLOAT32, SFIXED4, SFIXED8
from xdlc.ir.encoding import integers
from xdlc.opdefs.traits import traits
from xdlc.options import spell
from xdlc.passes._fixed_point_plan import weight_axes
from xdlc.passes.stored_weights import WORD
from xdlc.quant.float_types import matmul_to_fully_connected
from xdlc.quant.op_specs import listed, weight_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.precision import Precision
from xdlc.quant.range_methods import Steps
from xdlc.quant.ranges import to_quantized
from xdlc.quant.weights import (
    WeightFit,
    block_encoding,
    row_scales,
    symmetric_method,
    weight_form,
    weight_steps,
)

_CHUNK = 1 << 20
"""Elements that are looked at in one go."""


def block_quantized(
    data: TensorData, bits: int, block: int, *, name: str = "weight"
) -> tuple[TensorData, BlockScaleOffset]:
    """Return float weights as integers with a scale per block, and their encoding.

    The scales have the least squared error up to four bits, and float16 holds them.  The integer farthest
    from zero is on the side of the largest value: blocks have an offset of 1 if that is above zero.  The
    integers take a byte each; they are computed when they are read, range by range if the floats are.

    Args:
        data: Floats, [channels out, channels in].
        bits: 2, 4 or 8.
        block: Channels in that share a scale; it divides their number.
        name: What errors call the weights.

    Raises:
        UsageError: If the blocks do not divide the channels.
        ModelError: If there are NaN or infinite values.
    """
    units, features = data.shape
    if block < 1 or features % block:
        raise UsageError(
            f"blocks of {block} do not divide the {features} input channels",
            where=f"static tensor {name!r}",
            fix="use a size that divides the channels, like 32",
        )
    options = QuantOptions()
    steps, fit = weight_steps(bits, options), symmetric_method(options).fit
    weight = Tensor(name, data.shape, FLOAT32)
    source = data if data.has_rows else ArrayData(data.numpy())
    scales, offsets = [np.zeros(0)], [np.zeros(0, np.int32)]
    count = max(1, _CHUNK // features)
    for start in range(0, units, count):
        stop = min(start + count, units)
        rows = np.ascontiguousarray(source.rows(start, stop), np.float32).reshape(-1, block)
        is_turned = (rows.max(axis=1) > -rows.min(axis=1)) & (steps.high < -steps.low)
        turned = rows * np.where(is_turned, np.float32(-1), np.float32(1))[:, None]
        scales.append(row_scales(turned, weight, steps, fit))
        offsets.append(is_turned.astype(np.int32))
        source.release_rows(start, stop)
    encoding = block_encoding(np.concatenate(scales).reshape(units, -1), weight, block, bits)
    encoding = replace(encoding, offsets=integers(np.concatenate(offsets)))
    return _integers(data, encoding, steps), encoding


def _integers(data: TensorData, encoding: AxisScaleOffset | BlockScaleOffset, steps: Steps) -> TensorData:
    """Return integers of rows that have a number of scales each."""
    units = data.shape[0]
    by_row = (np.asarray(numbers, np.float32) for numbers in (encoding.scales, encoding.offsets))
    scales, offsets = (ArrayData(numbers.reshape(units, -1)) for numbers in by_row)

    def rounded(rows: Array, scale: Array, offset: Array) -> Array:
        values = np.asarray(rows, np.float32).reshape(*scale.shape, -1) / scale[..., None]
        np.rint(values, out=values)
        values -= offset[..., None]
        return np.clip(values, steps.low, steps.high, out=values).astype(np.int8).reshape(rows.shape)

    return Transform([data, scales, offsets], rounded, data.shape, np.int8, by_rows=True)


def quantize_weights(model: Model, precision: Precision, options: QuantOptions) -> list[str]:
    """Store the weights of float products as integers; return notes.

    Args:
        precision: Bits of the weights of its main graph.
    """
    notes: list[str] = []
    forms: dict[tuple[TensorData, int | None, int], tuple[DType, Encoding, TensorData]] = {}
    widths: dict[TensorData, int] = {}
    count = 0
    expanded: dict[int, list[str]] = {}
    for graph in model.graphs.values():
        matmul_to_fully_connected(graph)
        for op in graph.ops:
            weight = _float_weight(graph, op)
            if weight is None or weight.data is None:
                continue
            default = options.weights_bitwidth
            bits = precision.weight_bits_of(op) if graph is model.main else widths.get(weight.data, default)
            widths.setdefault(weight.data, bits)
            if bits > SFIXED8.bits:
                continue
            axis = weight_axes(op).get(1)
            if (weight.data, axis, bits) not in forms:  # graphs of one network share the data of weights
                forms[weight.data, axis, bits] = _form(op, weight, WeightFit(axis, bits), options, notes)
            weight.dtype, weight.encoding, weight.data = forms[weight.data, axis, bits]
            count += 1
            size = options.weights_block_size
            if isinstance(weight.encoding, BlockScaleOffset) and size and size * bits % WORD:
                expanded.setdefault(bits, []).append(repr(op.name))
    for bits, names in expanded.items():
        notes.append(
            f"HTP computes blocks of {options.weights_block_size} of {bits} bits wrongly: xdlc prepares "
            f"weights of {listed(names)} as float16; blocks of a multiple of {WORD // bits} stay integers"
        )
    if not count:
        raise UsageError(
            "no op of the model has float weights to quantize",
            where=spell("weights_only"),
            fix="omit the option, or quantize the float model",
        )
    return [f"xdlc quantizes weights of {count} op(s), activations stay float", *notes]


def _float_weight(graph: Graph, op: Op) -> Tensor | None:
    """Return the weight of a float product if all its readers have it as their weight."""
    weight, result = weight_of(op), op.outputs[0]
    if weight is None or weight.dtype is not FLOAT32 or not result.dtype.is_float or not traits(op).macs:
        return None
    readers = graph.consumers(weight)
    is_alone = all(weight_of(reader) is weight and reader.inputs.count(weight) == 1 for reader in readers)
    return weight if is_alone and not graph.is_output(weight) else None


def _form(
    op: Op, weight: Tensor, fitted: WeightFit, options: QuantOptions, notes: list[str]
) -> tuple[DType, Encoding, TensorData]:
    """Return the type, the encoding and the integers of a weight."""
    assert weight.data is not None
    dtype, encoding = weight_form(op, weight, fitted, options, notes)
    if weight.rank == 2 and dtype is SFIXED8 and isinstance(encoding, AxisScaleOffset | BlockScaleOffset):
        data = _integers(weight.data, encoding, weight_steps(fitted.bits, options))
    else:
        data = weight.data.transform(lambda array: to_quantized(array, encoding, dtype), dtype=dtype.numpy)
    if isinstance(encoding, BlockScaleOffset) and fitted.bits <= SFIXED4.bits:
        used = fitted.bits if fitted.bits < SFIXED4.bits else None
        return SFIXED4, replace(encoding, bits=used), packed(data)
    return dtype, encoding, data
