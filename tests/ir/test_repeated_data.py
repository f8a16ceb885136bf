"""Data that repeat others equal an array of them, in little memory."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

from xdlc import ir
from xdlc.ir import derived_data

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
