"""Encodings of a quantized model as a file, with tensor names of the source."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xdlc.errors import UsageError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Graph,
    Model,
    Op,
    ScaleOffset,
    Tensor,
)
from xdlc.ir.files import replace_text
from xdlc.options import spell
from xdlc.quant.op_specs import is_real, rule_of, single_name, why_float
from xdlc.quant.overrides.matching import source_names
from xdlc.quant.overrides.override import Grain, Override
from xdlc.quant.overrides.versions import (
    ENCODING_VERSIONS,
    GRAINS,
    LIST,
    LISTS,
    MERGED,
    SECTIONS,
    VERSIONS,
    Layout,
    Version,
)
from xdlc.runtime.export import aimet
from xdlc.runtime.export.aimet import by_channel

_GRAIN_NAMES = {grain: name for name, grain in GRAINS.items()}


def export_encodings(model: Model, version: str = aimet.VERSION) -> dict[str, Any]:
    """Return the encodings of a quantized model's main graph as JSON content.

    Tensors have the names of the source where they are known; what quantization has added is omitted.
    Given back to ``quantize`` with the float model, they lead to the same encodings.  Ops that could be
    quantized but are not have their results in as floats, which 0.4.0 and 2.0.0 have no entries for.
    ``merged_weights`` lists weights whose values are not those of the source, with BatchNorm merged in.

    Args:
        version: ``0.4.0``, ``0.5.0``, ``0.6.1``, ``1.0.0`` or ``2.0.0``.  In the last, axes are those of
            ONNX: outputs first; of matrix products last.

    Raises:
        UsageError: If there is no such version, the model has no encodings, or the version has no form for
            scales per block or vector codes.
    """
    if version not in ENCODING_VERSIONS:
        raise UsageError(
            f"encodings have no version {version!r}; known: {', '.join(ENCODING_VERSIONS)}",
            where=spell("encoding_version"),
            fix=f"use one of {', '.join(ENCODING_VERSIONS)}",
        )
    form = VERSIONS[version]
    overrides: dict[str, Override] = {}
    grids: dict[str, tuple[int, int]] = {}
    graph = model.main
    if not any(tensor.dtype.is_fixed for tensor in graph.tensors.values()):
        raise UsageError(
            "the graph has no encodings, because it is not quantized",
            where=f"graph {graph.name!r}",
            fix="quantize the model first",
        )
    others = source_names(model)
    for tensor in _stating(graph, floats=form.layout is not Layout.ONE_LIST and bool(form.integer)):
        names = others.get(tensor.name, [tensor.name])
        name = tensor.name if tensor.name in names else next(iter(names), None)
        if name is not None and name not in overrides:
            overrides[name] = override = _override(graph, tensor, name)
            if override.grain in (Grain.BLOCK, Grain.EXPANSION):
                op = graph.consumers(tensor)[0]
                full = single_name(op) == "FullyConnected"
                grids[name] = (2, tensor.shape[0]) if full else (tensor.rank, tensor.shape[-1])
    content = encodings_content(list(overrides.values()), form, grids)
    merged = sorted(overrides.keys() & model.metadata.get("weight_factors", {}).get(graph.name, {}).keys())
    return content | ({MERGED: merged} if merged else {})


def save_encodings(model: Model, path: str | os.PathLike[str], version: str = aimet.VERSION) -> Path:
    """Write the encodings of a quantized model to a JSON file, and return its path.

    Raises:
        UsageError: As ``export_encodings`` does.
        StorageError: If the file cannot be written.
    """
    text = json.dumps(export_encodings(model, version), indent=2, ensure_ascii=False) + "\n"
    replace_text(path, text)
    return Path(path)


def _stating(graph: Graph, *, floats: bool) -> Iterator[Tensor]:
    """Iterate over tensors that remain float, then over those with encodings."""
    for op in graph.ops if floats else ():
        rule = rule_of(op)
        if rule.selects:  # stays float with what it reads
            continue
        if any(why_float(op, bits) is None for bits in rule.activation_bits):
            for tensor in op.outputs:
                if tensor.dtype.is_float:
                    yield tensor
    for tensor in graph.tensors.values():
        if tensor.dtype.is_fixed and tensor.encoding is not None and is_real(tensor):
            yield tensor


def _override(graph: Graph, tensor: Tensor, name: str) -> Override:
    kind, encoding = ("param" if tensor.is_static else "activation"), tensor.encoding
    if tensor.dtype.is_float:
        return Override(name, kind, tensor.dtype.bits, is_float=True)
    signed = tensor.dtype.is_signed
    if isinstance(encoding, ScaleOffset):
        bits = encoding.bits or tensor.dtype.bits
        return Override(
            name,
            kind,
            bits,
            scales=(encoding.scale,),
            offsets=(encoding.offset - (1 << (bits - 1) if signed else 0),),
            symmetric=signed and not encoding.offset,
        )
    if isinstance(encoding, BlockwiseExpansion):
        bits, grain, scales = 4, Grain.EXPANSION, tuple(encoding.scales)
    elif isinstance(encoding, AxisScaleOffset | BlockScaleOffset):
        bits = encoding.bits or tensor.dtype.bits
        channels = isinstance(encoding, AxisScaleOffset)
        grain, scales = Grain.CHANNEL if channels else Grain.BLOCK, tuple(encoding.scales)
    else:
        raise UsageError(
            f"{type(encoding).__name__} is a kind of encoding that files of encodings cannot store",
            where=f"tensor {name!r}",
            fix="export a model whose weights have scales",
        )
    if any(encoding.offsets) or not signed:
        raise UsageError(
            "files of encodings cannot store several scales that are not symmetric",
            where=f"tensor {name!r}",
            fix="export a model whose weights are symmetric",
        )
    op = next(iter(graph.consumers(tensor)), None)
    if op is None:
        raise UsageError(
            "the tensor has several scales, but no op reads the tensor, so its axis in the source is unknown",
            where=f"tensor {name!r}",
            fix="remove the tensor from the model",
        )
    axis, block_axis = _source_axes(op, tensor, name)
    size = None
    if isinstance(encoding, BlockScaleOffset):
        size = max(encoding.block_shape)
        scales = tuple(by_channel(scales, tensor))
    if isinstance(encoding, BlockwiseExpansion):
        size = tensor.size // tensor.shape[encoding.axis] // encoding.blocks_per_axis
    return Override(
        name,
        kind,
        bits,
        grain=grain,
        scales=scales,
        offsets=(-(1 << (bits - 1)),) * len(scales),
        symmetric=True,
        axis=axis,
        block_axis=block_axis if size is not None else None,
        block_size=size,
        block_scales=encoding.block_scales if isinstance(encoding, BlockwiseExpansion) else (),
        block_scale_bits=encoding.block_scale_bits if isinstance(encoding, BlockwiseExpansion) else 0,
    )


def _source_axes(op: Op, tensor: Tensor, name: str) -> tuple[int, int]:
    """Return the axes of output and input channels in the source's tensor."""
    kind = single_name(op)
    turned = kind.startswith("TransposeConv") or (kind == "FullyConnected" and name != tensor.name)
    return (0, 0) if tensor.rank == 1 else ((1, 0) if turned else (0, 1))


