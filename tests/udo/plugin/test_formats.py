"""Packings hold every element at the format's place, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdlc.errors import UsageError
from xdlc.udo import Plugin
from xdlc.udo.plugin.collection import plugin_op
from xdlc.udo.plugin.formats import FORMATS, find_format

EXTENT = st.integers(1, 5)
CHANNELS = st.integers(1, 40)
DTYPES = st.sampled_from(["float32", "float16", "int8", "uint8", "int32"])


def filled(shape, dtype):
    return (np.arange(1, np.prod(shape) + 1) % 100 + 1).reshape(shape).astype(dtype)


@settings(max_examples=60, deadline=None)
@given(st.tuples(CHANNELS, CHANNELS, EXTENT, EXTENT), DTYPES, st.sampled_from(sorted(FORMATS)))
def test_unpack_gives_back_what_was_packed(shape, dtype, name):
    form, array = find_format(name), filled(shape, dtype)
    packed = form.pack(array)
    assert packed.shape == form.packed_shape(shape, array.dtype.itemsize)
    assert packed.dtype == array.dtype
    assert packed.flags.c_contiguous
    np.testing.assert_array_equal(form.unpack(packed, shape), array)
    assert np.count_nonzero(packed) == array.size  # all else is padding, and zero


@settings(max_examples=60, deadline=None)
@given(st.tuples(EXTENT, CHANNELS, EXTENT, EXTENT), DTYPES, st.data())
def test_nc1hwc0_puts_channels_of_a_block_beside_each_other(shape, dtype, data):
    array = filled(shape, dtype)
    block = 32 if array.dtype.itemsize == 1 else 16
    packed = find_format("NC1HWC0").pack(array)
    assert packed.shape == (shape[0], -(-shape[1] // block), shape[2], shape[3], block)
    n, c, h, w = (data.draw(st.integers(0, dim - 1)) for dim in shape)
    assert packed[n, c // block, h, w, c % block] == array[n, c, h, w]


@settings(max_examples=60, deadline=None)
@given(st.tuples(CHANNELS, CHANNELS, EXTENT, EXTENT), DTYPES, st.data())
def test_fractal_z_puts_weights_into_squares(shape, dtype, data):
    array = filled(shape, dtype)
    block = 32 if array.dtype.itemsize == 1 else 16
    packed = find_format("FRACTAL_Z").pack(array)
    c1 = -(-shape[1] // block)
    assert packed.shape == (c1 * shape[2] * shape[3], -(-shape[0] // 16), 16, block)
    n, c, h, w = (data.draw(st.integers(0, dim - 1)) for dim in shape)
    row = (c // block * shape[2] + h) * shape[3] + w
    assert packed[row, n // 16, n % 16, c % block] == array[n, c, h, w]


def test_formats_of_a_quantizers_constants_are_not_used():
    class Fast(Plugin):
        op_type, package, formats = "Conv", "Fast", (["NC1HWC0"], ["NC1HWC0"])
        weight_formats = [f"DOMI_TENSOR_{name}" for name in ("FRACTAL_Z", *["NC1HWC0"] * 7)]

    notices: list[str] = []
    op = plugin_op(Fast, notices.append)
    formats = op.hooks.declaration.input_formats
    assert [each.name for each in formats] == ["NC1HWC0", "FRACTAL_Z", "NC1HWC0"]
    assert [("last 6 of 8" in text) for text in notices] == [True]
    Fast.weight_formats = Fast.weight_formats[:-1]
    with pytest.raises(UsageError):
        plugin_op(Fast)


@pytest.mark.parametrize("name", ["NC1HWC0", "FRACTAL_Z"])
def test_a_matrix_counts_as_n_and_c(name):
    array = filled((17, 33), "float32")
    form = find_format(name)
    np.testing.assert_array_equal(form.pack(array), form.pack(array.reshape(17, 33, 1, 1)))
    np.testing.assert_array_equal(form.unpack(form.pack(array), (17, 33)), array)


def test_a_bias_counts_as_channels():
    array = filled((19,), "float32")
    packed = find_format("NC1HWC0").pack(array)
    assert packed.shape == (1, 2, 1, 1, 16)
    np.testing.assert_array_equal(packed.reshape(-1)[:19], array)
    np.testing.assert_array_equal(find_format("NC1HWC0").unpack(packed, (19,)), array)


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "problem"),
    [
        ("NC1HWC0", (2, 3, 4), "float32", "1, 2 or 4 axes, not 3"),
        ("NC1HWC0", (), "float32", "1, 2 or 4 axes, not 0"),
        ("FRACTAL_Z", (5,), "float32", "2 or 4 axes, not 1"),
        ("FRACTAL_Z", (1, 2, 3, 4, 5), "float32", "not 5"),
        ("NC1HWC0", (1, 2, 3, 4), "float64", "elements of 8 bytes"),
        ("FRACTAL_Z", (1, 2, 3, 4), "int64", "elements of 8 bytes"),
    ],
)
def test_what_has_no_form_is_refused(name, shape, dtype, problem):
    with pytest.raises(UsageError, match=problem):
        find_format(name).pack(np.ones(shape, dtype))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_unpack_refuses_an_array_of_another_shape(name):
    form = find_format(name)
    packed = form.pack(filled((3, 5, 2, 2), "float32"))
    with pytest.raises(UsageError, match="in format"):
        form.unpack(packed, (3, 40, 2, 2))


def test_an_unknown_format_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="no format 'NC1HWC'") as caught:
        find_format("NC1HWC")
    assert "NC1HWC0" in caught.value.fix
