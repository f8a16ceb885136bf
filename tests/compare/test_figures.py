"""Figures of the difference between two arrays."""

import math

import numpy as np
import pytest

from xdlc.compare.figures import EXACT, Difference

ONES = np.ones(4, np.float32)


def test_equal_values_have_no_difference() -> None:
    difference = Difference()
    difference.add(ONES, ONES)
    figures = difference.figures()
    assert (figures.db, figures.cosine, figures.largest) == (EXACT, 1.0, 0.0)


def test_sums_are_those_of_all_arrays() -> None:
    difference = Difference()
    difference.add(ONES, ONES)
    difference.add(ONES, ONES + np.array([0, 0, 0, 0.5], np.float32))
    figures = difference.figures()
    assert figures.db == pytest.approx(10 * math.log10(8 / 0.25))
    assert figures.largest == 0.5
    assert 0.98 < figures.cosine < 1.0


def test_new_nan_and_infinity_are_counted() -> None:
    difference = Difference()
    reference = np.array([np.nan, np.inf, 1, 2, 3], np.float32)
    difference.add(reference, np.array([np.nan, np.inf, np.nan, -np.inf, 3], np.float32))
    figures = difference.figures()
    assert (figures.nans, figures.infs, figures.db) == (1, 1, -EXACT)


def test_infinities_of_the_reference_alone_do_not_count_when_shared() -> None:
    difference = Difference()
    difference.add(np.array([-np.inf, 1], np.float32), np.array([-np.inf, 1], np.float32))
    assert difference.figures().db == EXACT
