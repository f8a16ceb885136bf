"""Table-driven flatbuffers: a reader that trusts nothing, and a writer.

Both work from the ``FIELDS`` of generated tables (see docs/adr/0004).  Tables refer to each other
by forward offsets only, so a tree of them always ends; what a reader still has to bound is depth
and the number of times that a hostile file makes it read the same bytes.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
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
# How often over the bytes of a buffer may be read before it counts as an attack; honest writers share little.
REPEAT = 4
TABLE_COST = 8

_u16 = struct.Struct("<H").unpack_from
_u32 = struct.Struct("<I").unpack_from
_i32 = struct.Struct("<i").unpack_from
_put_u32 = struct.Struct("<I").pack_into
_u64 = struct.Struct("<Q").unpack_from


def _picker(order: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that gives the elements at ``order`` of a sequence."""
    if len(order) < 2:
        return operator.itemgetter(slice(order[0], order[0] + 1) if order else slice(0))
    return operator.itemgetter(*order)


class _Layout:
    """How the tables of one class that share one vtable are laid out.

    Attributes:
        size: Bytes of a table.
        unpack: Reads the fields that are present, in the order of their bytes.
        defaults: Values of the fields that are absent.
        pick: Puts what ``unpack`` gave, followed by ``defaults``, in the order of the fields.
        children: Index, byte offset, reader and declaration of each field that refers to something.
    """

    __slots__ = ("children", "defaults", "pick", "size", "unpack")

    def __init__(
        self,
        cls: type[Table],
        size: int,
        unpack: Callable[..., tuple[Any, ...]],
        order: list[int],
        children: list[tuple[int, int, Callable[..., Any], Field]],
    ) -> None:
        self.size = size
        self.unpack = unpack
        absent = [index for index in range(len(cls.FIELDS)) if index not in order]
        self.defaults = (*[cls.FIELDS[index].default for index in absent],)
        places = {index: place for place, index in enumerate([*order, *absent])}
        self.pick = _picker([places[index] for index in range(len(cls.FIELDS))])
        self.children = children


def decode(data: bytes | memoryview, root: type[T], where: str) -> T:
    """Return the root table of a flatbuffer, all of it checked and read.

    Byte vectors become ``Blob`` ranges; everything else is copied out.

    Args:
        data: The whole flatbuffer, from its root offset on.
        root: Class of the root table.
        where: File and entry, for errors.

    Raises:
        ContainerError: If any offset, count, string or depth breaks the format's rules.
    """
    return _Decoder(data, where).root(root)


