"""Statistics of static data."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from xdlc.errors import ContainerError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Encoding,
    Role,
    ScaleOffset,
    Tensor,
    TensorData,
    static,
)
from xdlc.ir import dtype as dt
from xdlc.ir.data import ArrayData, packed
from xdlc.view import statistics
from xdlc.view.statistics import data_statistics, static_statistics


def measured(tensor: Tensor) -> dict[str, Any]:
    record = static_statistics(tensor)
    assert record is not None
    return record


def test_figures_of_floats() -> None:
    record = measured(static("w", np.float32([[-1, 0, 0, 1], [2, 3, 4, 7]])))
    assert (record["low"], record["high"], record["mean"], record["n"]) == (-1, 7, 2, 8)
    assert record["std"] == pytest.approx(np.std([-1, 0, 0, 1, 2, 3, 4, 7]), rel=1e-4)
    assert record["zeros"] == 0.25
    low, width, counts = record["bars"]
    assert (low, width, len(counts), sum(counts)) == (-1, pytest.approx(8 / 48, rel=1e-4), 48, 8)
    assert (counts[0], counts[-1]) == (1, 1)
    assert "note" not in record


@pytest.mark.parametrize(
    ("encoding", "real"),
    [
        (ScaleOffset(0.5, -2), [[-1, -0.5], [0, 0.5]]),
        (AxisScaleOffset(1, (1.0, 10.0), (0, -1)), [[0, 0], [2, 20]]),
        (BlockScaleOffset((1, 2), (1.0, 100.0)), [[0, 1], [200, 300]]),
    ],
)
def test_values_are_real(encoding: Encoding, real: list[list[float]]) -> None:
    record = measured(static("w", np.uint8([[0, 1], [2, 3]]), dt.UFIXED8, encoding))
    assert (record["low"], record["high"]) == (np.min(real), np.max(real))
    assert record["mean"] == np.mean(real)


def test_large_tensors_are_sampled_with_their_encodings(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(-8, 8, (64, 32)).astype(np.int8)
    scales = tuple(np.linspace(0.1, 0.2, 32).tolist())
    blocks = np.random.default_rng(1).random(64 * 4).tolist()
    expansion = BlockwiseExpansion(1, scales, (0,) * 32, 4, 4, tuple([3, 5, 7, 9] * 32))
    encodings: list[Encoding] = [
        ScaleOffset(0.1, 0),
        AxisScaleOffset(1, scales),
        AxisScaleOffset(0, tuple(np.linspace(0.1, 0.2, 64).tolist())),
        BlockScaleOffset((1, 8), blocks),
        expansion,
    ]
    for encoding in encodings:
        tensor = static("w", values, dt.SFIXED8, encoding)
        whole = measured(tensor)
        with monkeypatch.context() as patch:
            patch.setattr(statistics, "MOST", 1024)
            patch.setattr(statistics, "RUN", 16)
            patch.setattr(statistics, "RUNS", 128)  # together all values
            record = measured(tensor)
        assert record.pop("note", None) is None or record["n"] == 2048
        assert record == {**whole, "mean": record["mean"], "std": record["std"]}
        assert record["mean"] == pytest.approx(whole["mean"], rel=1e-3, abs=1e-6)


def test_a_sample_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST", 1 << 21)
    record = measured(static("w", np.ones((3, 1 << 20), np.int8)))
    assert record["n"] == 3 << 20
    assert "1,048,576" in record["note"]


def test_four_bits() -> None:
    data = packed(ArrayData(np.int8([[-8, 7, 1]])))
    tensor = Tensor("w", (1, 3), dt.BY_NAME["sfixed4"], ScaleOffset(2.0, 0), data, Role.STATIC)
    record = measured(tensor)
    assert (record["low"], record["high"], record["n"]) == (-16, 14, 3)


def test_values_that_are_not_finite_are_counted_apart() -> None:
    record = measured(static("w", np.float32([1, np.nan, np.inf, 3])))
    assert (record["low"], record["high"], record["mean"]) == (1, 3, 2)
    assert "2 values are NaN" in record["note"]
    nothing = measured(static("w", np.float32([np.nan])))
    assert (nothing["low"], nothing["bars"]) == (None, [0, 0, []])


def test_numbers_at_the_ends_of_their_types() -> None:
    for array in (np.float64([-1e308, 1e308]), np.int64([-(2**63), 2**63 - 1]), np.float32([3e38, -3e38])):
        record = measured(static("w", array))
        assert sum(record["bars"][2]) == 2


def test_tensors_without_numbers_have_none() -> None:
    assert static_statistics(static("w", np.zeros((0, 3), np.float32))) is None
    assert static_statistics(Tensor("x", (2,), dt.FLOAT32)) is None
    assert data_statistics(ArrayData(np.array(["a"]))) is None


def test_damage_is_a_note() -> None:
    class Damaged(TensorData):
        shape, dtype = (4,), np.dtype(np.float32)

        def numpy(self) -> Any:
            raise ContainerError("the CRC-32 differs")

    tensor = Tensor("w", (4,), dt.FLOAT32, None, Damaged(), Role.STATIC)
    assert "CRC-32" in measured(tensor)["note"]
    mismatch = static("w", np.uint8([1, 2]), dt.UFIXED8, AxisScaleOffset(0, (1.0, 1.0, 1.0)))
    assert measured(mismatch)["low"] is None


def test_without_numpy_there_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = static("w", np.float32([1, 2]))
    monkeypatch.setitem(sys.modules, "numpy", None)
    record = measured(tensor)
    assert (record["low"], record["n"]) == (None, 2)
    assert "numpy" in record["note"]


def test_data_is_released() -> None:
    released = []

    class Held(ArrayData):
        def release(self) -> None:
            released.append(self)

    data = Held(np.float32([1, 2, 3, 4, 5]))
    measured(Tensor("w", (5,), dt.FLOAT32, None, data, Role.STATIC))
    assert released == [data]
