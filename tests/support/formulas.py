"""Formulas of networks in numpy."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def normalized(x: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    """Return values of mean 0 and variance 1 over some axes."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)
