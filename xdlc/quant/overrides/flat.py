"""Encodings as one flat list in the terms of ONNX QuantizeLinear: AIMET's formats 2.0.0 and 2.1.0.

    {"version": "2.0.0",
     "encodings": [{"name": "x", "output_dtype": "uint8", "y_scale": 0.0078, "y_zero_point": 128},
                   {"name": "w", "output_dtype": "int8", "y_scale": [0.01, 0.02], "axis": 0}]}

Integers may be signed; ``real = (stored - y_zero_point) * y_scale``.  ``axis`` is that of the channels,
or with ``block_size`` that of the blocks, in the source's tensor.  Integer scales of blocks over a real
one per channel are ``per_block_int_scale`` and ``per_channel_float_scale``; 2.1.0 has them as
``y_scale: {"x": ..., "x_scale": ...}``.  Floats have no entries, unless as ``output_dtype``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.quant.overrides.fields import Fields, shown
from xdlc.quant.overrides.override import Grain, Override, Stated
from xdlc.quant.overrides.sections import INTEGER_BITS, expansion, positive

VERSION = "2.0.0"
SECTION = "encodings"
_FLOATS = {"float16": 16, "bfloat16": 16, "float32": 32, "float": 32}


def entries(content: Fields) -> Iterator[tuple[None, str, Any]]:
    """Iterate over the entries of a file: no kind, name, and the entry."""
    held = content.required(SECTION)
    if not isinstance(held, list):
        raise content.error(f"{SECTION} is {shown(held)}, not a list", "write a list of entries with names")
    for index, value in enumerate(held):
        yield None, Fields(value, f"{content.where}: {SECTION}[{index}]").text("name"), value


def read(name: str, value: Any, where: str) -> Override:
    """Return the encoding of one tensor.

    Raises:
        UsageError: If the entry is not of this format.
    """
    row = Fields(value, where)
    dtype = row.text("output_dtype").lower()
    if dtype in _FLOATS:
        return Override(name, None, _FLOATS[dtype], is_float=True, where=where)
    match = re.fullmatch(r"(u?)int(\d{1,2})", dtype)
    if match is None or int(match[2]) not in INTEGER_BITS:
        known = ", ".join(f"{sign}int{bits}" for bits in INTEGER_BITS for sign in ("", "u"))
        raise row.error(f"output_dtype is {shown(dtype)}", f"use one of {known}, or omit the entry")
    bits, signed = int(match[2]), not match[1]
    if isinstance(row.get("y_scale"), dict):
        inner = Fields(row.get("y_scale"), f"{where}: y_scale")
        return _expansion(name, row, bits, inner, "x", "x_scale")
    if "per_block_int_scale" in row:
        return _expansion(name, row, bits, row, "per_block_int_scale", "per_channel_float_scale")
    row.numbers("y_scale")
    scales, shape = row.flat("y_scale")
    axis = row.whole("axis") if "axis" in row else None
    size = positive(row, "block_size") if row.get("block_size") else None
    points = row.wholes("y_zero_point") or [0]
    if len(points) not in (1, len(scales)):
        raise row.error(
            f"has {len(points)} zero points for {len(scales)} scales", "give one zero point for each scale"
        )
    points = points * (len(scales) // len(points))
    block_axis, grain = None, Grain.TENSOR
    if size is not None:
        if axis is None:
            raise row.error("has blocks but no axis", "add the axis along which the blocks lie")
        block_axis, axis, order = _by_channel(row, "y_scale", shape, axis)
        scales, points, grain = [scales[i] for i in order], [points[i] for i in order], Grain.BLOCK
    elif shape and (axis is not None or len(scales) > 1):
        if axis is None or sum(dim > 1 for dim in shape) > 1:
            raise row.error(
                f"has {len(scales)} scales, which lie along no single axis",
                "write one scale for each index of an axis, and that axis",
            )
        grain = Grain.CHANNEL
    half = 1 << (bits - 1)
    offsets = [-point - (half if signed else 0) for point in points]
    symmetric = signed and not any(points)
    if grain is not Grain.TENSOR and not symmetric:
        raise row.error("has several scales but is not symmetric", "use a signed type without zero points")
    sides: dict[str, Any] = {"axis": axis, "block_axis": block_axis, "block_size": size}
    override = Override.of_scales(
        name, None, Stated(bits), scales, offsets, grain=grain, where=where, **sides
    )
    return replace(override, symmetric=symmetric)


def _by_channel(
    row: Fields, key: str, shape: tuple[int, ...], axis: int
) -> tuple[int, int | None, list[int]]:
    """Return block axis, channel axis, and the places of scales with the blocks of a channel together."""
    rank = len(shape)
    if not rank or not -rank <= axis < rank:
        raise row.error(
            f"{key} has {rank} axes, the block axis is {axis}", "write the scales in the tensor's axes"
        )
    block_axis = axis % rank
    others = [index for index, dim in enumerate(shape) if dim > 1 and index != block_axis]
    if len(others) > 1:
        raise row.error(f"{key} of shape {list(shape)} has more than two axes", "give a scale to each block")
    channel_axis = others[0] if others else (1 if block_axis == 0 and rank > 1 else 0)
    if channel_axis == block_axis:
        return block_axis, None, list(range(shape[0]))
    stride = [1] * rank
    for index in range(rank - 2, -1, -1):
        stride[index] = stride[index + 1] * shape[index + 1]
    order = [
        channel * stride[channel_axis] + block * stride[block_axis]
        for channel in range(shape[channel_axis])
        for block in range(shape[block_axis])
    ]
    return block_axis, channel_axis, order


def _expansion(name: str, row: Fields, bits: int, held: Fields, integers: str, scales: str) -> Override:
    values, shape = held.wholes(integers), held.flat(integers)[1]
    if values is None or "axis" not in row:
        raise row.error(f"has {integers} but no axis", "add the axis along which the blocks lie")
    block_axis, channel_axis, order = _by_channel(row, integers, shape, row.whole("axis"))
    for key in ("y_zero_point", "x_zero_point"):
        if any(row.wholes(key) or ()) or any(held.wholes(key) or ()):
            raise row.error(f"has a {key} other than 0", "write blocks without zero points")
    made = expansion(name, None, row, bits, bits, held.numbers(scales), [values[place] for place in order])
    return replace(made, axis=channel_axis, block_axis=block_axis)


def write(overrides: Sequence[Override], grids: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Return the content of a file; what stays float has no entry.

    Args:
        overrides: The encodings; those of several scales with their axes.
        grids: For tensors with scales of blocks, by name: number of axes in the source, and of channels.
    """
    return {
        "version": VERSION,
        SECTION: [
            _entry(override, *grids.get(override.name, (0, 0)))
            for override in overrides
            if not override.is_float
        ],
    }


