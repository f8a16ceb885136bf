"""Windows over spatial axes."""

from __future__ import annotations

import pytest

from xdlc.converter.functions.sliding import Window
from xdlc.errors import ModelError

HALF = 1 << 39


@pytest.mark.parametrize(("counts_padding", "count"), [(False, 3), (True, 2 * HALF)])
def test_elements_are_counted_without_a_table_of_them(counts_padding, count):
    view = Window((2 * HALF,), (1,), (1,), (HALF,), (HALF,))
    assert view.filled((3,), counts_padding=counts_padding).tolist() == [count] * 4


@pytest.mark.parametrize(("kernel", "stride"), [(2, 0), (0, 1), (-2, 1)])
def test_empty_windows_and_strides_are_refused(kernel, stride):
    with pytest.raises(ModelError):
        Window((kernel,), (stride,), (1,), (0,), (0,)).counts((6,))
