"""Generated from dlc4_params.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from xdlc.schema.table import Table, blob, long, string, vector


class Range(Table):
    offset: long = 0
    nbytes: long = 0


class Elements(Table):
    name: string | None = None
    inline_bytes: blob | None = None
    buffer: long = -1
    range: Range | None = None


class NodeParams(Table):
    tensors: vector[Elements] | None = None


class GraphParams(Table):
    name: string | None = None
    tensors: vector[Elements] | None = None
    nodes: vector[NodeParams] | None = None


class Params(Table):
    IDENTIFIER = b'NETP'
    graphs: vector[GraphParams] | None = None