def _entry(override: Override, rank: int, channels: int) -> dict[str, Any]:
    sign = "" if override.symmetric else "u"
    made: dict[str, Any] = {"name": override.name, "output_dtype": f"{sign}int{override.bits}"}
    half = 1 << (override.bits - 1) if override.symmetric else 0
    if override.grain is Grain.TENSOR:
        made["y_scale"] = override.scales[0]
        if override.offsets[0] + half:
            made["y_zero_point"] = -override.offsets[0] - half
        return made
    if override.grain is Grain.CHANNEL:
        return made | {"y_scale": list(override.scales), "axis": override.axis}
    axes = (override.axis or 0, override.block_axis or 0)
    if override.grain is Grain.BLOCK:
        made["y_scale"] = _nested(override.scales, channels, axes, rank)
    else:
        made["per_block_int_scale"] = _nested(override.block_scales, channels, axes, rank)
        made["per_channel_float_scale"] = _nested(override.scales, channels, axes, rank)
    return made | {"axis": override.block_axis, "block_size": override.block_size}


def _nested(values: Sequence[float], channels: int, axes: tuple[int, int], rank: int) -> Any:
    """Return values, those of a channel after one another, as rows in the axes of the source's tensor."""
    import numpy as np

    array = np.array(values).reshape((channels, -1) + (1,) * (rank - 2))
    return np.moveaxis(array, (0, 1), axes).tolist()
