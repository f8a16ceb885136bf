"""Generated from dlc4_model.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.schema.table import Blob, Field, Table


class Affine(Table):
    """Table Affine of dlc4_model.fbs."""

    __slots__ = ('bits', 'low', 'high', 'scale', 'offset', 'is_symmetric',)
    IS_FLAT = True

    def __init__(
        self,
        bits: int = 0,
        low: float = 0.0,
        high: float = 0.0,
        scale: float = 0.0,
        offset: int = 0,
        is_symmetric: bool = False,
    ) -> None:
        self.bits = bits
        self.low = low
        self.high = high
        self.scale = scale
        self.offset = offset
        self.is_symmetric = is_symmetric


class AxisAffine(Table):
    """Table AxisAffine of dlc4_model.fbs."""

    __slots__ = ('axis', 'channels',)

    def __init__(
        self,
        axis: int = 0,
        channels: Sequence[Affine] | None = None,
    ) -> None:
        self.axis = axis
        self.channels = channels


class Range(Table):
    """Table Range of dlc4_model.fbs."""

    __slots__ = ('offset', 'nbytes',)
    IS_FLAT = True

    def __init__(
        self,
        offset: int = 0,
        nbytes: int = 0,
    ) -> None:
        self.offset = offset
        self.nbytes = nbytes


class BlockAffine(Table):
    """Table BlockAffine of dlc4_model.fbs."""

    __slots__ = ('axis', 'block_axis', 'block_size', 'bits', 'is_symmetric', 'unknown14', 'scale_offsets', 'limits',)

    def __init__(
        self,
        axis: int = 0,
        block_axis: int = 0,
        block_size: int = 0,
        bits: int = 0,
        is_symmetric: bool = False,
        unknown14: bool = False,
        scale_offsets: Range | None = None,
        limits: Range | None = None,
    ) -> None:
        self.axis = axis
        self.block_axis = block_axis
        self.block_size = block_size
        self.bits = bits
        self.is_symmetric = is_symmetric
        self.unknown14 = unknown14
        self.scale_offsets = scale_offsets
        self.limits = limits


class BlockExpansion(Table):
    """Table BlockExpansion of dlc4_model.fbs."""

    __slots__ = ('axis', 'channels', 'blocks_per_axis', 'block_size', 'block_scale_bits', 'narrow_scales', 'wide_scales',)

    def __init__(
        self,
        axis: int = 0,
        channels: Sequence[Affine] | None = None,
        blocks_per_axis: int = 0,
        block_size: int = 0,
        block_scale_bits: int = 0,
        narrow_scales: Blob | bytes | None = None,
        wide_scales: Sequence[int] | None = None,
    ) -> None:
        self.axis = axis
        self.channels = channels
        self.blocks_per_axis = blocks_per_axis
        self.block_size = block_size
        self.block_scale_bits = block_scale_bits
        self.narrow_scales = narrow_scales
        self.wide_scales = wide_scales


class VectorCode(Table):
    """Table VectorCode of dlc4_model.fbs."""

    __slots__ = ('axis', 'channels', 'rows', 'columns', 'row_axis', 'column_axis', 'dimension', 'stride', 'index_bits',)

    def __init__(
        self,
        axis: int = 0,
        channels: Sequence[Affine] | None = None,
        rows: int = 0,
        columns: int = 0,
        row_axis: int = 0,
        column_axis: int = 0,
        dimension: int = 0,
        stride: int = 0,
        index_bits: int = 0,
    ) -> None:
        self.axis = axis
        self.channels = channels
        self.rows = rows
        self.columns = columns
        self.row_axis = row_axis
        self.column_axis = column_axis
        self.dimension = dimension
        self.stride = stride
        self.index_bits = index_bits


class Quantization(Table):
    """Table Quantization of dlc4_model.fbs."""

    __slots__ = ('kind', 'is_override', 'tensor', 'axis', 'block', 'expansion', 'vector',)

    def __init__(
        self,
        kind: int = 0,
        is_override: bool = False,
        tensor: Affine | None = None,
        axis: AxisAffine | None = None,
        block: BlockAffine | None = None,
        expansion: BlockExpansion | None = None,
        vector: VectorCode | None = None,
    ) -> None:
        self.kind = kind
        self.is_override = is_override
        self.tensor = tensor
        self.axis = axis
        self.block = block
        self.expansion = expansion
        self.vector = vector


class Tensor(Table):
    """Table Tensor of dlc4_model.fbs."""

    __slots__ = ('id', 'name', 'role', 'dims', 'axis_format', 'quantization', 'dtype', 'source_dtype', 'is_real', 'unknown22', 'unknown24', 'unknown26', 'source_axis_format', 'dynamic_axes', 'unknown32',)

    def __init__(
        self,
        id: int = 0,
        name: str | None = None,
        role: int = 0,
        dims: Sequence[int] | None = None,
        axis_format: int = 0,
        quantization: Quantization | None = None,
        dtype: int = 0,
        source_dtype: int = 0,
        is_real: bool = False,
        unknown22: int = 0,
        unknown24: int = 0,
        unknown26: int = 0,
        source_axis_format: int = 0,
        dynamic_axes: Sequence[int] | None = None,
        unknown32: Sequence[int] | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.role = role
        self.dims = dims
        self.axis_format = axis_format
        self.quantization = quantization
        self.dtype = dtype
        self.source_dtype = source_dtype
        self.is_real = is_real
        self.unknown22 = unknown22
        self.unknown24 = unknown24
        self.unknown26 = unknown26
        self.source_axis_format = source_axis_format
        self.dynamic_axes = dynamic_axes
        self.unknown32 = unknown32


class Scalar(Table):
    """Table Scalar of dlc4_model.fbs."""

    __slots__ = ('dtype', 'integer', 'real', 'text',)

    def __init__(
        self,
        dtype: int = 0,
        integer: int = 0,
        real: float = 0.0,
        text: str | None = None,
    ) -> None:
        self.dtype = dtype
        self.integer = integer
        self.real = real
        self.text = text


class Attribute(Table):
    """Table Attribute of dlc4_model.fbs."""

    __slots__ = ('name', 'kind', 'role', 'scalar', 'tensor',)

    def __init__(
        self,
        name: str | None = None,
        kind: int = 0,
        role: int = 0,
        scalar: Scalar | None = None,
        tensor: Tensor | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.role = role
        self.scalar = scalar
        self.tensor = tensor


class Node(Table):
    """Table Node of dlc4_model.fbs."""

    __slots__ = ('name', 'type', 'inputs', 'outputs', 'attributes',)

    def __init__(
        self,
        name: str | None = None,
        type: str | None = None,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        attributes: Sequence[Attribute] | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.inputs = inputs
        self.outputs = outputs
        self.attributes = attributes


class Graph(Table):
    """Table Graph of dlc4_model.fbs."""

    __slots__ = ('name', 'nodes', 'tensors', 'unknown10', 'params_name',)

    def __init__(
        self,
        name: str | None = None,
        nodes: Sequence[Node] | None = None,
        tensors: Sequence[Tensor] | None = None,
        unknown10: int = 0,
        params_name: str | None = None,
    ) -> None:
        self.name = name
        self.nodes = nodes
        self.tensors = tensors
        self.unknown10 = unknown10
        self.params_name = params_name


class Model(Table):
    """Table Model of dlc4_model.fbs."""

    __slots__ = ('graphs',)
    IDENTIFIER = b'NETD'

    def __init__(
        self,
        graphs: Sequence[Graph] | None = None,
    ) -> None:
        self.graphs = graphs


Affine.FIELDS = (
    Field('bits', 4, 'uint', 0),
    Field('low', 6, 'float', 0.0),
    Field('high', 8, 'float', 0.0),
    Field('scale', 10, 'float', 0.0),
    Field('offset', 12, 'int', 0),
    Field('is_symmetric', 14, 'bool', False),
)
AxisAffine.FIELDS = (
    Field('axis', 4, 'int', 0),
    Field('channels', 6, 'vector', None, 'table', Affine),
)
Range.FIELDS = (
    Field('offset', 4, 'long', 0),
    Field('nbytes', 6, 'long', 0),
)
BlockAffine.FIELDS = (
    Field('axis', 4, 'int', 0),
    Field('block_axis', 6, 'int', 0),
    Field('block_size', 8, 'uint', 0),
    Field('bits', 10, 'uint', 0),
    Field('is_symmetric', 12, 'bool', False),
    Field('unknown14', 14, 'bool', False),
    Field('scale_offsets', 16, 'table', None, None, Range),
    Field('limits', 18, 'table', None, None, Range),
)
BlockExpansion.FIELDS = (
    Field('axis', 4, 'int', 0),
    Field('channels', 6, 'vector', None, 'table', Affine),
    Field('blocks_per_axis', 8, 'uint', 0),
    Field('block_size', 10, 'uint', 0),
    Field('block_scale_bits', 12, 'ubyte', 0),
    Field('narrow_scales', 14, 'vector', None, 'ubyte', None),
    Field('wide_scales', 16, 'vector', None, 'ushort', None),
)
VectorCode.FIELDS = (
    Field('axis', 4, 'int', 0),
    Field('channels', 6, 'vector', None, 'table', Affine),
    Field('rows', 8, 'uint', 0),
    Field('columns', 10, 'uint', 0),
    Field('row_axis', 12, 'byte', 0),
    Field('column_axis', 14, 'byte', 0),
    Field('dimension', 16, 'ubyte', 0),
    Field('stride', 18, 'ubyte', 0),
    Field('index_bits', 20, 'ubyte', 0),
)
Quantization.FIELDS = (
    Field('kind', 4, 'int', 0),
    Field('is_override', 6, 'bool', False),
    Field('tensor', 8, 'table', None, None, Affine),
    Field('axis', 10, 'table', None, None, AxisAffine),
    Field('block', 12, 'table', None, None, BlockAffine),
    Field('expansion', 14, 'table', None, None, BlockExpansion),
    Field('vector', 16, 'table', None, None, VectorCode),
)
Tensor.FIELDS = (
    Field('id', 4, 'uint', 0),
    Field('name', 6, 'string', None),
    Field('role', 8, 'int', 0),
    Field('dims', 10, 'vector', None, 'uint', None),
    Field('axis_format', 12, 'int', 0),
    Field('quantization', 14, 'table', None, None, Quantization),
    Field('dtype', 16, 'int', 0),
    Field('source_dtype', 18, 'int', 0),
    Field('is_real', 20, 'bool', False),
    Field('unknown22', 22, 'int', 0),
    Field('unknown24', 24, 'int', 0),
    Field('unknown26', 26, 'int', 0),
    Field('source_axis_format', 28, 'int', 0),
    Field('dynamic_axes', 30, 'vector', None, 'uint', None),
    Field('unknown32', 32, 'vector', None, 'uint', None),
)
Scalar.FIELDS = (
    Field('dtype', 4, 'int', 0),
    Field('integer', 6, 'long', 0),
    Field('real', 8, 'double', 0.0),
    Field('text', 10, 'string', None),
)
Attribute.FIELDS = (
    Field('name', 4, 'string', None),
    Field('kind', 6, 'int', 0),
    Field('role', 8, 'ubyte', 0),
    Field('scalar', 10, 'table', None, None, Scalar),
    Field('tensor', 12, 'table', None, None, Tensor),
)
Node.FIELDS = (
    Field('name', 4, 'string', None),
    Field('type', 6, 'string', None),
    Field('inputs', 8, 'vector', None, 'string', None),
    Field('outputs', 10, 'vector', None, 'string', None),
    Field('attributes', 12, 'vector', None, 'table', Attribute),
)
Graph.FIELDS = (
    Field('name', 4, 'string', None),
    Field('nodes', 6, 'vector', None, 'table', Node),
    Field('tensors', 8, 'vector', None, 'table', Tensor),
    Field('unknown10', 10, 'int', 0),
    Field('params_name', 12, 'string', None),
)
Model.FIELDS = (
    Field('graphs', 4, 'vector', None, 'table', Graph),
)
