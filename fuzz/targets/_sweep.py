"""Random nodes of importers, with attributes out of the words of their code."""

from __future__ import annotations

import ast
import inspect
import random
import re
import sys
from functools import cache
from typing import Any

import numpy as np

from fuzz.mutate.values import INTEGERS
from xdlc.converter.operators.registry import Handlers

SHAPES = ((), (1,), (4,), (2, 3), (1, 4, 3), (1, 4, 4, 2), (1, 4, 4, 4), (1, 2, 2, 2, 2))
TYPES = (*["float32"] * 6, "int32", "int64", "bool", "int8", "uint8", "float64")


@cache
def words(module: str) -> tuple[str, ...]:
    """Return the words among the texts in the code of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    found = {text for text in texts if isinstance(text, str) and re.fullmatch(r"\w{1,40}", text)}
    return (*sorted(found), "axis")


def drawn(rng: random.Random, handlers: Handlers, *more: str) -> tuple[str, dict[str, Any]]:
    """Return a node type with a handler, and attributes with ``more`` words."""
    domain, type = rng.choice(sorted(each for each in handlers.all() if not each[0]))
    known = (*words(inspect.unwrap(handlers.all()[domain, type].function).__module__), *more)
    return type, {rng.choice(known): value(rng, known) for _ in range(rng.choice((0, 1, 2, 4, 6)))}


def value(rng: random.Random, texts: tuple[str, ...], *, single: bool = False) -> Any:
    """Return an attribute's value: small, at a limit, a word, or a list of these."""
    if not single and rng.random() < 0.35:
        first = value(rng, texts, single=True)
        many = [first if rng.random() < 0.8 else value(rng, texts, single=True) for _ in range(4)]
        return many[: rng.choice((0, 1, 2, 2, 3, 4, 4))]
    limit = max(-(1 << 63), min(rng.choice(INTEGERS), (1 << 63) - 1))
    small = rng.choice((0, 1, 1, 2, 2, 3, -1))
    return rng.choice((small, small, small, rng.choice((0.0, 0.5, 1e-5)), True, rng.choice(texts), limit))


def array(rng: random.Random, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return small numbers."""
    numbers = np.random.default_rng(rng.randrange(100)).integers(0, rng.choice((2, 4)), shape)
    return np.asarray(numbers - (rng.random() < 0.1)).astype(dtype)
