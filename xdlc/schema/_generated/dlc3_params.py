"""Generated from dlc3_params.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from typing import Annotated

from xdlc.schema._generated.dlc3_model import Attribute
from xdlc.schema.table import Table, blob, string, ubyte, vector


class Elements(Table):
    dtype: ubyte = 0
    octets: blob | None = None
    floats: Annotated[blob, 'mapped', 'float'] | None = None


class Weight(Table):
    name: string | None = None
    dims: vector[int] | None = None
    elements: Elements | None = None
    attributes: vector[Attribute] | None = None


class NodeParams(Table):
    name: string | None = None
    weights: vector[Weight] | None = None


class Params(Table):
    IDENTIFIER = b'NETP'
    nodes: vector[NodeParams] | None = None
