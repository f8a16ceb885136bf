"""What a layer's weights have to fit: least squares over rows of its input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from xdlc.ir.data import Array

Rows: TypeAlias = tuple[Array, Array]
"""Rows of the quantized input [G, P, K], and the results wanted of them [G, P, M]."""

TOGETHER = 1024
"""Rows of one product of matrices."""

DAMPING = 0.05
"""Noise on each input that is reckoned with beside the samples', as a part of the inputs' mean variance."""

SCARCE = 1.0
"""The same for each input a row: with few rows the samples say little of how inputs go together."""

LEAST = 1e-20
"""Least noise, for inputs that never vary."""


@dataclass(slots=True)
class Problem:
    """Sums over rows; per row, and about the means where a bias can take those up.

    Attributes:
        gram: Products of inputs, float32 [G, K, K], damped.
        cross: Products of inputs and wanted results, float32 [G, K, M], damped towards the float weights.
        mean_rows: Mean of each input, [G, K]; zeros without a free bias.
        mean_results: Mean of each wanted result, [G, M]; zeros without a free bias.
    """

    gram: Array
    cross: Array
    mean_rows: Array
    mean_results: Array

    @classmethod
    def of(cls, chunks: Iterable[Rows], matrix: Array, *, centred: bool) -> Problem:
        """Return the problem of some rows.

        Args:
            chunks: Rows and results, at least one.
            matrix: Float weights, [G, K, M], which damping draws towards.
            centred: Whether a bias is free.
        """
        import numpy as np

        groups, depth, width = matrix.shape
        gram, cross = np.zeros((groups, depth, depth), "f4"), np.zeros((groups, depth, width), "f4")
        rows, results = np.zeros((groups, depth)), np.zeros((groups, width))
        origin: tuple[Array, Array] | None = None
        count = 0
        for found, wanted in _joined(chunks):
            if origin is None:
                # Near the means, so that taking them away below costs no digits.
                origin = found.mean(axis=1) * centred, wanted.mean(axis=1) * centred
            found -= origin[0][:, None]
            wanted -= origin[1][:, None]
            turned = found.transpose(0, 2, 1)
            gram += turned @ found
            cross += turned @ wanted
            rows += found.sum(axis=1, dtype=np.float64)
            results += wanted.sum(axis=1, dtype=np.float64)
            count += found.shape[1]
        if origin is None:
            raise ValueError("no rows")
        for total in (gram, cross, rows, results):
            total /= count
        if centred:
            gram -= (rows[:, :, None] * rows[:, None, :]).astype("f4")
            cross -= (rows[:, :, None] * results[:, None, :]).astype("f4")
            rows += origin[0]
            results += origin[1]
        else:
            rows[:], results[:] = 0, 0
        diagonal = np.einsum("gkk->gk", gram)
        # Inputs that are all zero leave any weight: the float one then.
        noise = np.maximum((DAMPING + SCARCE * depth / count) * diagonal.mean(axis=1, keepdims=True), LEAST)
        diagonal += noise
        cross += noise[:, :, None] * matrix
        return cls(gram, cross, rows, results)

    def solution(self) -> Array:
        """Return the real weights that fit best, [G, K, M]."""
        import numpy as np

        return np.linalg.solve(self.gram, self.cross)

    def bias(self, real: Array) -> Array:
        """Return the bias that goes best with weights, [G, M]."""
        return self.mean_results - (self.mean_rows[:, None, :] @ real)[:, 0]


def _joined(chunks: Iterable[Rows]) -> Iterator[Rows]:
    """Give small chunks out together."""
    import numpy as np

    pending: list[Rows] = []
    for chunk in chunks:
        pending.append(chunk)
        if sum(rows.shape[1] for rows, _ in pending) >= TOGETHER:
            yield np.concatenate([r for r, _ in pending], 1), np.concatenate([w for _, w in pending], 1)
            pending.clear()
    if pending:
        yield np.concatenate([r for r, _ in pending], 1), np.concatenate([w for _, w in pending], 1)
