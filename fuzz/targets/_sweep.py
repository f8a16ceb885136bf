"""Vocabulary of handlers: the words that a module's code has, as names and values of attributes."""

from __future__ import annotations

import ast
import inspect
import random
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fuzz.mutate.values import INTEGERS

SHAPES = ((), (1,), (4,), (2, 3), (1, 4, 3), (1, 4, 4, 2), (1, 4, 4, 4), (1, 2, 2, 2, 2))
TYPES = (*["float32"] * 6, "int32", "int64", "bool", "int8", "uint8", "float64")


@cache
def words(module: str) -> tuple[str, ...]:
    """Return the words among the texts in the code of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    found = {text for text in texts if isinstance(text, str) and re.fullmatch(r"\w{1,40}", text)}
    return tuple(sorted(found)) or ("axis",)


def words_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the words of the module that has a handler."""
    return words(inspect.unwrap(function).__module__)


def value(rng: random.Random, known: tuple[str, ...], depth: int = 0) -> Any:
    """Return a value of an attribute: small or at a limit, or a word of the module, or a list of these."""
    kind = rng.randrange(12 if depth < 2 else 8)
    if kind < 4:
        return rng.choice((0, 1, 1, 2, 2, 3, -1))
    if kind == 4:
        return rng.choice((0.0, 0.5, 1.0, 1e-5, -1.0))
    if kind == 5:
        return rng.random() < 0.5
    if kind == 6:
        return rng.choice(known)
    if kind == 7:
        return max(-(1 << 63), min(rng.choice(INTEGERS), (1 << 63) - 1))
    first = value(rng, known, 2)
    return [
        first if rng.random() < 0.8 else value(rng, known, 2)
        for _ in range(rng.choice((0, 1, 2, 2, 3, 4, 4)))
    ]


def array(rng: random.Random, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return small numbers."""
    numbers = np.random.default_rng(rng.randrange(100)).integers(0, rng.choice((2, 4)), shape)
    return np.asarray(numbers - (rng.random() < 0.1)).astype(dtype)
