"""Shared memory."""

from __future__ import annotations

import gc
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from xdlc.errors import StorageError
from xdlc.runtime.udo.memory import ALIGNMENT, Memory, layout


def test_buffers_are_aligned_and_apart() -> None:
    places, size = layout([1, 0, 100, 64])
    assert all(place % ALIGNMENT == 0 for place in places)
    ends = [place + length for place, length in zip(places, [1, 0, 100, 64], strict=True)]
    assert all(later >= end for end, later in zip(ends, places[1:], strict=False))
    assert size >= ends[-1]


def test_the_other_side_sees_it_and_cannot_write_inputs() -> None:
    memory = Memory(100)
    memory.array(8, (2,), np.float32)[:] = [1, 2]
    other = Memory(100, os.dup(memory.file), writable=False)
    seen = other.array(8, (2,), np.float32)
    assert seen.tolist() == [1, 2]
    assert not seen.flags.writeable
    assert other.address % mmap.PAGESIZE == 0


def test_what_is_mapped_keeps_no_file_and_goes_with_the_last_that_refers_to_it() -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count("xdlc-udo")

    gc.collect()
    maps_before, files = maps(), len(os.listdir("/proc/self/fd"))
    memory = Memory(100)
    memory.close()
    array = memory.array(8, (2,), np.float32)
    array[:] = 3
    del memory
    assert len(os.listdir("/proc/self/fd")) == files
    assert array.tolist() == [3, 3]
    assert maps() == maps_before + 1
    del array
    assert maps() == maps_before


def test_its_size_cannot_be_changed() -> None:
    memory = Memory(5000)
    for size in (10, 10000):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.file, size)


def test_what_is_too_large_or_too_small_is_refused() -> None:
    with pytest.raises(StorageError, match="bytes of shared memory, but this machine has"):
        Memory(1 << 60)
    memory = Memory(10)
    with pytest.raises(StorageError, match="shared memory has 10 bytes instead of 20"):
        Memory(20, os.dup(memory.file))


def test_no_elements() -> None:
    assert Memory(0).array(0, (0, 3), np.float32).shape == (0, 3)


def test_without_nameless_memory_a_nameless_file_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    memory = Memory(5000)
    other = Memory(5000, os.dup(memory.file), writable=False)
    memory.array(4000, (3,), np.int32)[:] = [1, 2, 3]
    assert other.array(4000, (3,), np.int32).tolist() == [1, 2, 3]
