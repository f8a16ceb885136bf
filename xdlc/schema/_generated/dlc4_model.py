"""Generated from dlc4_model.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from xdlc.schema.table import Table, blob, byte, double, long, string, ubyte, uint, ushort, vector


class Affine(Table):
    bits: uint = 0
    low: float = 0.0
    high: float = 0.0
    scale: float = 0.0
    offset: int = 0
    is_symmetric: bool = False


class AxisAffine(Table):
    axis: int = 0
    channels: vector[Affine] | None = None


class Range(Table):
    offset: long = 0
    nbytes: long = 0


class BlockAffine(Table):
    axis: int = 0
    block_axis: int = 0
    block_size: uint = 0
    bits: uint = 0
    is_symmetric: bool = False
    unknown14: bool = False
    scale_offsets: Range | None = None
    limits: Range | None = None


class BlockExpansion(Table):
    axis: int = 0
    channels: vector[Affine] | None = None
    blocks_per_axis: uint = 0
    block_size: uint = 0
    block_scale_bits: ubyte = 0
    narrow_scales: blob | None = None
    wide_scales: vector[ushort] | None = None


class VectorCode(Table):
    axis: int = 0
    channels: vector[Affine] | None = None
    rows: uint = 0
    columns: uint = 0
    row_axis: byte = 0
    column_axis: byte = 0
    dimension: ubyte = 0
    stride: ubyte = 0
    index_bits: ubyte = 0


class Quantization(Table):
    kind: int = 0
    is_override: bool = False
    tensor: Affine | None = None
    axis: AxisAffine | None = None
    block: BlockAffine | None = None
    expansion: BlockExpansion | None = None
    vector: VectorCode | None = None


class Tensor(Table):
    id: uint = 0
    name: string | None = None
    role: int = 0
    dims: vector[uint] | None = None
    axis_format: int = 0
    quantization: Quantization | None = None
    dtype: int = 0
    source_dtype: int = 0
    is_real: bool = False
    unknown22: int = 0
    unknown24: int = 0
    unknown26: int = 0
    source_axis_format: int = 0
    dynamic_axes: vector[uint] | None = None
    unknown32: vector[uint] | None = None


class Scalar(Table):
    dtype: int = 0
    integer: long = 0
    real: double = 0.0
    text: string | None = None


class Attribute(Table):
    name: string | None = None
    kind: int = 0
    role: ubyte = 0
    scalar: Scalar | None = None
    tensor: Tensor | None = None


class Node(Table):
    name: string | None = None
    type: string | None = None
    inputs: vector[string] | None = None
    outputs: vector[string] | None = None
    attributes: vector[Attribute] | None = None


class Graph(Table):
    name: string | None = None
    nodes: vector[Node] | None = None
    tensors: vector[Tensor] | None = None
    unknown10: int = 0
    params_name: string | None = None


class Model(Table):
    IDENTIFIER = b'NETD'
    graphs: vector[Graph] | None = None
