"""Rotary position embeddings of decoders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCALINGS: Mapping[str, Sequence[str]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor", "original_max_position_embeddings", "attention_factor"),
}
"""Scalings of rotary positions, with their parameters."""
BY_PAIR = ("short_factor", "long_factor")
"""Parameters with a number for each pair of rotated elements."""
MOST_MAGNITUDE = 4.0
"""Largest ``attention_factor``."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embeddings.

    Attributes:
        theta: Base of the frequencies.
        dim: Elements of a head that are rotated.
        scaling: Type of the scaling: ``default``, ``linear``, ``llama3`` or ``longrope``.
        facts: The parameters of the scaling, by the keys of the config.
    """

    theta: float
    dim: int
    scaling: str = "default"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def frequencies(self, context: int) -> list[float]:
        """Return the angle of each pair of elements at position 1, in radians.

        The formulas of scalings are those of transformers' modeling_rope_utils.

        Args:
            context: Most tokens; ``longrope`` has other factors beyond the trained length.
        """
        plain = [float(self.theta ** (-2 * index / self.dim)) for index in range(self.dim // 2)]
        if self.scaling == "linear":
            return [frequency / self.facts["factor"] for frequency in plain]
        if self.scaling == "llama3":
            return [self._llama3(frequency) for frequency in plain]
        if self.scaling == "longrope":
            is_long = context > self.facts["original_max_position_embeddings"]
            factors = self.facts["long_factor" if is_long else "short_factor"]
            return [frequency / factor for frequency, factor in zip(plain, factors, strict=True)]
        return plain

    def _llama3(self, frequency: float) -> float:
        factor, trained = float(self.facts["factor"]), self.facts["original_max_position_embeddings"]
        low, high = float(self.facts["low_freq_factor"]), float(self.facts["high_freq_factor"])
        turns = float(trained * frequency / (2 * math.pi))
        if turns < low:
            return frequency / factor
        if turns > high:
            return frequency
        share: float = (turns - low) / (high - low)
        return (1 - share) * frequency / factor + share * frequency

    @property
    def magnitude(self) -> float:
        """Factor of cosines and sines."""
        return float(self.facts["attention_factor"]) if self.scaling == "longrope" else 1.0
