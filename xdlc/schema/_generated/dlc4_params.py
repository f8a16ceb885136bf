"""Generated from dlc4_params.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.schema.table import Blob, Field, Table


class Range(Table):
    """Table Range of dlc4_params.fbs."""

    __slots__ = ('offset', 'nbytes',)
    IS_FLAT = True

    def __init__(
        self,
        offset: int = 0,
        nbytes: int = 0,
    ) -> None:
        self.offset = offset
        self.nbytes = nbytes


class Elements(Table):
    """Table Elements of dlc4_params.fbs."""

    __slots__ = ('name', 'inline_bytes', 'buffer', 'range',)

    def __init__(
        self,
        name: str | None = None,
        inline_bytes: Blob | bytes | None = None,
        buffer: int = -1,
        range: Range | None = None,
    ) -> None:
        self.name = name
        self.inline_bytes = inline_bytes
        self.buffer = buffer
        self.range = range


class NodeParams(Table):
    """Table NodeParams of dlc4_params.fbs."""

    __slots__ = ('tensors',)

    def __init__(
        self,
        tensors: Sequence[Elements] | None = None,
    ) -> None:
        self.tensors = tensors


class GraphParams(Table):
    """Table GraphParams of dlc4_params.fbs."""

    __slots__ = ('name', 'tensors', 'nodes',)

    def __init__(
        self,
        name: str | None = None,
        tensors: Sequence[Elements] | None = None,
        nodes: Sequence[NodeParams] | None = None,
    ) -> None:
        self.name = name
        self.tensors = tensors
        self.nodes = nodes


class Params(Table):
    """Table Params of dlc4_params.fbs."""

    __slots__ = ('graphs',)
    IDENTIFIER = b'NETP'

    def __init__(
        self,
        graphs: Sequence[GraphParams] | None = None,
    ) -> None:
        self.graphs = graphs


Range.FIELDS = (
    Field('offset', 4, 'long', 0),
    Field('nbytes', 6, 'long', 0),
)
Elements.FIELDS = (
    Field('name', 4, 'string', None),
    Field('inline_bytes', 6, 'vector', None, 'ubyte', None),
    Field('buffer', 8, 'long', -1),
    Field('range', 10, 'table', None, None, Range),
)
NodeParams.FIELDS = (
    Field('tensors', 4, 'vector', None, 'table', Elements),
)
GraphParams.FIELDS = (
    Field('name', 4, 'string', None),
    Field('tensors', 6, 'vector', None, 'table', Elements),
    Field('nodes', 8, 'vector', None, 'table', NodeParams),
)
Params.FIELDS = (
    Field('graphs', 4, 'vector', None, 'table', GraphParams),
)
