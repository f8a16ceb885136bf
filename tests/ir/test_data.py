"""Lazy data: ranges of files, arrays and transforms."""

import errno
import io
import mmap
import zlib

import numpy as np
import pytest

from xdlc.errors import ContainerError, ModelError, StorageError
from xdlc.ir.data import ArrayData, Elided, MappedData, MappedFile, Transform, raw_data


@pytest.fixture
def mapped(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"head" + np.arange(24, dtype="<f4").tobytes() + b"tail")
    return MappedFile(path)


@pytest.fixture
def weight(mapped):
    return MappedData(mapped, 4, (2, 3, 4), "<f4")


def written(data, file):
    file.write(b"before")
    data.write_to(file)
    file.write(b"after")
    file.flush()
    file.seek(0)
    return file.read()


def test_a_range_reads_as_an_array_that_cannot_be_written(weight):
    array = weight.numpy()
    assert array.shape == (2, 3, 4)
    assert array.reshape(-1).tolist() == list(range(24))
    assert weight.nbytes == 96
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    weight.release()
    assert weight.numpy()[1, 2, 3] == 23


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_range_is_copied_into_a_file_at_its_position(weight, tmp_path, buffering):
    with open(tmp_path / "out.bin", "w+b", buffering=buffering) as file:
        assert written(weight, file) == b"before" + weight.numpy().tobytes() + b"after"


def test_a_range_is_written_to_files_without_a_descriptor(weight):
    assert written(weight, io.BytesIO()) == b"before" + weight.numpy().tobytes() + b"after"


@pytest.mark.parametrize(("offset", "shape"), [(-4, (1,)), (104, (1,)), (12, (2, 3, 4)), (0, (2**62,))])
def test_a_range_outside_the_file_is_refused(mapped, offset, shape):
    with pytest.raises(ModelError, match="has 104 bytes, but the model needs") as caught:
        MappedData(mapped, offset, shape, "<f4")
    assert "weights.bin" in caught.value.where


def test_an_empty_range_at_the_end_is_allowed(mapped):
    empty = MappedData(mapped, 104, (0, 3), "<f4")
    assert empty.numpy().shape == (0, 3)
    assert written(empty, io.BytesIO()) == b"beforeafter"


def test_an_empty_file_maps(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    data = MappedData(MappedFile(tmp_path / "empty"), 0, (0,), np.uint8)
    assert data.numpy().size == 0


def test_a_missing_file_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="cannot be read"):
        MappedFile(tmp_path / "none.bin")


def test_a_lack_of_memory_has_its_own_fix(tmp_path, monkeypatch):
    def full(*_args, **_settings):
        raise OSError(errno.ENOMEM, "Out of memory")

    (tmp_path / "a").write_bytes(b"a")
    monkeypatch.setattr(mmap, "mmap", full)
    with pytest.raises(StorageError) as raised:
        MappedFile(tmp_path / "a")
    assert "memory" in raised.value.fix
    assert raised.value.code == "XD801"


def test_reshaping_a_range_stays_a_range(weight):
    flat = weight.reshape((24,))
    assert isinstance(flat, MappedData)
    assert flat.location == weight.location
    assert weight.reshape((2, 3, 4)) is weight
    with pytest.raises(ValueError, match=r"cannot reshape \(2, 3, 4\) to \(25,\)"):
        weight.reshape((25,))
    moved = MappedData(*weight.location, (1, 6, 4), "<f4").transpose((1, 0, 2))
    assert isinstance(moved, MappedData)  # only an axis of dim 1 moved
    assert moved.shape == (6, 1, 4)


def test_transforms_are_computed_when_needed(weight):
    calls = []

    def double(array):
        calls.append(1)
        return array * 2

    data = weight.transform(double).transpose((2, 0, 1)).cast(np.float64)
    assert (data.shape, data.dtype, data.nbytes, calls) == ((4, 2, 3), np.float64, 192, [])
    expected = (weight.numpy() * 2).transpose(2, 0, 1).astype(np.float64)
    np.testing.assert_array_equal(data.numpy(), expected)
    assert written(data, io.BytesIO()) == b"before" + expected.tobytes() + b"after"
    assert len(calls) == 2
    data.release()
    assert weight.transpose((0, 1, 2)) is weight
    assert weight.cast(np.float32) is weight


def test_a_transform_of_several_joins_them(weight):
    both = Transform([weight, weight], lambda a, b: np.concatenate([a, b]), (4, 3, 4), np.float32)
    assert both.numpy().shape == (4, 3, 4)


def test_a_transform_that_breaks_its_promise_is_noticed(weight):
    with pytest.raises(ValueError, match=r"shape \(24,\) instead of \(5,\)"):
        weight.transform(np.ravel, shape=(5,)).numpy()


def test_arrays_are_held_little_endian():
    data = ArrayData(np.array([1, 2], ">u2"))
    assert written(data, io.BytesIO()) == b"before\x01\x00\x02\x00after"
    assert ArrayData(np.array(5.0)).shape == ()
    fortran = ArrayData(np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)))
    assert written(fortran, io.BytesIO()) == b"before\x00\x01\x02\x03\x04\x05after"
    assert raw_data(b"ab").numpy().tolist() == [97, 98]


def test_elided_data_has_a_size_but_no_values():
    data = Elided((2, 2), np.float32, "abc")
    assert data.nbytes == 16
    with pytest.raises(ModelError, match="sha256 abc"):
        data.numpy()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.transpose((0, 2, 1)).reshape((2, 12)),
        lambda data: data.cast(np.float64).reshape((2, 1, 12)).transpose((0, 2, 1)),
        lambda data: data.transpose((2, 0, 1)),
        lambda data: data.cast(np.float64).reshape((24,)),
    ],
)
def test_rows_are_computed_and_written_in_parts(weight, monkeypatch, change):
    monkeypatch.setattr("xdlc.ir.data.ROWS_CHUNK", 8)
    data = change(weight)
    assert written(data, io.BytesIO()) == b"before" + data.numpy().tobytes() + b"after"
    if data.has_rows:
        np.testing.assert_array_equal(data.rows(1, 2), data.numpy()[1:2])


def test_a_range_is_compared_by_two_at_once(tmp_path):
    class Meanwhile(MappedFile):
        def view(self, offset, nbytes):
            found = super().view(offset, nbytes)
            if offset == 0 and not hasattr(self, "other"):
                self.other = True
                self.check(0)
            return found

    path = tmp_path / "ranges.bin"
    path.write_bytes(b"abcdef")
    source = Meanwhile(path)
    for start in (0, 3):
        source.expect(start, 3, zlib.crc32(b"abc"), str(start))
    source.check(1)
    with pytest.raises(ContainerError):
        source.check(3)
