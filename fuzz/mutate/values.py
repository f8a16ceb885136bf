"""Numbers and texts that break readers."""

from __future__ import annotations

import random

BIG = (1 << 63) - 1
INTEGERS = (
    *range(-2, 9), 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 1000, 4096, 32767, 65535, 65536,
    1 << 20, 1 << 24, 1 << 28, (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 53,
    1 << 62, BIG, -BIG - 1, (1 << 64) - 1,
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 3e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", " ", "a", "\0", "a\0b", "\n", "\r", "\x1b[31m", "<b>&amp;", "../../x", "/proc/nowhere/x", "n" * 5000,
    "\u202e", "\ud800", "\u2028", "名", "%s%n", "{0}", "{x.__class__}", "'\"`", "${HOME}", "a/b", ".", "..",
    "NaN", "-1", "1e999", "0x10", "x" * 300, "\\u0000", ";id", "--", "=", ",", ":=", ":0", "^x", "__proto__",
    "9" * 40, "[" * 50, "None", "true", "[]", "{}",
)  # fmt: skip


def integer(rng: random.Random, bits: int = 64, near: int | None = None, *, signed: bool = False) -> int:
    """Return an integer of some bits that is at a limit, or near another one."""
    value: int = rng.choice(INTEGERS)
    if near is not None and rng.random() < 0.4:
        value = rng.choice((near + 1, near - 1, near * 2, near // 2, -near))
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def junk(rng: random.Random, depth: int = 0) -> object:
    """Return a value of JSON of any type."""
    kind = rng.randrange(9)
    if kind < 2:
        return rng.choice((*INTEGERS, 10**400))
    if kind == 2:
        return rng.choice(FLOATS)
    if kind < 5:
        return rng.choice(TEXTS)
    if kind == 5 or depth > 2:
        return rng.choice((None, True, False, [], {}))
    if kind < 8:
        return [junk(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 5)))]
    return {rng.choice(TEXTS): junk(rng, depth + 1) for _ in range(rng.choice((0, 1, 2)))}
