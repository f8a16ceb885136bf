"""Helpers that tell shapes."""

from __future__ import annotations

import pytest

from tests.udo.plugin.plugins import spec
from xdlc.errors import UsageError
from xdlc.ir.dtype import INT32
from xdlc.udo.plugin import axis_of, broadcast, reduced, same_as, with_shape


def test_same_as():
    assert same_as(spec(2, None)) == spec(2, None)
    assert same_as(spec(2), "int32").dtype is INT32
    with pytest.raises(UsageError, match="there is no data type 'int33'"):
        same_as(spec(2), "int33")
    with pytest.raises(UsageError, match="omitted"):
        same_as(None)


def test_with_shape():
    assert with_shape(spec(2), (3, None)) == spec(3, None)


def test_broadcast():
    assert broadcast(spec(2, 1, 4), spec(3, 1), spec()).shape == (2, 3, 4)
    assert broadcast(spec(None), spec(1)).shape == (None,)
    assert broadcast(spec(None), spec(5)).shape == (5,)
    with pytest.raises(UsageError, match=r"shapes \[2\] and \[3\] cannot be broadcast"):
        broadcast(spec(2), spec(3))


@pytest.mark.parametrize(
    ("axes", "keep", "shape"),
    [
        ([-1], False, (2, 3)),
        ([0, -1], True, (1, 3, 1)),
        (None, False, ()),
        (None, True, (1, 1, 1)),
        ([], False, (2, 3, 4)),
    ],
)
def test_reduced(axes, keep, shape):
    assert reduced(spec(2, 3, 4), axes, keep=keep).shape == shape


def test_a_negative_axis_counts_from_the_end_of_the_sources_shape():
    assert axis_of(-1, 2) == 1  # whatever a device pads the two axes to
    for axis in (-3, 2):
        with pytest.raises(UsageError, match=rf"axis {axis} is not within -2..1 of 2 axes"):
            axis_of(axis, 2)
