"""Base classes of generated flatbuffer tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple


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


class Table:
    """A flatbuffer table as a Python object; missing fields are defaults or None.

    Attributes:
        FIELDS: Its fields in the order of the schema.
        IDENTIFIER: The file identifier, if this is a root.
        IS_FLAT: Whether all its fields are scalars.
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    IDENTIFIER: ClassVar[bytes] = b""
    IS_FLAT: ClassVar[bool] = False

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
