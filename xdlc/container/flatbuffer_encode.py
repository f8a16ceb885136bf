"""Writer of table-driven flatbuffers; the reader is ``xdlc.container.flatbuffer``."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from xdlc.container.flatbuffer import FORMATS, SIZES, picker
from xdlc.errors import ContainerError
from xdlc.ir.data import TensorData
from xdlc.schema.table import Blob, Table

LIMIT = 1 << 31
STREAM_ALIGNMENT = 8
_pack_u32 = struct.Struct("<I").pack
_put_u32 = struct.Struct("<I").pack_into
_put_i32 = struct.Struct("<i").pack_into
_STREAM_HEAD = struct.Struct("<4xI")
_ZEROS = tuple(bytes(count) for count in range(STREAM_ALIGNMENT))

Part = bytes | bytearray | TensorData


class Stream(Blob):
    """Tensor data as a byte vector, which ``encode_parts`` does not copy."""

    __slots__ = ("data",)

    def __init__(self, data: TensorData) -> None:
        super().__init__(memoryview(b""))
        self.data = data

    def __len__(self) -> int:
        return self.data.nbytes

    def __bytes__(self) -> bytes:
        return bytes(self.data.numpy().tobytes())


class Rows(list[tuple[Any, ...]]):
    """Tables of one class that have only scalars, each as the values of its fields.

    Attributes:
        table: The class.
    """

    def __init__(self, table: type[Table], rows: Iterable[tuple[Any, ...]]) -> None:
        super().__init__(rows)
        self.table = table


class Made:
    """A vector of tables that are made while they are written, and not held.

    Attributes:
        count: Their number.
        tables: Makes them.
    """

    __slots__ = ("count", "tables")

    def __init__(self, count: int, tables: Callable[[], Iterable[Table]]) -> None:
        self.count = count
        self.tables = tables

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables())


class Alike(Made):
    """A vector of tables that equals others with its key, but for numbers and names.

    Attributes:
        key: What the tables follow from, without the numbers and names.
        named: The class of the tables that have them, as their first two fields.
        names: The numbers, which are not 0, and the names, in order.
    """

    __slots__ = ("key", "named", "names")

    def __init__(
        self,
        count: int,
        tables: Callable[[], Iterable[Table]],
        key: Hashable,
        named: type[Table],
        names: Iterable[tuple[int, str]],
    ) -> None:
        super().__init__(count, tables)
        self.key = key
        self.named = named
        self.names = names


def encode(root: Table) -> bytearray:
    """Return a flatbuffer of ``root`` and all below it.

    Scalars that have their default and fields that are None are omitted, as by the vendor's writer.
    Tables are written before what they refer to; equal strings are written once, after the tables, and
    streams last.  A ``vector64`` field cannot be written.

    Raises:
        ContainerError: If the result passes the 2 GiB that 32-bit offsets can span.
    """
    out = bytearray()
    for part in encode_parts(root):
        out += part.numpy().tobytes() if isinstance(part, TensorData) else part
    return out


def encode_parts(root: Table, *, fix: str = "split the model into several files") -> list[Part]:
    """Return the flatbuffer of ``encode`` in parts; streams are not read.

    The first part is everything but the streams.  The elements of each stream start at a multiple of 8.

    Args:
        root: The root table; its byte vectors may be ``Stream``s.
        fix: What to do about a result that is too large, for the error.

    Raises:
        ContainerError: If the result passes the 2 GiB that 32-bit offsets can span.
    """
    return _Encoder().root(root, fix)


class _Shape:
    """Layout of tables of one class with the same set of present fields.

    Attributes:
        align: What the position of a table is a multiple of.
        pack: Makes the bytes of a table of its distance to the vtable and its scalars; the rest is zero.
        pick: Takes the scalars from the values of all fields, in the order of their bytes.
        strings: Index and byte offset of each string.
        children: Index, byte offset, kind and element of each other field that refers to something.
        vtable: Bytes of the vtable.
    """

    __slots__ = ("align", "children", "pack", "pick", "strings", "vtable")

    def __init__(self, cls: type[Table], is_present: tuple[bool, ...]) -> None:
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
        last = max([fields[index].slot for index in present], default=2)
        slots = [0] * ((last - 2) // 2)
        for index in present:
            slots[(fields[index].slot - 4) // 2] = offsets[index]
        self.vtable = struct.pack(f"<HH{len(slots)}H", 4 + 2 * len(slots), end, *slots)
        order = sorted(present, key=offsets.__getitem__)
        code, position = "<i", 4
        for index in order:
            code += f"{offsets[index] - position}x{FORMATS.get(fields[index].kind, '4x')}"
            position = offsets[index] + widths[index]
        self.pack = struct.Struct(code).pack
        self.pick = picker([index for index in order if fields[index].kind in FORMATS])
        self.strings = [(index, offsets[index]) for index in present if fields[index].kind == "string"]
        self.children = [
            (index, offsets[index], fields[index].kind, fields[index].element or "")
            for index in present
            if fields[index].kind not in (*FORMATS, "string")
        ]


@cache
def _shape(cls: type[Table], is_present: tuple[bool, ...]) -> _Shape:
    return _Shape(cls, is_present)


class _Fields:
    """Access to the fields of tables of one class.

    Attributes:
        get: Returns the values of all fields of a table.
        defaults: Their defaults.
    """

    __slots__ = ("defaults", "get")

    def __init__(self, cls: type[Table]) -> None:
        names = [field.name for field in cls.FIELDS]
        # A getter of one name returns the bare value, so a name is doubled there.
        self.get: Callable[[Table], tuple[Any, ...]] = (
            operator.attrgetter(*names, names[0]) if len(names) == 1 else operator.attrgetter(*names)
        )
        self.defaults = tuple([field.default for field in cls.FIELDS])


@cache
def _fields(cls: type[Table]) -> _Fields:
    return _Fields(cls)


class _Form(NamedTuple):
    """Bytes of a vector with all below it, and the places that differ elsewhere.

    Attributes:
        start: Place of the vector.
        vtables: Place of each table, and that of its vtable in the flatbuffer.
        strings: Places of the offsets to each other string.
        names: Places of the numbers of an ``Alike``, and of the offsets to its names.
    """

    content: bytes
    start: int
    vtables: list[tuple[int, int]]
    strings: list[tuple[str, list[int]]]
    names: list[tuple[int, int]]


class _Encoder:
    def __init__(self) -> None:
        self.out = bytearray(8)
        self.vtables: dict[_Shape, int] = {}
        self.strings: dict[str, list[int]] = {}
        self.streams: list[tuple[int, TensorData]] = []
        self.forms: dict[Hashable, _Form] = {}

    def root(self, root: Table, fix: str) -> list[Part]:
        out = self.out
        out[4:8] = root.IDENTIFIER
        _put_u32(out, 0, self.table(root))
        out.extend(_ZEROS[-len(out) % 4])
        position = len(out)
        for text, slots in self.strings.items():
            for slot in slots:
                _put_u32(out, slot, position - slot)
            try:
                raw = text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ContainerError(f"the model has a name that is not valid Unicode: {text!r}") from error
            count = len(raw)
            end = _ZEROS[4 - count % 4]  # the string's own and those before the next
            out += _pack_u32(count) + raw + end
            position += 4 + count + len(end)
        out.extend(_ZEROS[-len(out) % STREAM_ALIGNMENT])
        position = len(out)
        total = position + sum(
            _STREAM_HEAD.size + data.nbytes + -data.nbytes % STREAM_ALIGNMENT for _, data in self.streams
        )
        if total >= LIMIT:
            what = "the data of the graphs need" if self.streams else "the graphs need"
            raise ContainerError(f"{what} {total} bytes, more than the 2 GiB of a flatbuffer", fix=fix)
        parts: list[Part] = [out]
        for slot, data in self.streams:
            padding = -data.nbytes % STREAM_ALIGNMENT
            _put_u32(out, slot, position + 4 - slot)
            parts += [_STREAM_HEAD.pack(data.nbytes), data, *([_ZEROS[padding]] if padding else [])]
            position += _STREAM_HEAD.size + data.nbytes + padding
        return parts

    def vtable(self, shape: _Shape) -> int:
        """Write a vtable; return where it is."""
        out = self.out
        out.extend(_ZEROS[-len(out) % 4])
        position = self.vtables[shape] = len(out)
        out += shape.vtable
        out.extend(_ZEROS[-len(out) % 4])
        return position

    def table(self, table: Table) -> int:
        cls: Any = type(table)
        fields = _fields(cls)
        values = fields.get(table)
        shape = _shape(cls, tuple(map(operator.ne, values, fields.defaults)))
        vtable = self.vtables.get(shape) or self.vtable(shape)
        out = self.out
        out.extend(_ZEROS[-len(out) % shape.align])
        position = len(out)
        try:
            out += shape.pack(position - vtable, *shape.pick(values))
        except (struct.error, OverflowError) as error:
            raise _unfit(table) from error
        for index, offset in shape.strings:
            self.strings.setdefault(values[index], []).append(position + offset)
        for index, offset, kind, element in shape.children:
            slot = position + offset
            value = values[index]
            if kind in ("table", "union"):
                _put_u32(out, slot, self.table(value) - slot)
            elif isinstance(value, Stream):
                self.streams.append((slot, value.data))
            else:
                try:
                    _put_u32(out, slot, self.vector(value, element, kind == "mapped") - slot)
                except (struct.error, OverflowError) as error:
                    raise _unfit(table) from error
        return position

    def alike(self, values: Alike) -> int:
        """Write a vector, a copy if there is one like it; return its place."""
        out = self.out
        begin = len(out)
        key = values.key, begin % 8
        form = self.forms.get(key)
        if form is None:
            recorder = _Recorder(self)
            position = recorder.vector(list(values), "table", False)
            if not recorder.streams and len(self.vtables) == recorder.known:
                self.forms[key] = recorder.form(begin, position, values.named)
            for text, slots in recorder.strings.items():
                self.strings.setdefault(text, []).extend(slots)
            return position
        out += form.content
        for place, vtable in form.vtables:
            _put_i32(out, begin + place, begin + place - vtable)
        for text, slots in form.strings:
            self.strings[text] += [begin + slot for slot in slots]
        for (place, slot), (number, name) in zip(form.names, values.names, strict=True):
            _put_u32(out, begin + place, number)
            self.strings.setdefault(name, []).append(begin + slot)
        return begin + form.start

    def vector(self, values: Any, element: str, packed: bool) -> int:
        if isinstance(values, Alike):
            return self.alike(values)
        out = self.out
        width = SIZES.get(element, 4)
        out.extend(_ZEROS[-len(out) % 4])
        if width == 8 and len(out) % 8 == 0:
            out.extend(_ZEROS[4])
        position = len(out)
        count = len(values)
        if packed or element == "ubyte":
            out += struct.pack("<I", count // width) + bytes(values)
            return position
        if element in FORMATS:
            out += struct.pack(f"<I{count}{FORMATS[element]}", count, *values)
            return position
        out += struct.pack(f"<I{4 * count}x", count)
        first = position + 4
        if element == "string":
            strings = self.strings
            for slot, text in enumerate(values):
                strings.setdefault(text, []).append(first + 4 * slot)
            return position
        places = self.rows(values) if isinstance(values, Rows) else list(map(self.table, values))
        offsets = [place - first - 4 * slot for slot, place in enumerate(places)]
        struct.pack_into(f"<{count}I", out, first, *offsets)
        return position

    def rows(self, rows: Rows) -> list[int]:
        """Write tables of scalars only; return where each is."""
        cls: Any = rows.table
        out, last, places = self.out, None, []
        defaults = _fields(cls).defaults
        for values in rows:
            present = tuple(map(operator.ne, values, defaults))
            if present != last:
                shape = _shape(cls, present)
                last, pack, pick = present, shape.pack, shape.pick
                vtable = self.vtables.get(shape) or self.vtable(shape)
            out.extend(_ZEROS[-len(out) % shape.align])
            position = len(out)
            places.append(position)
            try:
                out += pack(position - vtable, *pick(values))
            except (struct.error, OverflowError) as error:
                raise _unfit(cls(*values)) from error
        return places


class _Recorder(_Encoder):
    """An encoder that notes where it writes into the bytes of another.

    Attributes:
        known: Number of vtables before.
        places: Class and place of each table.
    """

    def __init__(self, encoder: _Encoder) -> None:
        super().__init__()
        self.out, self.vtables = encoder.out, encoder.vtables
        self.known = len(encoder.vtables)
        self.places: list[tuple[type[Table], int]] = []

    def table(self, table: Table) -> int:
        position = super().table(table)
        self.places.append((type(table), position))
        return position

    def form(self, begin: int, start: int, named: type[Table]) -> _Form:
        """Return what was written from a place on.

        Args:
            start: Place of the vector.
            named: As of the ``Alike``.
        """
        vtables, names = [], []
        for cls, position in self.places:
            (distance,) = struct.unpack_from("<i", self.out, position)
            vtables.append((position - begin, position - distance))
            if cls is named:
                number, name = struct.unpack_from("<HH", self.out, position - distance + 4)
                names.append((position - begin + number, position - begin + name))
        own = {slot for _, slot in names}
        strings = [
            (text, [slot - begin for slot in slots if slot - begin not in own])
            for text, slots in self.strings.items()
        ]
        return _Form(bytes(self.out[begin:]), start - begin, vtables, strings, names)


def _unfit(table: Table) -> ContainerError:
    """Return the error for a number that does not fit into its field."""
    what = f"{type(table).__name__.lower()} {getattr(table, 'name', None) or ''!r}"
    for field in table.FIELDS:
        value = getattr(table, field.name)
        code = FORMATS.get(field.kind) or FORMATS.get(field.element or "")
        for number in () if code is None or value is None else value if field.element else (value,):
            try:
                struct.pack(f"<{code}", number)
            except (struct.error, OverflowError):
                return ContainerError(
                    f"has the {field.name} {number!r}, which a DLC cannot store", where=what
                )
    return ContainerError("has a number that a DLC cannot hold", where=what)