# ------------------------------------------------------------------ forms of files


def encodings_content(
    overrides: Sequence[Override], version: Version, grids: Mapping[str, tuple[int, int]]
) -> dict[str, Any]:
    """Return the content of a file of encodings.

    What stays float is omitted where the version has no word for floats.

    Args:
        overrides: The encodings; those of several scales with their axes.
        grids: For tensors with scales of blocks, by name: number of axes in the source, and of channels.

    Raises:
        UsageError: If an encoding has scales per block, and the version has none.
    """
    if version.layout is Layout.ONE_LIST:
        integers = (override for override in overrides if not override.is_float)
        rows = [_entry(override, *grids.get(override.name, (0, 0))) for override in integers]
        return {"version": version.name, LIST: rows}
    is_list = version.layout is Layout.LISTS
    content: dict[str, Any] = {"version": version.name}
    content |= {section: [] if is_list else {} for section in SECTIONS}
    sections = {kind: content[section] for section, kind in SECTIONS.items()}
    for override in overrides:
        section = sections[override.kind or "activation"]
        if is_list:
            section.append({"name": override.name, **_listed(override)})
        elif version.integer or not override.is_float:
            section[override.name] = _rows(override, version)
    if version.has_arguments:
        content["quantizer_args"] = _arguments(overrides)
    return content | {"excluded_layers": []} if is_list else content


