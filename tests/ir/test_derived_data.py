"""Static reals that remember the integers they are stored as."""

import io
import pickle

import numpy as np
import pytest

from xdlc import ir
from xdlc.errors import ModelError
from xdlc.ir import ArrayData, AxisScaleOffset, BlockScaleOffset, Dequantized, ScaleOffset, derived_data
from xdlc.ir.dtype import SFIXED8
from xdlc.ir.quantization import to_float

STORED = np.arange(-12, 12, dtype=np.int8).reshape(2, 3, 4)
STEPS = (0.5, 0.25, 2.0)


def per_axis():
    return Dequantized(ArrayData(STORED), SFIXED8, AxisScaleOffset(1, STEPS, (1, 2, 3)))


def in_blocks():
    steps = tuple(np.linspace(0.5, 3, 12).tolist())
    return Dequantized(ArrayData(STORED), SFIXED8, BlockScaleOffset((1, 1, 2), steps, tuple(range(12))))


def test_reals():
    found = Dequantized(ArrayData(STORED), SFIXED8, ScaleOffset(0.5, -3)).numpy()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (STORED - 3.0) * 0.5)


@pytest.mark.parametrize(("block", "count"), [((1, 3), 4), ((1, 2), 3), ((2,), 4)])
def test_blocks_that_do_not_fit_are_an_error_with_a_place(block, count):
    with pytest.raises(ModelError) as caught:
        to_float(np.zeros((2, 4), np.int8), BlockScaleOffset(block, (0.5,) * count), where="tensor 'w'")
    assert caught.value.where == "tensor 'w'"


def test_scales_along_an_axis():
    wanted = (STORED + np.reshape([1.0, 2, 3], (1, 3, 1))) * np.reshape(STEPS, (1, 3, 1))
    np.testing.assert_array_equal(per_axis().numpy(), wanted)


def test_blocks():
    steps = np.linspace(0.5, 3, 12).astype(np.float32).reshape(2, 3, 2).repeat(2, axis=2)
    offsets = np.arange(12).reshape(2, 3, 2).repeat(2, axis=2)
    np.testing.assert_array_equal(in_blocks().numpy(), (STORED + offsets).astype(np.float32) * steps)


@pytest.mark.parametrize("make", [per_axis, in_blocks])
@pytest.mark.parametrize("perm", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_transposed_data_stay_stored(make, perm):
    moved = make().transpose(perm)
    assert isinstance(moved, Dequantized)
    np.testing.assert_array_equal(moved.numpy(), make().numpy().transpose(perm))


@pytest.mark.parametrize(("shape", "stays"), [((2, 3, 2, 2), True), ((1, 2, 3, 4), True), ((6, 4), False)])
def test_reshaped_data_stay_stored_where_the_axis_does(shape, stays):
    moved = per_axis().reshape(shape)
    assert isinstance(moved, Dequantized) == stays
    np.testing.assert_array_equal(moved.numpy(), per_axis().numpy().reshape(shape))


def test_other_changes_leave_plain_reals():
    assert not isinstance(per_axis().transform(np.negative), Dequantized)
    assert not isinstance(in_blocks().reshape((24,)), Dequantized)


def test_blocks_that_do_not_fit_are_refused():
    data = Dequantized(ArrayData(STORED), SFIXED8, BlockScaleOffset((1, 1, 3), (1.0,) * 8))
    with pytest.raises(ValueError, match="do not divide"):
        data.numpy()


@pytest.mark.parametrize(
    "encoding",
    [
        ScaleOffset(0.5, -3),
        AxisScaleOffset(0, (0.5, 2.0), (1, 2)),
        AxisScaleOffset(1, STEPS, (1, 2, 3)),
        BlockScaleOffset((1, 1, 2), tuple(range(1, 13)), tuple(range(12))),
        BlockScaleOffset((2, 3, 1), tuple(range(1, 5))),
    ],
)
def test_rows(encoding: object) -> None:
    data = Dequantized(ArrayData(STORED), SFIXED8, encoding)
    assert data.has_rows
    for start, stop in ((0, 1), (1, 2), (0, 2)):
        np.testing.assert_array_equal(data.rows(start, stop), data.numpy()[start:stop])


def test_large_data_are_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = np.arange(-60, 60, dtype=np.int8).reshape(12, 10)
    encoding = BlockScaleOffset((3, 5), tuple(range(1, 9)), tuple(range(8)))
    data = Dequantized(ArrayData(stored), SFIXED8, encoding)
    whole = data.numpy()
    monkeypatch.setattr("xdlc.ir.derived_data.ROWS_CHUNK", 100)
    np.testing.assert_array_equal(data.numpy(), whole)
    assert whole[3, 5] == (stored[3, 5] + 3) * 4


BASES = [((), ()), ((1,), (7,)), ((1, 1), (3, 0)), ((2, 3), (2, 2)), ((1, 3, 2), (1, 1, 4)), ((2, 1), (1, 5))]


@pytest.mark.parametrize("chunk", [1, 16, 1 << 20])
@pytest.mark.parametrize(("shape", "multiples"), BASES)
def test_elements(monkeypatch, shape, multiples, chunk):
    for module in (ir.data, derived_data):
        monkeypatch.setattr(module, "ROWS_CHUNK", chunk)
    base = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    data, expected = ir.Repeated(ir.ArrayData(base), multiples), np.tile(base, multiples)
    forms = [(data, expected), (data.transpose(range(len(shape))[::-1]), expected.T)]
    column = data.reshape((expected.size, 1))
    forms += [
        (column, expected.reshape(-1, 1)),
        (column.reshape((1, expected.size)), expected.reshape(1, -1)),
    ]
    forms += [(data.cast(int), expected.astype(int))]
    for made, array in [*forms, (pickle.loads(pickle.dumps(data)), expected)]:
        assert made.shape == array.shape
        np.testing.assert_array_equal(made.numpy(), array)
        file = io.BytesIO()
        made.write_to(file)
        assert file.getvalue() == array.tobytes()


def test_fill_stays_one_element():
    data = ir.fill(ir.ArrayData(np.float32(3)), (1 << 20, 1 << 10)).reshape((1 << 10, 1 << 20))
    assert data.transpose((1, 0)).cast(np.int8).numpy().strides == (0, 0)
    with pytest.raises(ValueError, match="cannot reshape"):
        data.reshape((5,))
