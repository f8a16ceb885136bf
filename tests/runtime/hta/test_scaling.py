"""From accumulators to stored integers: the arithmetic that the module states, on Python's integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdlc.errors import ContainerError
from xdlc.runtime.hta.registry import Step
from xdlc.runtime.hta.scaling import load

SUMS = 1 << 22
numbers = st.integers(-SUMS + 1, SUMS - 1)


def scaled(sums, constants, bits=0, **settings):
    held = {name: np.array([value], dtype) for name, (value, dtype) in constants.items()}
    target = np.zeros((len(sums), 1), settings.pop("dtype", np.uint8))
    step = Step([], [target], held, {"bits": bits, "zero": 0, **settings}, "plan")
    made = load(step, 1, np.array([float(SUMS)]))
    made.write(np.array(sums, made.kind).reshape(-1, 1), target)
    return target.reshape(-1).tolist()


def keep(value, bits):
    """Return a fraction rounded to some significant bits, halves to even."""
    if not value:
        return value
    unit = Fraction(2) ** (abs(value.numerator).bit_length() - abs(value.denominator).bit_length() - bits - 2)
    while abs(value) / unit >= 1 << bits:
        unit *= 2
    return round(value / unit) * unit


def clip(value, low=0, high=255):
    return min(max(value, low), high)


@given(
    total=numbers,
    bias=numbers,
    drop=st.integers(-3, 8),
    rest=st.integers(-500, 500),
    factor=st.integers(1, 1 << 12),
    addend=st.integers(-(1 << 20), 1 << 20),
    shift=st.integers(0, 20),
    zero=st.integers(0, 255),
)
def test_floors(total, bias, drop, rest, factor, addend, shift, zero):
    found = scaled(
        [total],
        {
            "bias": (bias, np.int32),
            "drop": (drop, np.int8),
            "rest": (rest, np.int32),
            "factor": (factor, np.int32),
            "addend": (addend, np.int64),
            "shift": (shift, np.int8),
        },
        zero=zero,
    )
    t = ((total + bias) >> drop if drop >= 0 else (total + bias) << -drop) + rest
    assert found == [clip(((t * factor + addend) >> shift) + zero)]


@given(
    total=numbers,
    bias=numbers,
    factor=st.integers(1 << 23, (1 << 24) - 1),
    shift=st.integers(30, 48),
    below=st.integers(-(1 << 23), 1 << 23),
    bits=st.sampled_from([24, 53]),
    low=st.integers(0, 9),
)
def test_nearest(total, bias, factor, shift, below, bits, low):
    found = scaled(
        [total],
        {
            "bias": (bias, np.int32),
            "factor": (factor, np.int32),
            "shift": (shift, np.int8),
            "factor_below": (below, np.int32),
            "shift_below": (shift, np.int8),
        },
        bits=bits,
        zero=9,
        low=low,
    )
    t = keep(Fraction(total + bias), bits)
    product = keep(t * (below if t < 0 else factor), bits)
    assert found == [clip(round(product / 2**shift) + 9, low)]


@given(total=numbers)
def test_curve(total):
    places, scale = 24, Fraction(1, 40)
    step = Fraction(1, 1 << 19)
    last = round(Fraction(8, 6 * (1 << places)) / scale * 2**48)
    assert last < 1 << 31
    found = scaled(
        [total],
        {"factor": (1 << 30, np.int64), "shift": (30 - places + 19, np.int8)},
        bits=53,
        curve=(places, last, 48),
        zero=20,
    )
    x = total * step
    stored = x * min(max(x + 3, Fraction(0)), Fraction(6)) / 6 / scale
    assert abs(found[0] - clip(stored + 20)) <= Fraction(1, 2) + Fraction(1, 1 << 15)


@pytest.mark.parametrize(
    ("constants", "settings", "problem"),
    [
        ({}, {}, "no constant 'shift'"),
        ({"factor": (1, np.float32)}, {}, "should be int32 or int64"),
        ({}, {"bits": 30}, "keeps 30 bits"),
        ({"shift": (127, np.int8)}, {}, "more than 100 bits"),
        ({"factor": (1 << 50, np.int64)}, {}, "more than 53 bits"),
        ({"bias": (1 << 60, np.int64)}, {}, "more than 53 bits"),
        ({"factor": (1 << 24, np.int32)}, {"bits": 24}, "factors of more than 24 bits"),
        ({"addend": (1, np.int32)}, {"bits": 24}, "an addend where products are rounded"),
        ({}, {"zero": 256}, "'zero'"),
        ({}, {"curve": (30, 1, 1), "bits": 53}, "function of 30 places"),
        ({}, {"curve": (3, 1), "bits": 53}, "list of 3"),
        ({"factor_below": (1, np.int32), "shift_below": (1, np.int8)}, {}, "negative numbers"),
    ],
)
def test_what_does_not_fit_is_refused(constants, settings, problem):
    held = {"factor": (1, np.int32), "shift": (1, np.int8)} | constants
    if problem.startswith("no constant"):
        del held["shift"]
    with pytest.raises(ContainerError, match=problem):
        scaled([0], held, **settings)
