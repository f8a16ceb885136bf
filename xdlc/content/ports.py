"""Inputs, outputs and encodings of a model as plain JSON-like values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xdlc.container.metadata import recipes
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    ScaleOffset,
    Tensor,
    VectorCode,
)


def graph_io(tensor: Tensor, metadata: Mapping[str, Any], *, reads: bool = False) -> dict[str, Any]:
    """Describe an input of a graph, or, with ``reads``, an output, for its callers.

    Args:
        metadata: That of the model, which has notes on layouts and symbols of dynamic dimensions.
    """
    record = tensor_facts(tensor) | {
        "raw_bytes": tensor.nbytes,
        "float_bytes": 4 * tensor.size,
        "raw": recipes(tensor, reads=reads),
    }
    for key, notes in (("layout", "layouts"), ("symbols", "symbols"), ("preprocessing", "preprocessing")):
        if tensor.name in metadata.get(notes, {}):
            record[key] = metadata[notes][tensor.name]
    return record


def tensor_facts(tensor: Tensor) -> dict[str, Any]:
    """Describe a tensor: its name, shape, data type, role and encoding."""
    record: dict[str, Any] = {
        "name": tensor.name,
        "shape": [None if axis in tensor.dynamic_axes else n for axis, n in enumerate(tensor.shape)],
        "dtype": tensor.dtype.name,
        "role": "STATIC" if tensor.is_static else tensor.role.name,
    }
    if tensor.encoding is not None:
        record["encoding"] = encoding(tensor.encoding)
    return record


def encoding(stored: Encoding) -> dict[str, Any]:
    """Return an encoding as plain values: float = (quantized + offset) * scale."""
    if isinstance(stored, ScaleOffset):
        values: dict[str, Any] = {"kind": "tensor", "scale": number(stored.scale), "offset": stored.offset}
    else:
        values = {
            "kind": {
                AxisScaleOffset: "axis",
                BlockScaleOffset: "block",
                BlockwiseExpansion: "blockwise_expansion",
                VectorCode: "vector",
            }[type(stored)],
            "scales": [number(scale) for scale in stored.scales],
            "offsets": list(stored.offsets),
        }
        if not isinstance(stored, BlockScaleOffset):
            values["axis"] = stored.axis
    if isinstance(stored, BlockScaleOffset):
        values["block_shape"] = list(stored.block_shape)
    if isinstance(stored, BlockwiseExpansion):
        values["blocks_per_axis"] = stored.blocks_per_axis
        values["block_scale_bits"] = stored.block_scale_bits
    bits = getattr(stored, "bits", None)
    return values | ({"bits": bits} if bits is not None else {})


def number(value: float) -> float | str:
    """Return a number; as text if JSON cannot represent it."""
    return value if math.isfinite(value) else str(value)


def numbers(values: Any) -> Any:
    """Return nested lists with numbers that JSON can represent."""
    if isinstance(values, list):
        return [numbers(value) for value in values]
    return number(values) if isinstance(values, float) else values
