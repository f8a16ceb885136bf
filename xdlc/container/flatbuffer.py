"""Reader of flatbuffers from untrusted files, driven by tables.

Both work from the ``FIELDS`` of generated tables (see docs/adr/0004).  Tables refer to each other
by forward offsets only, so a tree of them always ends; a reader still has to bound the depth and
the number of times that a hostile file makes it read the same bytes.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from xdlc.errors import ContainerError
from xdlc.schema.table import Blob, Field, Table

T = TypeVar("T", bound=Table)

FORMATS = {
    "bool": "?",
    "byte": "b",
    "ubyte": "B",
    "short": "h",
    "ushort": "H",
    "int": "i",
    "uint": "I",
    "long": "q",
    "ulong": "Q",
    "float": "f",
    "double": "d",
}
SIZES = {kind: struct.calcsize(f"<{code}") for kind, code in FORMATS.items()}
MAX_DEPTH = 64
# Largest number of reads of a buffer's bytes, on average; valid files share little.
REPEAT = 4
# Bytes that reading may cost: each object costs more than its own bytes, and takes about 10 times its cost
# of memory.  Files that xdlc writes, of however many ops or channels, cost 1 to 2.5 times their size.
MAX_COST = 1 << 26
OWN_COST = 3
TABLE_COST = 24
FLAT_COST = 16
STRING_COST = 24
TRUNCATED = "is truncated"
"""Start of the problem of a file that refers to places after its end."""
LONG = 1024
"""Elements of a vector of scalars that is not copied."""

_u16 = struct.Struct("<H").unpack_from
_u32 = struct.Struct("<I").unpack_from
_i32 = struct.Struct("<i").unpack_from
_u64 = struct.Struct("<Q").unpack_from


def picker(order: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that returns the elements at ``order`` of a sequence."""
    if len(order) < 2:
        return operator.itemgetter(slice(order[0], order[0] + 1) if order else slice(0))
    return operator.itemgetter(*order)


class _Layout:
    """Layout of the tables of one class that share one vtable.

    Attributes:
        size: Bytes of a table.
        unpack: Reads the fields that are present, in the order of their bytes.
        defaults: Values of missing fields.
        pick: Puts the results of ``unpack``, followed by ``defaults``, in the order of the fields.
        strings: Index and byte offset of each string.
        tables: Index, byte offset and class of each table.
        vectors: Index, byte offset, reader and declaration of each vector.
        unions: Index, byte offset and classes by number of each union.
    """

    __slots__ = ("defaults", "pick", "size", "strings", "tables", "unions", "unpack", "vectors")

    def __init__(
        self,
        cls: type[Table],
        size: int,
        unpack: Callable[..., tuple[Any, ...]],
        order: list[int],
        strings: list[tuple[int, int]],
        tables: list[tuple[int, int, type[Table]]],
        vectors: list[tuple[int, int, Callable[..., Any], Field]],
        unions: list[tuple[int, int, Mapping[int, type[Table]]]],
    ) -> None:
        self.size = size
        self.unpack = unpack
        missing = [index for index in range(len(cls.FIELDS)) if index not in order]
        self.defaults = (*[cls.FIELDS[index].default for index in missing],)
        places = {index: place for place, index in enumerate([*order, *missing])}
        self.pick = picker([places[index] for index in range(len(cls.FIELDS))])
        self.strings = strings
        self.tables = tables
        self.vectors = vectors
        self.unions = unions


def decode(data: bytes | memoryview, root: type[T], where: str, *, by_item: bool = False) -> T:
    """Return the root table of a flatbuffer, all of it checked and read.

    Byte vectors become ``Blob`` ranges; everything else is copied out.

    Args:
        data: The whole flatbuffer, from its root offset on.
        root: Class of the root table.
        by_item: Whether a table in a vector is checked and read when the vector is iterated, which is to
            happen once.

    Raises:
        ContainerError: If any offset, count, string or depth breaks the format's rules.
    """
    return _Decoder(data, where, by_item).root(root)


class _Tables(Sequence[Table]):
    """Tables of a vector, each read when it is used."""

    __slots__ = ("_places", "_read")

    def __init__(self, read: Callable[[int], Table], places: Sequence[int]) -> None:
        self._read, self._places = read, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        return self._read(self._places[index])

    def __iter__(self) -> Iterator[Table]:
        return map(self._read, self._places)


