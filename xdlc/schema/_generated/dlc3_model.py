"""Generated from dlc3_model.fbs by ``python -m xdlc.schema.generate``; do not edit."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.schema.table import Blob, Field, Table


class Attribute(Table):
    """Table Attribute of dlc3_model.fbs."""

    __slots__ = ('name', 'type', 'flag', 'integer', 'natural', 'real', 'text', 'flags', 'positions', 'integers', 'floats', 'texts', 'attributes',)

    def __init__(
        self,
        name: str | None = None,
        type: int = 0,
        flag: bool = False,
        integer: int = 0,
        natural: int = 0,
        real: float = 0.0,
        text: str | None = None,
        flags: Sequence[bool] | None = None,
        positions: Sequence[int] | None = None,
        integers: Sequence[int] | None = None,
        floats: Sequence[float] | None = None,
        texts: Sequence[str] | None = None,
        attributes: Sequence[Attribute] | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.flag = flag
        self.integer = integer
        self.natural = natural
        self.real = real
        self.text = text
        self.flags = flags
        self.positions = positions
        self.integers = integers
        self.floats = floats
        self.texts = texts
        self.attributes = attributes


class Node(Table):
    """Table Node of dlc3_model.fbs."""

    __slots__ = ('id', 'name', 'type', 'inputs', 'outputs', 'attributes',)

    def __init__(
        self,
        id: int = 0,
        name: str | None = None,
        type: str | None = None,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        attributes: Sequence[Attribute] | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.type = type
        self.inputs = inputs
        self.outputs = outputs
        self.attributes = attributes


class Model(Table):
    """Table Model of dlc3_model.fbs."""

    __slots__ = ('unknown4', 'nodes', 'unknown8', 'unknown10', 'attributes',)
    IDENTIFIER = b'NETD'

    def __init__(
        self,
        unknown4: int = 0,
        nodes: Sequence[Node] | None = None,
        unknown8: Sequence[int] | None = None,
        unknown10: Sequence[int] | None = None,
        attributes: Sequence[Attribute] | None = None,
    ) -> None:
        self.unknown4 = unknown4
        self.nodes = nodes
        self.unknown8 = unknown8
        self.unknown10 = unknown10
        self.attributes = attributes


Attribute.FIELDS = (
    Field('name', 4, 'string', None),
    Field('type', 6, 'ubyte', 0),
    Field('flag', 8, 'bool', False),
    Field('integer', 10, 'int', 0),
    Field('natural', 12, 'uint', 0),
    Field('real', 14, 'float', 0.0),
    Field('text', 16, 'string', None),
    Field('flags', 18, 'vector', None, 'bool', None),
    Field('positions', 20, 'vector', None, 'int', None),
    Field('integers', 22, 'vector', None, 'int', None),
    Field('floats', 24, 'vector', None, 'float', None),
    Field('texts', 26, 'vector', None, 'string', None),
    Field('attributes', 28, 'vector', None, 'table', Attribute),
)
Node.FIELDS = (
    Field('id', 4, 'int', 0),
    Field('name', 6, 'string', None),
    Field('type', 8, 'string', None),
    Field('inputs', 10, 'vector', None, 'string', None),
    Field('outputs', 12, 'vector', None, 'string', None),
    Field('attributes', 14, 'vector', None, 'table', Attribute),
)
Model.FIELDS = (
    Field('unknown4', 4, 'int', 0),
    Field('nodes', 6, 'vector', None, 'table', Node),
    Field('unknown8', 8, 'vector', None, 'int', None),
    Field('unknown10', 10, 'vector', None, 'int', None),
    Field('attributes', 12, 'vector', None, 'table', Attribute),
)
