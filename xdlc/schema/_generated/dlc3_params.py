"""Generated from dlc3_params.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.schema._generated.dlc3_model import Attribute
from xdlc.schema.table import Blob, Field, Table


class Elements(Table):
    """Table Elements of dlc3_params.fbs."""

    __slots__ = ('dtype', 'octets', 'floats',)

    def __init__(
        self,
        dtype: int = 0,
        octets: Blob | bytes | None = None,
        floats: Blob | bytes | None = None,
    ) -> None:
        self.dtype = dtype
        self.octets = octets
        self.floats = floats


class Weight(Table):
    """Table Weight of dlc3_params.fbs."""

    __slots__ = ('name', 'dims', 'elements', 'attributes',)

    def __init__(
        self,
        name: str | None = None,
        dims: Sequence[int] | None = None,
        elements: Elements | None = None,
        attributes: Sequence[Attribute] | None = None,
    ) -> None:
        self.name = name
        self.dims = dims
        self.elements = elements
        self.attributes = attributes


class NodeParams(Table):
    """Table NodeParams of dlc3_params.fbs."""

    __slots__ = ('name', 'weights',)

    def __init__(
        self,
        name: str | None = None,
        weights: Sequence[Weight] | None = None,
    ) -> None:
        self.name = name
        self.weights = weights


class Params(Table):
    """Table Params of dlc3_params.fbs."""

    __slots__ = ('nodes',)
    IDENTIFIER = b'NETP'

    def __init__(
        self,
        nodes: Sequence[NodeParams] | None = None,
    ) -> None:
        self.nodes = nodes


Elements.FIELDS = (
    Field('dtype', 4, 'ubyte', 0),
    Field('octets', 6, 'vector', None, 'ubyte', None),
    Field('floats', 8, 'mapped', None, 'float', None),
)
Weight.FIELDS = (
    Field('name', 4, 'string', None),
    Field('dims', 6, 'vector', None, 'int', None),
    Field('elements', 8, 'table', None, None, Elements),
    Field('attributes', 10, 'vector', None, 'table', Attribute),
)
NodeParams.FIELDS = (
    Field('name', 4, 'string', None),
    Field('weights', 6, 'vector', None, 'table', Weight),
)
Params.FIELDS = (
    Field('nodes', 4, 'vector', None, 'table', NodeParams),
)
