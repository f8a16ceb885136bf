"""Base classes of generated flatbuffer tables.

A table states each field once: its name, its type in the words below, and its default.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

byte: TypeAlias = int
ubyte: TypeAlias = int
short: TypeAlias = int
ushort: TypeAlias = int
uint: TypeAlias = int
long: TypeAlias = int
ulong: TypeAlias = int
double: TypeAlias = float
string: TypeAlias = str
vector: TypeAlias = Sequence
blob: TypeAlias = "Blob | bytes"

SCALARS = ("bool", "byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong", "float", "double")
_TYPE = re.compile(r"""Annotated\[\w+, '(?P<kind>\w+)', '(?P<of>\w+)'\]|vector\[(?P<element>\w+)\]|\w+""")


class Field(NamedTuple):
    """One field of a table.

    Attributes:
        name: Attribute of the Python class.
        slot: Byte offset of its entry in the vtable.
        kind: A scalar type of flatbuffers, or ``string``, ``table``, ``union``, ``vector``, ``vector64`` or
            ``mapped`` (a vector of scalars whose bytes are not decoded).
        default: Value of a missing field.
        element: Element type of a vector: a scalar type, ``string`` or ``table``.
        table: The class of the table or of the tables in the vector.
        choices: The classes of a union by the number that the field before it holds.
    """

    name: str
    slot: int
    kind: str
    default: Any
    element: str | None = None
    table: type[Table] | None = None
    choices: Mapping[int, type[Table]] | None = None

    @property
    def target(self) -> type[Table]:
        """The class of the table or tables that the field refers to.

        Raises:
            TypeError: If it refers to none.
        """
        if self.table is None:
            raise TypeError(f"field {self.name!r} refers to no table")
        return self.table


class _Fields:
    """The fields of a class, made when they are read first.

    They may name later classes.
    """

    def __get__(self, table: Table | None, cls: type[Table]) -> tuple[Field, ...]:
        names = vars(sys.modules[cls.__module__])
        facts = zip(range(4, 1 << 16, 2), cls.__annotations__.items(), cls.DEFAULTS, strict=False)
        fields = tuple([_field(name, slot, type, default, names) for slot, (name, type), default in facts])
        cls.FIELDS = fields
        return fields


def _field(name: str, slot: int, type: str, default: Any, names: Mapping[str, Any]) -> Field:
    """Return the field of an annotation, whose tables and unions are among ``names``."""
    form = _TYPE.match(type)
    assert form is not None
    if form["kind"] == "union":
        return Field(name, slot, "union", default, choices=names[form["of"]])
    element = "ubyte" if form[0] == "blob" else form["of"] or form["element"]
    if element is not None:
        kind = form["kind"] or "vector"
        is_plain = element in SCALARS or element == "string"
        return Field(name, slot, kind, default, *((element, None) if is_plain else ("table", names[element])))
    if form[0] in (*SCALARS, "string"):
        return Field(name, slot, form[0], default)
    return Field(name, slot, "table", default, None, names[form[0]])


class _TableType(type):
    """Type of tables: annotated fields become slots, and their values the defaults."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _TableType:
        types = body.get("__annotations__", {}) if bases else {}
        defaults = tuple([body.pop(field) for field in types])
        is_flat = all(form in SCALARS for form in types.values())
        names = tuple(types)
        facts = {"__slots__": names, "NAMES": names, "DEFAULTS": defaults, "IS_FLAT": is_flat}
        return super().__new__(mcs, name, bases, {**body, **facts})


def _initializer(names: Sequence[str], defaults: tuple[Any, ...]) -> Callable[..., None]:
    """Return the compiled ``__init__`` of a class: a file has many tables."""
    scope: dict[str, Any] = {}
    assignments = [f"    self.{name} = {name}" for name in names]
    exec("\n".join([f"def init(self, {'=None, '.join(names)}=None):", *assignments]), scope)
    init: Callable[..., None] = scope["init"]
    init.__defaults__ = defaults
    return init


@dataclass_transform()
class Table(metaclass=_TableType):
    """A flatbuffer table as a Python object; missing fields are defaults or None.

    Attributes:
        FIELDS: Its fields in the order of the schema.
        NAMES: Their names.
        DEFAULTS: Their defaults.
        IDENTIFIER: The file identifier, if this is a root.
        IS_FLAT: Whether all its fields are scalars.
    """

    FIELDS: ClassVar[Any] = _Fields()
    NAMES: ClassVar[tuple[str, ...]]
    DEFAULTS: ClassVar[tuple[Any, ...]]
    IDENTIFIER: ClassVar[bytes] = b""
    IS_FLAT: ClassVar[bool]

    def __init__(self, *values: Any, **named: Any) -> None:
        cls = type(self)
        cls.__init__ = _initializer(cls.NAMES, cls.DEFAULTS)  # type: ignore[method-assign]
        cls.__init__(self, *values, **named)

    def __repr__(self) -> str:
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({', '.join(shown)})"


class Blob:
    """A vector as a range of bytes, copied only by ``bytes()``.

    Attributes:
        view: The bytes.
        start: First byte, counted from the start of the flatbuffer.
    """

    __slots__ = ("start", "view")

    def __init__(self, view: memoryview, start: int = 0) -> None:
        self.view = view
        self.start = start

    def __len__(self) -> int:
        return len(self.view)

    def __bytes__(self) -> bytes:
        return bytes(self.view)

    def __repr__(self) -> str:
        return f"<{len(self)} bytes at {self.start}>"
