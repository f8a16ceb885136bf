"""Zip archives within bounds: entries, extra fields, directories."""

import io
import struct
import zipfile

import pytest

from xdlc.ir.zip_files import MOST_ENTRIES, open_zip


def archive(count: int, extra: bytes = b"") -> io.BytesIO:
    """Return an archive of empty entries, each with an extra field."""
    directory = b"".join(
        struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, *[0] * 7, 4, len(extra), *[0] * 5)
        + b"%4d" % (number % 9999)
        + extra
        for number in range(count)
    )
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count & 0xFFFF, count & 0xFFFF, len(directory), 0, 0)
    return io.BytesIO(directory + end)


@pytest.mark.parametrize(
    ("count", "extra"),
    [(1, b"\xfe\xca\0\0" * 16_000), (MOST_ENTRIES + 1, b""), (9_000, b"\xfe\xca\0\0" * 250)],
)
def test_directories_that_cost_too_much_are_refused(count: int, extra: bytes) -> None:
    with pytest.raises(zipfile.BadZipFile, match="more than"):
        open_zip(archive(count, extra))


def test_what_writers_write_is_read() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for number in range(20):
            with written.open(f"{number}.npy", "w", force_zip64=True) as entry:
                entry.write(b"PK\1\2" * number)
    with open_zip(file) as read:
        assert [read.read(name) for name in read.namelist()] == [b"PK\1\2" * number for number in range(20)]