class _Decoder:
    def __init__(self, data: bytes | memoryview, where: str, by_item: bool) -> None:
        self.by_item = by_item
        self.data = memoryview(data)
        self.size = len(self.data)
        self.where = where
        most = max(MAX_COST, OWN_COST * self.size)
        self.budget = self.allowed = min(REPEAT * self.size, most) + 4096
        self.layouts: dict[tuple[type[Table], int], _Layout] = {}
        self.strings: dict[int, str] = {}

    def fail(self, problem: str) -> ContainerError:
        return ContainerError(problem, where=self.where, fix="get the file again: it is damaged")

    def cut(self, part: str) -> ContainerError:
        """Return the error for a part that exceeds the end of the data."""
        return self.fail(f"{TRUNCATED}: it has {part} of {self.size}")

    def root(self, root: type[T]) -> T:
        if self.size < 8:
            raise self.fail(f"needs 8 bytes for its root offset and identifier, but has {self.size}")
        found = bytes(self.data[4:8])
        if found != root.IDENTIFIER:
            raise self.fail(f"has the identifier {found!r} instead of {root.IDENTIFIER!r}")
        return cast(T, self.table(_u32(self.data, 0)[0], root, 0))

    def spend(self, amount: int) -> None:
        self.budget -= amount
        if self.budget < 0:
            raise self.overspent()

    def overspent(self) -> ContainerError:
        return self.fail(
            f"refers to its {self.size} bytes more than {REPEAT} times over, or costs more than"
            f" {self.allowed} to read"
        )

    def table(self, position: int, cls: type[Table], depth: int) -> Table:
        if depth > MAX_DEPTH:
            raise self.fail(f"nests tables deeper than {MAX_DEPTH}")
        if position + 4 > self.size:
            raise self.cut(f"a table at byte {position}")
        vtable = position - _i32(self.data, position)[0]
        layout = self.layouts.get((cls, vtable)) or self.layout_at(vtable, cls)
        if position + layout.size > self.size:
            raise self.cut(f"a table of {layout.size} bytes at byte {position}")
        self.budget -= TABLE_COST
        if self.budget < 0:
            raise self.overspent()
        values = [*layout.pick(layout.unpack(self.data, position) + layout.defaults)]
        for index, offset in layout.strings:
            place = position + offset + values[index]
            text = self.strings.get(place)
            values[index] = self.string(place) if text is None else text
        for index, offset, target in layout.tables:
            values[index] = self.table(position + offset + values[index], target, depth + 1)
        for index, offset, read, field in layout.vectors:
            values[index] = read(position + offset, values[index], field, depth + 1)
        for index, offset, choices in layout.unions:
            chosen = choices.get(values[index - 1])  # a table without fields has no class
            values[index] = chosen and self.table(position + offset + values[index], chosen, depth + 1)
        return cls(*values)

    def layout_at(self, vtable: int, cls: type[Table]) -> _Layout:
        layout = self.layouts.get((cls, vtable))
        if layout is None:
            layout = self.layouts[cls, vtable] = self.layout(vtable, cls)
        return layout

    def layout(self, vtable: int, cls: type[Table]) -> _Layout:
        if vtable + 4 > self.size:
            raise self.cut(f"a vtable at byte {vtable}")
        nbytes, size = struct.unpack_from("<HH", self.data, vtable) if vtable >= 0 else (0, 0)
        if vtable + nbytes > self.size:
            raise self.cut(f"a vtable of {nbytes} bytes at byte {vtable}")
        if nbytes < 4 or nbytes % 2 or size < 4:
            raise self.fail(f"has a vtable at byte {vtable} of {nbytes} bytes for tables of {size}")
        present = []
        for index, field in enumerate(cls.FIELDS):
            offset = _u16(self.data, vtable + field.slot)[0] if field.slot + 2 <= nbytes else 0
            if offset:
                present.append((offset, index, field))
        present.sort(key=operator.itemgetter(0))
        code, end = "<", 0
        order: list[int] = []
        strings: list[tuple[int, int]] = []
        tables: list[tuple[int, int, type[Table]]] = []
        vectors: list[tuple[int, int, Callable[..., Any], Field]] = []
        unions: list[tuple[int, int, Mapping[int, type[Table]]]] = []
        for offset, index, field in present:
            scalar = FORMATS.get(field.kind)
            width = SIZES[field.kind] if scalar else 8 if field.kind == "vector64" else 4
            if offset < max(end, 4) or offset + width > size:
                raise self.fail(f"has a table layout at byte {vtable} whose field {field.name} is misplaced")
            code += f"{offset - end}x{scalar or ('Q' if width == 8 else 'I')}"
            end = offset + width
            order.append(index)
            if field.kind == "string":
                strings.append((index, offset))
            elif field.kind == "table":
                tables.append((index, offset, field.target))
            elif field.choices is not None:
                unions.append((index, offset, field.choices))
            elif not scalar:
                vectors.append((index, offset, getattr(self, "read_" + field.kind), field))
        return _Layout(cls, size, struct.Struct(code).unpack_from, order, strings, tables, vectors, unions)

    def string(self, position: int) -> str:
        start, count = self.span(position, 1)
        self.spend(STRING_COST)
        end = start + count
        if end == self.size:
            raise self.cut(f"a string at byte {position} that ends at byte {end}")
        if self.data[end]:
            raise self.fail(f"has a string at byte {position} without its end")
        try:
            text = str(self.data[start:end], "utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"has a string at byte {position} that is not UTF-8") from error
        self.strings[position] = text
        return text

    def span(self, position: int, width: int) -> tuple[int, int]:
        """Return (first byte, count) of the vector at ``position``, within the buffer."""
        if position + 4 > self.size:
            raise self.cut(f"a vector at byte {position}")
        count = _u32(self.data, position)[0]
        start = position + 4
        if start + count * width > self.size:
            raise self.cut(f"a vector of {count} elements at byte {position}")
        self.budget -= 4 + count * width
        if self.budget < 0:
            raise self.overspent()
        return start, count

    def read_vector(self, position: int, offset: int, field: Field, depth: int) -> Any:
        position += offset
        element = field.element or ""
        if element == "ubyte":
            start, count = self.span(position, 0)
            if start + count > self.size:
                raise self.cut(f"{count} bytes at byte {position}")
            return Blob(self.data[start : start + count], start)
        start, count = self.span(position, SIZES.get(element, 4))
        if element in FORMATS:
            if count > LONG:
                return self.data[start : start + count * SIZES[element]].cast(FORMATS[element])  # type: ignore[call-overload]
            return struct.unpack_from(f"<{count}{FORMATS[element]}", self.data, start)
        offsets = struct.unpack_from(f"<{count}I", self.data, start)
        places = [start + 4 * index + offset for index, offset in enumerate(offsets)]
        if element == "string":
            known, read = self.strings, self.string
            return [known[place] if place in known else read(place) for place in places]
        table, cls = self.table, field.target
        if cls.IS_FLAT:
            return self.flat_tables(places, cls)
        if self.by_item:
            return _Tables(lambda place: table(place, cls, depth), places)
        return [table(place, cls, depth) for place in places]

    def flat_tables(self, places: list[int], cls: type[Table]) -> list[Table]:
        """Read tables that have only scalar fields, like the encodings of channels."""
        self.spend(FLAT_COST * len(places))
        data, size, last, rows = self.data, self.size, -1, []
        for place in places:
            if place + 4 > size:
                raise self.cut(f"a table at byte {place}")
            vtable = place - _i32(data, place)[0]
            if vtable != last:
                layout = self.layout_at(vtable, cls)
                last, unpack, pick, defaults = vtable, layout.unpack, layout.pick, layout.defaults
            if place + layout.size > size:
                raise self.cut(f"a table of {layout.size} bytes at byte {place}")
            rows.append(cls(*pick(unpack(data, place) + defaults)))
        return rows

    def read_mapped(self, position: int, offset: int, field: Field, depth: int) -> Blob:
        start, count = self.span(position + offset, SIZES[field.element or ""])
        return Blob(self.data[start : start + count * SIZES[field.element or ""]], start)

    def read_vector64(self, position: int, offset: int, field: Field, depth: int) -> Blob:
        position += offset
        if position + 8 > self.size:
            raise self.cut(f"a vector at byte {position}")
        count = _u64(self.data, position)[0]
        if count > self.size - position - 8:
            raise self.cut(f"{count} bytes at byte {position}")
        self.spend(8)
        return Blob(self.data[position + 8 : position + 8 + count], position + 8)
