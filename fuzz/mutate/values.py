"""Numbers and texts that break readers."""

from __future__ import annotations

import random

BIG = (1 << 63) - 1
INTEGERS = (*range(-2, 9), *(1 << bits for bits in (4, 5, 6, 10, 16, 20, 24, 28, 31, 32, 40, 53, 62)))
INTEGERS += (
    15,
    63,
    100,
    127,
    255,
    1000,
    (1 << 31) - 1,
    -(1 << 31),
    (1 << 32) - 1,
    BIG,
    -BIG - 1,
    2 * BIG + 1,
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 3e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", " ", "a", "\0", "a\0b", "\n", "\r", "\x1b[31m", "<b>&amp;", "../../x", "/proc/nowhere/x", "n" * 5000,
    "\u202e", "\ud800", "\u2028", "名", "%s%n", "{0}", "{x.__class__}", "'\"`", "a/b", ".", "..", "NaN", "-1",
    "1e999", "0x10", "x" * 300, "--", "=", ",", ":=", ":0", "^x", "__proto__", "9" * 40, "true", "{}",
)  # fmt: skip


def integer(rng: random.Random, bits: int = 64, near: int | None = None, *, signed: bool = False) -> int:
    """Return an integer of some bits that is at a limit, or near another one."""
    value: int = rng.choice(INTEGERS)
    if near is not None and rng.random() < 0.4:
        value = rng.choice((near + 1, near - 1, near * 2, near // 2, -near))
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value