def _rows(override: Override, version: Version) -> list[dict[str, Any]]:
    if override.grain not in (Grain.TENSOR, Grain.CHANNEL):
        raise UsageError(
            f"version {version.name} cannot store scales per block",
            where=f"tensor {override.name!r}",
            fix="export version 1.0.0 or 2.0.0",
        )
    head: dict[str, Any] = {version.bits: override.bits}
    if version.integer:
        head["dtype"] = version.floats[0] if override.is_float else version.integer
    steps = (1 << override.bits) - 1
    return [
        head
        | {
            version.symmetric: str(override.symmetric),
            "max": scale * (offset + steps),
            "min": scale * offset,
            "offset": offset,
            "scale": scale,
        }
        for scale, offset in zip(override.scales, override.offsets, strict=True)
    ] or [head]


def _arguments(overrides: Sequence[Override]) -> dict[str, Any]:
    """Return the common fields of most encodings, as AIMET's arguments."""
    arguments: dict[str, Any] = {"dtype": "int"}
    for key, kind in (("activation_bitwidth", "activation"), ("param_bitwidth", "param")):
        bits = [entry.bits for entry in overrides if entry.kind == kind and not entry.is_float]
        if bits:
            arguments[key] = max(sorted(set(bits)), key=bits.count)
    params = [entry for entry in overrides if entry.kind == "param" and not entry.is_float]
    arguments["is_symmetric"] = str(any(entry.symmetric for entry in params))
    arguments["per_channel_quantization"] = str(any(entry.grain is Grain.CHANNEL for entry in params))
    return arguments


def _listed(override: Override) -> dict[str, Any]:
    kind = _GRAIN_NAMES[override.grain]
    if override.is_float:
        return {"enc_type": kind, "dtype": LISTS.floats[0], LISTS.bits: override.bits}
    fields = aimet.entry(kind, override.bits, override.scales, override.offsets, symmetric=override.symmetric)
    if override.block_size is not None:
        fields["block_size"] = override.block_size
    if override.block_scales:
        wide = override.bits + override.block_scale_bits
        fields |= {
            LISTS.bits: wide,
            "offset": [-(1 << (wide - 1))] * len(override.scales),
            "compressed_bw": override.bits,
            "per_block_int_scale": list(override.block_scales),
        }
    return fields


def _entry(override: Override, rank: int, channels: int) -> dict[str, Any]:
    sign = "" if override.symmetric else "u"
    fields: dict[str, Any] = {"name": override.name, "output_dtype": f"{sign}int{override.bits}"}
    half = 1 << (override.bits - 1) if override.symmetric else 0
    if override.grain is Grain.TENSOR:
        fields["y_scale"] = override.scales[0]
        if override.offsets[0] + half:
            fields["y_zero_point"] = -override.offsets[0] - half
        return fields
    if override.grain is Grain.CHANNEL:
        return fields | {"y_scale": list(override.scales), "axis": override.axis}
    axes = (override.axis or 0, override.block_axis or 0)
    if override.grain is Grain.BLOCK:
        fields["y_scale"] = _nested(override.scales, channels, axes, rank)
    else:
        fields["per_block_int_scale"] = _nested(override.block_scales, channels, axes, rank)
        fields["per_channel_float_scale"] = _nested(override.scales, channels, axes, rank)
    return fields | {"axis": override.block_axis, "block_size": override.block_size}


def _nested(values: Sequence[float], channels: int, axes: tuple[int, int], rank: int) -> Any:
    """Return values, grouped by channel, as an array with the source's axes."""
    array = np.array(values).reshape((channels, -1) + (1,) * (rank - 2))
    return np.moveaxis(array, (0, 1), axes).tolist()
