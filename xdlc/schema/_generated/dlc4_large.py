"""Generated from dlc4_large.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.schema.table import Blob, Field, Table


class Buffer(Table):
    """Table Buffer of dlc4_large.fbs."""

    __slots__ = ('content',)

    def __init__(
        self,
        content: Blob | bytes | None = None,
    ) -> None:
        self.content = content


class Large(Table):
    """Table Large of dlc4_large.fbs."""

    __slots__ = ('buffers', 'params',)
    IDENTIFIER = b'NR64'

    def __init__(
        self,
        buffers: Sequence[Buffer] | None = None,
        params: Blob | bytes | None = None,
    ) -> None:
        self.buffers = buffers
        self.params = params


Buffer.FIELDS = (
    Field('content', 4, 'vector64', None, 'ubyte', None),
)
Large.FIELDS = (
    Field('buffers', 4, 'vector', None, 'table', Buffer),
    Field('params', 6, 'vector', None, 'ubyte', None),
)
