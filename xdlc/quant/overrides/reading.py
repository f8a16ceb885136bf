"""Reader of encodings in files of any version."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdlc.errors import UsageError, XdlcError
from xdlc.ir.files import read_bytes
from xdlc.json_fields import Fields, Node, Scope, kind_of, shown
from xdlc.options import spell
from xdlc.quant.overrides.override import Grain, Override, Stated, normalised
from xdlc.quant.overrides.versions import (
    FLOAT_BITS,
    GRAINS,
    INTEGER_BITS,
    LISTS,
    MERGED,
    ROWS,
    Entry,
    Layout,
    Version,
    entries,
    version_of,
)

LARGEST = 128 << 20
"""Most bytes of a file, which uses about ten times as much memory once it is read."""
_FLOATS = {"float16": 16, "bfloat16": 16, "float32": 32, "float": 32}


@dataclass(frozen=True, slots=True)
class Overrides:
    """The encodings of a file.

    Attributes:
        entries: Encodings by name of the source's tensor.
        merged: Names of weights whose encodings are those after the conversion has merged factors into them.
    """

    where: str
    entries: dict[str, Override]
    merged: frozenset[str] = frozenset()


def read_overrides(source: str | os.PathLike[str] | Mapping[str, Any]) -> Overrides:
    """Return the encodings of a file, or of the content of such a file.

    The vendor's quantization_overrides and AIMET's formats 0.4.0, 0.5.0, 0.6.1, 1.0.0, 2.0.0 and 2.1.0 are
    recognized by their structure.

    Raises:
        StorageError: If the file cannot be read.
        UsageError: If it is not a file of encodings; several faults make one list of problems.
    """
    if isinstance(source, Mapping):
        where, content = "quantization_overrides", source
    elif not isinstance(source, str | os.PathLike):
        raise UsageError(
            f"expected a path or a mapping, found a value of type {type(source).__name__}",
            where=spell("quantization_overrides"),
            fix="pass the path of a JSON file, or a mapping with its content",
        )
    else:
        where = os.fspath(source)
        content = _parsed(_text(where), where)
    scope = Scope(where, UsageError)
    overrides: dict[str, Override] = {}
    top = Fields(Node(content), "the file", scope)
    with scope.collected():
        version = version_of(top)
        for entry in entries(top, version):
            try:
                override = _override(entry, version, scope)
                if override is not None and overrides.setdefault(entry.name, override) != override:
                    problem = "has a second, different encoding"
                    scope.report(entry.node.path, problem, "omit one of the two encodings")
            except XdlcError as error:
                scope.add(error)
    merged = top.value(MERGED)
    return Overrides(where, overrides, frozenset(map(str, merged if isinstance(merged, list) else ())))


def _text(path: str) -> bytes:
    data = read_bytes(path, LARGEST)
    if len(data) > LARGEST:
        raise UsageError(
            f"has more than {LARGEST >> 20} MiB, the limit for files of encodings",
            where=path,
            fix="pass the JSON file of encodings",
        )
    return data


def _parsed(data: bytes, where: str) -> Any:
    def constant(name: str) -> None:
        raise ValueError(f"JSON has no number {name}")

    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=constant)
    except RecursionError as error:
        raise UsageError("nests JSON values too deeply", where=where, fix="export the file again") from error
    except (UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"is not JSON: {error}", where=where, fix="export the file again") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = Counter(name for name, _ in pairs)
        raise ValueError(f"an object has the key {shown(names.most_common(1)[0][0])} twice")
    return members


def _override(entry: Entry, version: Version, scope: Scope) -> Override | None:
    """Return the encoding of a tensor; None after reporting its faults."""
    rows = _rows(entry.node, version, scope)
    if not rows or rows[0].is_faulty:
        return None
    if version.layout is Layout.ONE_LIST:
        override = _by_type(rows[0])
    else:
        override = _by_word(rows, version, zero_is_signed=entry.kind == "param")
    if override is None:
        return None
    if entry.kind == "activation" and override.grain is not Grain.TENSOR:
        problem = "is an activation with several scales"
        raise scope.error(entry.node.path, problem, "write one scale, or move the entry to param_encodings")
    if len(override.scales) > 1 and not override.symmetric:
        problem = "the entry has several scales but is not symmetric"
        raise scope.error(entry.node.path, problem, "make all scales symmetric, or write one scale")
    return replace(override, name=entry.name, kind=entry.kind, where=scope.place(entry.node.path))


def _by_word(rows: Sequence[Fields], version: Version, *, zero_is_signed: bool) -> Override | None:
    """Return the encoding of rows with a word for integers or floats."""
    first = rows[0]
    dtype = _dtype(first, version)
    if dtype in map(str.upper, version.floats):
        return Override("", None, _one_of(first, version.bits, FLOAT_BITS), is_float=True)
    if dtype != version.integer.upper():
        words = f"{version.integer} or {version.floats[0]}"
        first.report("dtype", f"dtype of the encoding is unknown: {shown(dtype)}", f"write {words}")
        return None
    return _by_rows(rows) if version.layout is Layout.ROWS else _by_lists(first, zero_is_signed)


def _rows(node: Node, version: Version, scope: Scope) -> list[Fields]:
    if version.layout is not Layout.ROWS:
        return [Fields(node, "the encoding", scope)]
    if not isinstance(node.value, list) or not node.value:
        content = "an empty one" if node.value == [] else kind_of(node.value)
        scope.report(node.path, f"expected a list of encodings, found {content}", "write [{...}]")
        return []
    nodes = list(node.items()) if len(node.value) > 1 else [Node(node.value[0], node.path)]
    return [Fields(item, "the encoding", scope) for item in nodes]


def _dtype(row: Fields, version: Version) -> str:
    return str(row.value("dtype") or version.integer).upper()


def _one_of(row: Fields, name: str, choices: tuple[int, ...]) -> int:
    """Return a number of bits; 0 after a report."""
    row.require(name, str(choices[len(choices) // 2]))
    bits = row.whole(name)
    if bits is not None and bits not in choices:
        known = ", ".join(map(str, choices))
        row.report(name, f"{name} of {row.what} is {bits}; known: {known}", f"use one of {known}")
    return bits or 0


def _flag(row: Fields, name: str) -> bool | None:
    """Return a truth value, also from the text True or False.

    The result is None if it is omitted.
    """
    value = row.value(name)
    if value is None or isinstance(value, bool):
        return value
    truth = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None
    if truth is None:
        row.wrong_type(name, "true or false")
    return truth


def _positive(row: Fields, name: str) -> int:
    """Return a whole number above 0; 0 after a report."""
    row.require(name, "16")
    number = row.whole(name)
    if number is not None and number < 1:
        row.report(name, f"{name} of {row.what} is {number}", "write a whole number from 1 on")
    return number or 0


# ------------------------------------------------------------------ up to 0.6.1


def _by_rows(rows: Sequence[Fields]) -> Override | None:
    scales = [_stated(row) for row in rows]
    if rows[0].is_faulty:
        return None
    bits = scales[0].bits
    for row, scale in zip(rows[1:], scales[1:], strict=True):
        if scale.bits != bits or _dtype(row, ROWS) != ROWS.integer.upper():
            raise row.error("differs from the first channel in bits or dtype", "give all channels the same")
    steps = [normalised(scale, row.place) for row, scale in zip(rows, scales, strict=True)]
    return Override.of(bits, steps, grain=Grain.CHANNEL if len(rows) > 1 else Grain.TENSOR)


def _stated(row: Fields) -> Stated:
    return Stated(
        _one_of(row, ROWS.bits, INTEGER_BITS),
        row.number("min"),
        row.number("max"),
        row.number("scale"),
        row.whole("offset"),
        _flag(row, ROWS.symmetric),
    )


# ------------------------------------------------------------------ 1.0.0


def _by_lists(row: Fields, zero_is_signed: bool) -> Override | None:
    word = str(row.value("enc_type") or "PER_TENSOR")
    grain = GRAINS.get(word.upper())
    if grain is None:
        problem = f"enc_type of the encoding is unknown: {shown(word)}"
        row.report("enc_type", problem, f"use one of {', '.join(GRAINS)}")
        return None
    return _scaled_blocks(row) if grain is Grain.EXPANSION else _affine(row, grain, zero_is_signed)


def _affine(row: Fields, grain: Grain, zero_is_signed: bool) -> Override | None:
    bits, symmetric = _one_of(row, LISTS.bits, INTEGER_BITS), _flag(row, LISTS.symmetric)
    scales, low, high = (row.numbers(key) for key in ("scale", "min", "max"))
    offsets = row.wholes("offset")
    size = _positive(row, "block_size") if grain is Grain.BLOCK else None
    if row.is_faulty:
        return None
    count = len(scales or low or ())
    if not count or any(len(values) not in (1, count) for values in (offsets, low, high) if values):
        raise row.error("scale and offset differ in length", "give one offset for each scale")
    if grain is Grain.TENSOR and count > 1:
        raise row.error(f"is PER_TENSOR with {count} scales", "write one scale, or enc_type PER_CHANNEL")
    stated = Stated(bits, symmetric=symmetric, zero_is_signed=zero_is_signed)
    if scales is not None and offsets is not None and low is None and high is None:
        offsets = offsets * count if len(offsets) == 1 else offsets
        return Override.of_scales(stated, scales, offsets, row.place, grain=grain, block_size=size)
    ends = [
        replace(
            stated,
            low=_at(low, index),
            high=_at(high, index),
            scale=_at(scales, index),
            offset=_at(offsets, index),
        )
        for index in range(count)
    ]
    steps = [normalised(scale, row.place) for scale in ends]
    return Override.of(bits, steps, grain=grain, block_size=size)


def _at(values: Sequence[Any] | None, index: int) -> Any:
    return None if values is None else values[index if len(values) > 1 else 0]


def _scaled_blocks(row: Fields) -> Override | None:
    bits, wide = _one_of(row, "compressed_bw", (2, 4)), _one_of(row, LISTS.bits, (8, 16))
    offsets = row.wholes("offset")
    integers, scales = row.wholes("per_block_int_scale"), row.numbers("scale")
    if row.is_faulty:
        return None
    halves = {0, -(1 << (bits - 1)), -(1 << (wide - 1))}
    if offsets is not None and not halves.issuperset(offsets):
        raise row.error("has offsets that are not symmetric", f"write -{1 << (wide - 1)} for each channel")
    return _expansion(row, bits, wide - bits, scales, integers)


def _expansion(
    row: Fields, bits: int, scale_bits: int, scales: list[float] | None, integers: list[int] | None
) -> Override | None:
    """Return a block encoding: integer scales of blocks times scales of channels."""
    size = _positive(row, "block_size")
    if row.is_faulty:
        return None
    if not scales or not integers or len(integers) % len(scales):
        raise row.error(
            f"has {len(integers or ())} scales of blocks for {len(scales or ())} channels",
            "give the same number of blocks to each channel",
        )
    if min(integers) < 1 or max(integers) > 1 << scale_bits:
        raise row.error(
            f"has scales of blocks that are not from 1 to {1 << scale_bits}",
            "write whole numbers in this range",
        )
    return Override.of(
        bits,
        [normalised(Stated(bits, scale=scale, symmetric=True), row.place) for scale in scales],
        grain=Grain.EXPANSION,
        block_size=size,
        block_scales=tuple(integers),
        block_scale_bits=scale_bits,
    )


# ------------------------------------------------------------------ from 2.0.0 on


def _by_type(row: Fields) -> Override | None:
    row.need("output_dtype", '"int8"')
    dtype = row.text("output_dtype").lower()
    if dtype in _FLOATS:
        return Override("", None, _FLOATS[dtype], is_float=True)
    types = {f"{sign}int{bits}": bits for bits in INTEGER_BITS for sign in ("", "u")}
    if dtype and dtype not in types:
        problem = f"output_dtype of the encoding is unknown: {shown(dtype)}"
        row.report("output_dtype", problem, f"use one of {', '.join(types)}, or omit the entry")
    bits, signed = types.get(dtype, 8), dtype.startswith("i")
    y_scale = row.node("y_scale")
    if y_scale is not None and isinstance(y_scale.value, dict):
        return _scaled_blocks_along(row, bits, Fields(y_scale, "y_scale", row.scope), "x", "x_scale")
    if "per_block_int_scale" in row:
        keys = "per_block_int_scale", "per_channel_float_scale"
        return _scaled_blocks_along(row, bits, row, *keys)
    row.require("y_scale", "0.1")
    scales, shape = row.numbers("y_scale") or [], row.array("y_scale")[1]
    axis, points = row.whole("axis"), row.wholes("y_zero_point") or [0]
    size = _positive(row, "block_size") if row.value("block_size") else None
    if row.is_faulty:
        return None
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
                f"has {len(scales)} scales, which fit no single axis",
                "write one scale for each index of an axis, and name the axis",
            )
        grain = Grain.CHANNEL
    half = 1 << (bits - 1)
    offsets = [-point - (half if signed else 0) for point in points]
    sides: dict[str, Any] = {"axis": axis, "block_axis": block_axis, "block_size": size}
    override = Override.of_scales(Stated(bits), scales, offsets, row.place, grain=grain, **sides)
    return replace(override, symmetric=signed and not any(points))


def _by_channel(
    row: Fields, key: str, shape: tuple[int, ...], axis: int
) -> tuple[int, int | None, list[int]]:
    """Return block axis, channel axis, and the order of scales by channel."""
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


def _scaled_blocks_along(
    row: Fields, bits: int, scaled: Fields, integers: str, scales: str
) -> Override | None:
    values, shape = scaled.wholes(integers), scaled.array(integers)[1]
    channels, axis = scaled.numbers(scales), row.whole("axis")
    points = {
        key: [*(row.wholes(key) or ()), *(scaled.wholes(key) or ())]
        for key in ("y_zero_point", "x_zero_point")
    }
    if row.is_faulty:
        return None
    if values is None or axis is None:
        raise row.error(f"has {integers} but no axis", "add the axis along which the blocks lie")
    block_axis, channel_axis, order = _by_channel(row, integers, shape, axis)
    for key, zeros in points.items():
        if any(zeros):
            raise row.error(f"has a {key} other than 0", "write blocks without zero points")
    override = _expansion(row, bits, bits, channels, [values[place] for place in order])
    return None if override is None else replace(override, axis=channel_axis, block_axis=block_axis)
