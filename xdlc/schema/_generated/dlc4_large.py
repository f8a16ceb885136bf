"""Generated from dlc4_large.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from typing import Annotated

from xdlc.schema.table import Table, blob, ubyte, vector


class Buffer(Table):
    content: Annotated[blob, 'vector64', 'ubyte'] | None = None


class Large(Table):
    IDENTIFIER = b'NR64'
    buffers: vector[Buffer] | None = None
    params: blob | None = None
