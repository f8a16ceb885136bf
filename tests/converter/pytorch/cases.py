"""Rows of tables of operators, and arrays for them."""

from __future__ import annotations

import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.pytorch.programs import results

INF, NAN = math.inf, math.nan


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def i64(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def flags(text: str) -> np.ndarray:
    return np.array([letter == "1" for letter in text])


def rows(*tables: list[Any]) -> Any:
    """Parametrize a test over rows: operator, arguments, named ones, results."""
    return pytest.mark.parametrize("case", [*chain.from_iterable(tables)], ids=lambda case: case[0])


def check(folder: Path, case: Any, rtol: float = 1e-5, atol: float = 0.0) -> list[np.ndarray]:
    """Compare type, shape and elements of each result of a row; return the results."""
    target, arguments, *named, expected = case
    several = isinstance(expected, list)
    arrays = [np.asarray(each) for each in (expected if several else [expected])]
    arrays = [each.astype(np.float32) if each.dtype == np.float64 else each for each in arrays]
    computed = results(folder, target, *arguments, like=arrays, **(named[0] if named else {}))
    for one, other in zip(computed, arrays, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
    return list(computed)
