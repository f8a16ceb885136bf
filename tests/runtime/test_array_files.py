import io
from pathlib import Path

import numpy as np
import pytest

from xdlc.errors import StorageError
from xdlc.runtime import array_files


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "|u1", "<i8", "|b1", "<f2", "<c8", "<U3"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_that_numpy_saved(tmp_path: Path, dtype: str, shape: tuple[int, ...], order: str) -> None:
    array = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape), dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    found = array_files.load(tmp_path / "a.npy")
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    with open(tmp_path / "a.npy", "rb") as file, open(tmp_path / "a.npy", "rb") as reference:
        read = array_files.read_header(file, "")
        version = np.lib.format.read_magic(reference)
        assert version == (1, 0)
        assert tuple(read) == np.lib.format.read_array_header_1_0(reference)
        assert file.tell() == reference.tell()


def test_versions_and_other_writers() -> None:
    for version, width in ((1, 2), (2, 4), (3, 4)):
        text = b'{"shape":(2,3),"descr":"<f4","fortran_order":False}'
        file = io.BytesIO(b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(width, "little") + text)
        assert array_files.read_header(file, "") == ((2, 3), False, np.dtype("<f4"))


HEADERS = [
    '{"descr": ("<f4",',
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 900 + ",), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999999999999), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } + 1",
    "{'descr': '<f4', 'fortran_order': False}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': 'z9', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
    "(" * 5000,
    "{'shape': (" + "1 " * 30000,
    "",
]


@pytest.mark.parametrize("text", HEADERS)
def test_headers_of_other_forms(tmp_path: Path, text: str) -> None:
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(64)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(StorageError):
        array_files.load(tmp_path / "a.npy")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x07\x00", b"\x93NUMPY\x02\x00\xff\xff\xff\xff"])
def test_starts_of_other_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(StorageError):
        array_files.load(tmp_path / "a.npy")


def test_a_file_that_ends_too_early(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(8))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    with pytest.raises(StorageError, match="ends before the 64 bytes"):
        array_files.load(tmp_path / "a.npy")
