"""Encodings as a JSON file in AIMET's format 1.0.0, by ONNX names.

AIMET counts stored values from 0 whatever their type, so that a symmetric encoding of n bits has the
offset ``-2 ** (n - 1)``; ``real = (stored + offset) * scale``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from xdlc.errors import UnsupportedOp
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Graph,
    ScaleOffset,
    Tensor,
)
from xdlc.options import spell

T = TypeVar("T")

VERSION = "1.0.0"
SUFFIX = ".encodings"
LPBQ_BITS = 4  # of a stored value; the blocks' integer scales add theirs


def encodings_file(
    graph: Graph, value_names: Mapping[str, Iterable[str]], path: str | os.PathLike[str]
) -> tuple[Path, bytes]:
    """Return the path (``.encodings`` beside the model) and text of the encodings.

    Args:
        value_names: Names of the ONNX values that hold each tensor, by the tensor's name.

    Raises:
        UnsupportedOp: If an encoding has no form in the file.
    """
    activations: dict[str, dict[str, Any]] = {}
    params: dict[str, dict[str, Any]] = {}
    for tensor in graph.tensors.values():
        if tensor.encoding is None or not tensor.dtype.is_fixed:
            continue
        for name in sorted(
            value_names.get(tensor.name, ())
        ):  # tensors that differ in axis order may share values
            (params if tensor.is_static else activations).setdefault(name, {"name": name, **_entry(tensor)})
    content = {
        "version": VERSION,
        "activation_encodings": list(activations.values()),
        "param_encodings": list(params.values()),
        "excluded_layers": [],
    }
    return Path(path).with_suffix(SUFFIX), (json.dumps(content, indent=2) + "\n").encode()


def _entry(tensor: Tensor) -> dict[str, Any]:
    encoding = tensor.encoding
    if isinstance(encoding, ScaleOffset):
        return _affine("PER_TENSOR", tensor, [encoding.scale], [encoding.offset], encoding.bits)
    if isinstance(encoding, AxisScaleOffset):
        return _affine("PER_CHANNEL", tensor, encoding.scales, encoding.offsets, encoding.bits)
    if isinstance(encoding, BlockScaleOffset):
        scales, offsets = by_channel(encoding.scales, tensor), by_channel(encoding.offsets, tensor)
        fields = _affine("PER_BLOCK", tensor, scales, offsets, encoding.bits)
        return {**fields, "block_size": max(encoding.block_shape)}
    if isinstance(encoding, BlockwiseExpansion):
        fields = _affine("LPBQ", tensor, encoding.scales, encoding.offsets, LPBQ_BITS)
        axis, bits = encoding.axis, LPBQ_BITS + encoding.block_scale_bits
        return {
            **fields,
            "bw": bits,
            "offset": [-(1 << (bits - 1))] * len(encoding.scales),  # AIMET counts in the bits after scaling
            "compressed_bw": LPBQ_BITS,
            "block_size": tensor.size // tensor.shape[axis] // encoding.blocks_per_axis,
            "per_block_int_scale": list(encoding.block_scales),
        }
    raise UnsupportedOp(
        f"a file of encodings cannot store an encoding of type {type(encoding).__name__}",
        where=f"tensor {tensor.name!r}",
        fix=f"export with {spell('encodings', 'none')}, or quantize the tensor with scales and offsets",
    )


def by_channel(values: Sequence[T], tensor: Tensor) -> Sequence[T]:
    """Return block values, grouped by output channel.

    Args:
        values: One for each block, row-major over the blocks of the tensor.
        tensor: Weights, [out, in] or, of convolutions, [height, width, in, out].
    """
    if tensor.rank < 3 or not values:
        return values
    outputs = tensor.shape[-1]
    return [values[place] for out in range(outputs) for place in range(out, len(values), outputs)]


def _affine(
    kind: str, tensor: Tensor, scales: Sequence[float], offsets: Sequence[int], used: int | None
) -> dict[str, Any]:
    bits = used or tensor.dtype.bits
    lowest = -(1 << (bits - 1)) if tensor.dtype.is_signed else 0
    counted = [offset + lowest for offset in offsets]
    symmetric = all(offset == -(1 << (bits - 1)) for offset in counted)
    return entry(kind, bits, scales, counted, symmetric=symmetric)


def entry(
    kind: str, bits: int, scales: Sequence[float], offsets: Sequence[int], *, symmetric: bool
) -> dict[str, Any]:
    """Return the fields that entries of all kinds have.

    Args:
        kind: What shares a scale: ``PER_TENSOR``, ``PER_CHANNEL``, ``PER_BLOCK`` or ``LPBQ``.
        offsets: One per scale, counted from 0.
        symmetric: Whether the integers are stored signed with offset 0.
    """
    return {
        "enc_type": kind,
        "dtype": "INT",
        "bw": bits,
        "is_sym": symmetric,
        "scale": list(scales),
        "offset": list(offsets),
    }
