"""Generated from dlc3_model.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from xdlc.schema.table import Table, string, ubyte, uint, vector


class Attribute(Table):
    name: string | None = None
    type: ubyte = 0
    flag: bool = False
    integer: int = 0
    natural: uint = 0
    real: float = 0.0
    text: string | None = None
    flags: vector[bool] | None = None
    positions: vector[int] | None = None
    integers: vector[int] | None = None
    floats: vector[float] | None = None
    texts: vector[string] | None = None
    attributes: vector[Attribute] | None = None


class Node(Table):
    id: int = 0
    name: string | None = None
    type: string | None = None
    inputs: vector[string] | None = None
    outputs: vector[string] | None = None
    attributes: vector[Attribute] | None = None


class Model(Table):
    IDENTIFIER = b'NETD'
    unknown4: int = 0
    nodes: vector[Node] | None = None
    unknown8: vector[int] | None = None
    unknown10: vector[int] | None = None
    attributes: vector[Attribute] | None = None
