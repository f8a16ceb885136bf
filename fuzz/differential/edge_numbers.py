"""Numbers at the edge of types and of formulas."""

from __future__ import annotations

INTEGERS = (
    0,
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    -1,
    -2,
    -3,
    -7,
    64,
    1 << 20,
    (1 << 31) - 1,
    -(1 << 31),
    (1 << 63) - 1,
    -(1 << 63),
)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.3,
    2.0,
    -2.5,
    1e-3,
    1e-6,
    1e-30,
    1e6,
    -1e6,
    1e30,
    float("inf"),
    float("nan"),
)
