"""Encodings of a quantized model as a file of AIMET's formats, under the names of the source."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from xdlc.quant.overrides import flat
from xdlc.quant.overrides.matching import source_names
from xdlc.quant.overrides.override import Grain, Override
from xdlc.quant.overrides.reading import ENCODING_VERSIONS, MERGED
from xdlc.quant.overrides.sections import VERSIONS, write
from xdlc.runtime.export import aimet
from xdlc.runtime.export.aimet import by_channel


def export_encodings(model: Model, version: str = aimet.VERSION) -> dict[str, Any]:
    """Return the encodings of a quantized model's main graph as the content of a JSON file.

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
    form = next((each for each in VERSIONS if each.name == version), None)
    found: dict[str, Override] = {}
    grids: dict[str, tuple[int, int]] = {}
    graph = model.main
    if not any(tensor.dtype.is_fixed for tensor in graph.tensors.values()):
        raise UsageError(
            "has no encodings: nothing of it is quantized",
            where=f"graph {graph.name!r}",
            fix="quantize the model first",
        )
    others = source_names(model)
    for tensor in _stating(graph, floats=form is not None and bool(form.integer)):
        names = others.get(tensor.name, [tensor.name])
        name = tensor.name if tensor.name in names else next(iter(names), None)
        if name is not None and name not in found:
            found[name] = _override(graph, tensor, name)
            if found[name].grain in (Grain.BLOCK, Grain.EXPANSION):
                op = graph.consumers(tensor)[0]
                full = single_name(op) == "FullyConnected"
                grids[name] = (2, tensor.shape[0]) if full else (tensor.rank, tensor.shape[-1])
    overrides = list(found.values())
    content = flat.write(overrides, grids) if form is None else write(overrides, form)
    merged = sorted(found.keys() & model.metadata.get("weight_factors", {}).get(graph.name, {}).keys())
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
    """Iterate over the tensors of a file: first what stays float, then what has encodings."""
    for op in graph.ops if floats else ():
        rule = rule_of(op)
        if rule is None or rule.selects:  # stays float with what it reads
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
            f"{type(encoding).__name__} has no form in a file of encodings",
            where=f"tensor {name!r}",
            fix="export a model whose weights have scales",
        )
    if any(encoding.offsets) or not signed:
        raise UsageError(
            "has several scales but is not symmetric, which no file of encodings holds",
            where=f"tensor {name!r}",
            fix="export a model whose weights are symmetric",
        )
    op = next(iter(graph.consumers(tensor)), None)
    if op is None:
        raise UsageError(
            "has several scales but no reader, so that its axes in the source are unknown",
            where=f"tensor {name!r}",
            fix="remove it from the model",
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
