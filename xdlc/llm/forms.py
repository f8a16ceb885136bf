"""Forms of weights and activations of language models."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.errors import UsageError
from xdlc.llm.network import HEAD
from xdlc.options import spell


@dataclass(frozen=True, slots=True)
class Form:
    """How weights and activations are stored.

    Attributes:
        bits: Bits of weights; 16: floats.
        block: Input channels that share a scale; 0: all of an output channel.
        is_fixed: Whether activations are fixed point of 16 bits instead of float16, with calibrated ranges.
    """

    bits: int
    block: int = 0
    is_fixed: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Options of the quantizer, for fixed-point activations."""
        blocks = {"weights_block_size": self.block, "use_lpbq": True} if self.block else {}
        return {"weights_bitwidth": self.bits, **blocks}

    def bits_of(self, names: Sequence[str], stated: Mapping[str, int]) -> dict[str, int]:
        """Return other bits of weights than the form's, by the names of linear maps.

        Args:
            names: Names of all of them.
            stated: Bits by names, in which ``*`` matches any characters.

        Raises:
            UsageError: If no linear map has a name, or the form has floats.
        """
        if stated and self.bits == 16:
            raise UsageError(
                "float weights have no other bit widths",
                where=spell("weights_bitwidth_of"),
                fix=f"use {spell('weights', 'w4b32')}, w4 or w8",
            )
        bits = {HEAD: max(self.bits, HEAD_BITS)}
        for pattern, number in stated.items():
            matching = fnmatch.filter(names, pattern)
            if not matching:
                raise UsageError(
                    f"the network has no linear layer {pattern!r}",
                    where=spell("weights_bitwidth_of"),
                    fix=f"use names like {few([*names[:2], *names[-1:]])}",
                )
            bits |= dict.fromkeys(matching, number)
        return {name: number for name, number in bits.items() if number != self.bits}

    def nbytes(self, shape: Sequence[int], *, is_table: bool = False) -> int:
        """Return the bytes of a parameter, with the scales of its blocks.

        Parameters that are calibrated count with 8 bits at least, for their floats are in memory.
        """
        elements = math.prod(shape)
        if is_table:
            return elements * (2 if self.is_fixed or self.bits == 16 else 1)
        if len(shape) < 2 or self.bits == 16:
            return 2 * elements
        bits = max(self.bits, 8) if self.is_fixed else self.bits
        return elements * bits // 8 + (2 * elements // self.block if self.block else 0)


FORMS: Mapping[str, Form] = {
    "fp16": Form(16),
    "w4b32": Form(4, 32),
    "w8": Form(8, is_fixed=True),
    "w4": Form(4, 32, is_fixed=True),
}
"""Forms by the words of ``--weights``."""
HEAD_BITS = 8
"""Least bits of the weights that logits are computed with: fewer cost the most there."""


def few(names: Sequence[str]) -> str:
    """Return some of several names, as text."""
    return ", ".join(map(repr, names[:3])) + (" and others" if len(names) > 3 else "")