class _Decoder:
    def __init__(self, data: bytes | memoryview, where: str) -> None:
        self.data = memoryview(data)
        self.size = len(self.data)
        self.where = where
        self.budget = REPEAT * self.size + 4096
        self.layouts: dict[tuple[type[Table], int], _Layout] = {}
        self.strings: dict[int, str] = {}

    def fail(self, problem: str) -> ContainerError:
        return ContainerError(problem, where=self.where, fix="the file is damaged: get it again")

    def root(self, root: type[T]) -> T:
        if self.size < 8:
            raise self.fail(f"needs 8 bytes for its root offset and identifier, has {self.size}")
        found = bytes(self.data[4:8])
        if found != root.IDENTIFIER:
            raise self.fail(f"should have the identifier {root.IDENTIFIER!r}, has {found!r}")
        return cast(T, self.table(_u32(self.data, 0)[0], root, 0))

    def spend(self, amount: int) -> None:
        self.budget -= amount
        if self.budget < 0:
            raise self.fail(f"refers to its {self.size} bytes more than {REPEAT} times over")

    def table(self, position: int, cls: type[Table], depth: int) -> Table:
        if depth > MAX_DEPTH:
            raise self.fail(f"nests tables deeper than {MAX_DEPTH}")
        if position + 4 > self.size:
            raise self.fail(f"has a table at byte {position} of {self.size}")
        vtable = position - _i32(self.data, position)[0]
        layout = self.layout_at(vtable, cls)
        if position + layout.size > self.size:
            raise self.fail(f"has a table at byte {position} that ends after byte {self.size}")
        self.spend(TABLE_COST)
        picked = layout.pick(layout.unpack(self.data, position) + layout.defaults)
        if not layout.children:
            return cls(*picked)
        values = list(picked)
        for index, offset, read, field in layout.children:
            values[index] = read(position + offset, values[index], field, depth + 1)
        return cls(*values)

    def layout_at(self, vtable: int, cls: type[Table]) -> _Layout:
        layout = self.layouts.get((cls, vtable))
        if layout is None:
            layout = self.layouts[cls, vtable] = self.layout(vtable, cls)
        return layout

    def layout(self, vtable: int, cls: type[Table]) -> _Layout:
        if vtable < 0 or vtable + 4 > self.size:
            raise self.fail(f"has a vtable at byte {vtable} of {self.size}")
        nbytes, size = struct.unpack_from("<HH", self.data, vtable)
        if nbytes < 4 or nbytes % 2 or vtable + nbytes > self.size or size < 4:
            raise self.fail(f"has a vtable at byte {vtable} of {nbytes} bytes for tables of {size}")
        present = []
        for index, field in enumerate(cls.FIELDS):
            offset = _u16(self.data, vtable + field.slot)[0] if field.slot + 2 <= nbytes else 0
            if offset:
                present.append((offset, index, field))
        present.sort(key=operator.itemgetter(0))
        code, end, order = "<", 0, []
        children: list[tuple[int, int, Callable[..., Any], Field]] = []
        for offset, index, field in present:
            scalar = FORMATS.get(field.kind)
            width = SIZES[field.kind] if scalar else 8 if field.kind == "vector64" else 4
            if offset < max(end, 4) or offset + width > size:
                raise self.fail(f"has a table layout at byte {vtable} whose field {field.name} is misplaced")
            code += f"{offset - end}x{scalar or ('Q' if width == 8 else 'I')}"
            end = offset + width
            order.append(index)
            if not scalar:
                children.append((index, offset, getattr(self, "read_" + field.kind), field))
        return _Layout(cls, size, struct.Struct(code).unpack_from, order, children)

    def read_table(self, position: int, offset: int, field: Field, depth: int) -> Table:
        return self.table(position + offset, field.target, depth)

    def read_string(self, position: int, offset: int, field: Field, depth: int) -> str:
        return self.string(position + offset)

    def string(self, position: int) -> str:
        known = self.strings.get(position)
        if known is not None:
            return known
        start, count = self.span(position, 1)
        end = start + count
        if end >= self.size or self.data[end]:
            raise self.fail(f"has a string at byte {position} without its end")
        try:
            text = str(self.data[start:end], "utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"has a string at byte {position} that is not UTF-8") from error
        self.strings[position] = text
        return text

    def span(self, position: int, width: int) -> tuple[int, int]:
        """Return (first byte, count) of the vector at ``position``, which lies within the buffer."""
        if position + 4 > self.size:
            raise self.fail(f"has a vector at byte {position} of {self.size}")
        count = _u32(self.data, position)[0]
        start = position + 4
        if start + count * width > self.size:
            raise self.fail(f"has a vector of {count} elements at byte {position} of {self.size}")
        self.spend(4 + count * width)
        return start, count

    def read_vector(self, position: int, offset: int, field: Field, depth: int) -> Any:
        position += offset
        element = field.element or ""
        if element == "ubyte":
            start, count = self.span(position, 0)
            if start + count > self.size:
                raise self.fail(f"has {count} bytes at byte {position} of {self.size}")
            return Blob(self.data[start : start + count], start)
        start, count = self.span(position, SIZES.get(element, 4))
        if element in FORMATS:
            return struct.unpack_from(f"<{count}{FORMATS[element]}", self.data, start)
        offsets = struct.unpack_from(f"<{count}I", self.data, start)
        places = [start + 4 * index + offset for index, offset in enumerate(offsets)]
        if element == "string":
            return [self.string(place) for place in places]
        table, cls = self.table, field.target
        if cls.IS_FLAT:
            return self.flat_tables(places, cls)
        return [table(place, cls, depth) for place in places]

    def flat_tables(self, places: list[int], cls: type[Table]) -> list[Table]:
        """Read tables of scalars only, of which encodings have one per channel."""
        self.spend(TABLE_COST * len(places))
        data, size, last, found = self.data, self.size, -1, []
        for place in places:
            if place + 4 > size:
                raise self.fail(f"has a table at byte {place} of {size}")
            vtable = place - _i32(data, place)[0]
            if vtable != last:
                layout = self.layout_at(vtable, cls)
                last, unpack, pick, defaults = vtable, layout.unpack, layout.pick, layout.defaults
            if place + layout.size > size:
                raise self.fail(f"has a table at byte {place} that ends after byte {size}")
            found.append(cls(*pick(unpack(data, place) + defaults)))
        return found

    def read_mapped(self, position: int, offset: int, field: Field, depth: int) -> Blob:
        start, count = self.span(position + offset, SIZES[field.element or ""])
        return Blob(self.data[start : start + count * SIZES[field.element or ""]], start)

    def read_vector64(self, position: int, offset: int, field: Field, depth: int) -> Blob:
        position += offset
        if position + 8 > self.size:
            raise self.fail(f"has a vector at byte {position} of {self.size}")
        count = _u64(self.data, position)[0]
        if count > self.size - position - 8:
            raise self.fail(f"has {count} bytes at byte {position} of {self.size}")
        self.spend(8)
        return Blob(self.data[position + 8 : position + 8 + count], position + 8)


def encode(root: Table) -> bytearray:
    """Return a flatbuffer of ``root`` and all below it.

    Scalars that have their default and fields that are None are left out, as the vendor's writer does.
    Tables are written before what they refer to; equal strings are written once, at the end.  A
    ``vector64`` field cannot be written.

    Raises:
        ContainerError: If the result passes the 2 GB that 32-bit offsets can span.
    """
    return _Encoder().root(root)


class _Shape:
    """How tables of one class with the same set of present fields are written."""

    __slots__ = ("align", "children", "pack", "pick", "size", "vtable")

    def __init__(self, cls: type[Table], is_present: tuple[bool, ...], out: bytearray) -> None:
        fields = cls.FIELDS
        present = [index for index, yes in enumerate(is_present) if yes]
        widths = {index: SIZES.get(fields[index].kind, 4) for index in present}
        self.align = max([4, *widths.values()])
        offsets: dict[int, int] = {}
        end = 4
        for width in (4, 8, 2, 1):
            for index in present:
                if widths[index] == width:
                    end += -end % width
                    offsets[index] = end
                    end += width
        self.size = end
        last = max((fields[index].slot for index in present), default=2)
        slots = [0] * ((last - 2) // 2)
        for index in present:
            slots[(fields[index].slot - 4) // 2] = offsets[index]
        out.extend(bytes(-len(out) % 4))
        self.vtable = len(out)
        out += struct.pack(f"<HH{len(slots)}H", 4 + 2 * len(slots), end, *slots)
        out.extend(bytes(-len(out) % 4))
        order = sorted(present, key=offsets.__getitem__)
        code, position = "<i", 4
        for index in order:
            code += f"{offsets[index] - position}x{FORMATS.get(fields[index].kind, 'I')}"
            position = offsets[index] + widths[index]
        self.pack = struct.Struct(code).pack
        self.pick = _picker(order)
        self.children = [
            (index, offsets[index], fields[index])
            for index in sorted(present)
            if fields[index].kind not in FORMATS
        ]


class _Encoder:
    def __init__(self) -> None:
        self.out = bytearray(8)
        self.shapes: dict[tuple[type[Table], tuple[int, ...]], _Shape] = {}
        self.getters: dict[type[Table], tuple[Callable[[Table], tuple[Any, ...]], tuple[Any, ...]]] = {}
        self.strings: dict[str, list[int]] = {}

    def root(self, root: Table) -> bytearray:
        out = self.out
        out[4:8] = root.IDENTIFIER
        _put_u32(out, 0, self.table(root))
        for text, slots in self.strings.items():
            out.extend(bytes(-len(out) % 4))
            position = len(out)
            for slot in slots:
                _put_u32(out, slot, position - slot)
            raw = text.encode("utf-8")
            out += struct.pack("<I", len(raw)) + raw + b"\0"
        out.extend(bytes(-len(out) % 8))
        if len(out) >= 1 << 31:
            raise ContainerError(
                f"the graphs take {len(out)} bytes, more than the 2 GB of a flatbuffer",
                fix="split the model into several files",
            )
        return out

    def getter(self, cls: type[Table]) -> tuple[Callable[[Table], tuple[Any, ...]], tuple[Any, ...]]:
        """Return what takes the values of all fields from a table, and their defaults."""
        found = self.getters.get(cls)
        if found is None:
            names = [field.name for field in cls.FIELDS]
            # A getter of one name gives the bare value, so a name is doubled there.
            get = operator.attrgetter(*names, names[0]) if len(names) == 1 else operator.attrgetter(*names)
            found = self.getters[cls] = get, tuple(field.default for field in cls.FIELDS)
        return found

    def shape(self, cls: type[Table], present: tuple[bool, ...]) -> _Shape:
        shape = self.shapes.get((cls, present))
        if shape is None:
            shape = self.shapes[cls, present] = _Shape(cls, present, self.out)
        return shape

    def table(self, table: Table) -> int:
        cls = type(table)
        get, defaults = self.getter(cls)
        values = get(table)
        shape = self.shape(cls, tuple(map(operator.ne, values, defaults)))
        out = self.out
        padding = -len(out) % shape.align
        if padding:
            out.extend(bytes(padding))
        position = len(out)
        row: Sequence[Any] = values
        if shape.children:
            row = list(values)
            for index, _, _ in shape.children:
                row[index] = 0
        out += shape.pack(position - shape.vtable, *shape.pick(row))
        for index, offset, field in shape.children:
            slot = position + offset
            kind = field.kind
            if kind == "string":
                self.strings.setdefault(values[index], []).append(slot)
                continue
            if kind == "table":
                place = self.table(values[index])
            else:
                place = self.vector(values[index], field.element or "", kind == "mapped")
            _put_u32(out, slot, place - slot)
        return position

    def vector(self, values: Any, element: str, packed: bool) -> int:
        out = self.out
        width = SIZES.get(element, 4)
        out.extend(bytes((4 - len(out) % 4) % 4))
        if width == 8 and len(out) % 8 == 0:
            out.extend(bytes(4))
        position = len(out)
        count = len(values)
        if packed or element == "ubyte":
            out += struct.pack("<I", count // width) + bytes(values)
            return position
        if element in FORMATS:
            out += struct.pack(f"<I{count}{FORMATS[element]}", count, *values)
            return position
        out += struct.pack("<I", count)
        out.extend(bytes(4 * count))
        first = position + 4
        if element == "string":
            strings = self.strings
            for slot, text in enumerate(values):
                strings.setdefault(text, []).append(first + 4 * slot)
            return position
        if count and values[0].IS_FLAT:
            places = self.flat_tables(values)
        else:
            write = self.table
            places = [write(table) for table in values]
        offsets = [place - first - 4 * slot for slot, place in enumerate(places)]
        struct.pack_into(f"<{count}I", out, first, *offsets)
        return position

    def flat_tables(self, tables: Sequence[Any]) -> list[int]:
        """Write tables of scalars only; return where each is."""
        out, cls, last, places = self.out, type(tables[0]), None, []
        get, defaults = self.getter(cls)
        for table in tables:
            values = get(table)
            present = tuple(map(operator.ne, values, defaults))
            if present != last:
                shape = self.shape(cls, present)
                last, pack, pick, vtable = present, shape.pack, shape.pick, shape.vtable
            out.extend(bytes(-len(out) % shape.align))
            position = len(out)
            places.append(position)
            out += pack(position - vtable, *pick(values))
        return places
