"""Evaluation of decoders on a text: perplexity, equality of likeliest tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from xdlc.errors import UsageError
from xdlc.llm.generation import Runner
from xdlc.options import Step


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Figures of a decoder on a text.

    Attributes:
        losses: Negative logarithms of the probabilities of tokens, by window of the text.
        likeliest: The likeliest token at each place.
    """

    losses: tuple[tuple[float, ...], ...]
    likeliest: tuple[int, ...]

    @property
    def loss(self) -> float:
        """Mean negative logarithm of the probability of a token."""
        return math.fsum(chain(*self.losses)) / len(self.likeliest)

    @property
    def perplexity(self) -> float:
        """Perplexity of the whole text."""
        return _exp(self.loss)

    @property
    def perplexities(self) -> tuple[float, ...]:
        """Perplexity of each window."""
        return tuple(_exp(math.fsum(losses) / len(losses)) for losses in self.losses)

    def ratio(self, reference: Evaluation) -> float:
        """Return the perplexity by that of another decoder."""
        return _exp(self.loss - reference.loss)

    def equality(self, reference: Evaluation) -> float:
        """Return the share of places where both have the same likeliest token."""
        pairs = list(zip(self.likeliest, reference.likeliest, strict=True))
        return sum(own == expected for own, expected in pairs) / len(pairs)


def _exp(loss: float) -> float:
    """Return e to a power, which is infinite where no float is as large."""
    return math.inf if loss > 709 else math.exp(loss)


def evaluate(
    runner: Runner,
    tokens: Sequence[int],
    *,
    window: int | None = None,
    bos: int | None = None,
    step: Step = lambda title, done, total: None,
) -> Evaluation:
    """Return figures of a decoder on a text, whose windows have no past.

    Args:
        runner: The decoder.
        window: Tokens of a window; default: the context.
        bos: Token that is put in front of each window.
        step: Called with a title, tokens that are done, and all tokens.

    Raises:
        UsageError: If the text has fewer than two tokens, or a window does not fit into the context.
    """
    width = window or runner.context
    if len(tokens) < 2 or not 1 < width <= runner.context:
        raise UsageError(
            f"xdlc cannot evaluate {len(tokens)} tokens in windows of {width}",
            fix=f"use a text of two tokens or more, and windows of 2 to {runner.context} tokens",
        )
    losses: list[tuple[float, ...]] = []
    likeliest: list[int] = []
    for part in _windows(tokens, width, bos):
        step("evaluating", len(likeliest), len(tokens))
        runner.rewind(0)
        own: list[float] = []
        for step_logits in runner.steps(part[:-1]):
            logits = step_logits.astype(np.float64)
            targets = part[len(own) + 1 :][: len(logits)]
            largest = logits.max(axis=-1, keepdims=True)
            sums = np.log(np.exp(logits - largest).sum(axis=-1)) + largest[:, 0]
            own += (sums - logits[np.arange(len(logits)), targets]).tolist()
            likeliest += np.argmax(logits, axis=-1).tolist()
        losses.append(tuple(own))
    return Evaluation(tuple(losses), tuple(likeliest))


def _windows(tokens: Sequence[int], width: int, bos: int | None) -> Iterator[list[int]]:
    """Yield windows of at least two tokens."""
    front = [] if bos is None else [bos]
    for start in range(0, len(tokens), width - len(front)):
        part = [*front, *tokens[start : start + width - len(front)]]
        if len(part) > 1:
            yield part
