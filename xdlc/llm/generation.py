"""Generation of tokens by graphs of decoders, as the vendor's runtime does it.

Past keys and values stand in front and new ones last; a prompt that does not fill a graph is padded on the
right.  Quantized values return as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from xdlc.errors import ModelError, UsageError
from xdlc.ir import Graph, Model, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.quantization import quantized_limits, to_float
from xdlc.llm.decoder import Rope
from xdlc.llm.layout import (
    COSINES,
    IDS,
    LOGITS,
    MASK,
    POSITIONS,
    SINES,
    Length,
    cache_name,
    graph_of,
    graphs_of,
)
from xdlc.llm.network import MASKED


class Engine(Protocol):
    """Runs a graph."""

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by name."""


Open = Callable[[int, Graph], Engine]
"""Opens a graph of a part, by the part's number from 0."""


class Runner:
    """A decoder on an engine, with the keys and values of the tokens so far.

    Args:
        parts: The parts, which ``check_genie`` accepts.
        rope: Rotary positions; None if graphs have learned ones.
        open_graph: Opens a graph when it runs first.

    Attributes:
        tokens: The tokens so far.
        context: Most tokens, those of the longest graphs; 0 where no graph has keys and values of past ones.
    """

    def __init__(self, parts: Sequence[Model], rope: Rope | None, open_graph: Open) -> None:
        self._graphs = [graphs_of(part) for part in parts]
        self._rope, self._open = rope, open_graph
        self._engines: dict[tuple[int, str], Engine] = {}
        self._cache: dict[str, Array] = {}
        self.tokens: list[int] = []
        longest = max(self._graphs, key=lambda graphs: next(iter(graphs)).context)
        self._lengths, self.context = [*longest], next(iter(longest)).context
        self._make_cache()

    def _make_cache(self) -> None:
        """Fill the caches with zeros."""
        for graphs in self._graphs:
            for tensor in next(iter(graphs.values())).inputs:
                cache = cache_name(tensor.name)
                if cache is not None:
                    shape = list(tensor.shape)
                    shape[cache.axis] = self.context
                    self._cache[tensor.name] = np.full(shape, _stored_zero(tensor), tensor.dtype.numpy)

    def rewind(self, count: int) -> None:
        """Forget the tokens after the first ones."""
        del self.tokens[count:]

    def feed(self, tokens: Sequence[int]) -> Array:
        """Append tokens; return the logits after each of them: [tokens, vocab].

        Raises:
            UsageError: If the context has no space for them.
        """
        return np.concatenate(list(self.steps(tokens)))

    def steps(self, tokens: Sequence[int]) -> Iterator[Array]:
        """Append tokens, run by run; yield the logits after those of a run.

        The logits of a long prompt take gigabytes.

        Raises:
            UsageError: If the context has no space for them.
        """
        rest = list(tokens)
        while rest:
            length = self._length(len(rest))
            yield self._step(rest[: length.tokens], length)
            rest = rest[length.tokens :]

    def _length(self, count: int) -> Length:
        """Return the sizes of the graphs for the next tokens: few runs, short context."""
        past = len(self.tokens)
        fitting = [length for length in self._lengths if past <= length.past]
        if not fitting or past + count > self.context:
            raise UsageError(
                f"the run needs {past + count} tokens, but the context has {self.context}",
                fix="shorten the prompt, or build a bundle with a longer context",
            )
        sizes = {length.tokens for length in fitting}
        size = min((size for size in sizes if size >= count), default=max(sizes))
        return min((length for length in fitting if length.tokens == size), key=lambda length: length.context)

    def _step(self, tokens: Sequence[int], length: Length) -> Array:
        values = self.run(tokens, length)
        outputs = graph_of(self._graphs[-1], length).outputs
        logits = next(tensor for tensor in outputs if tensor.name == LOGITS)
        array = values[LOGITS].reshape(length.tokens, -1)[: len(tokens)]
        if logits.dtype.is_fixed and logits.encoding is not None:
            return to_float(array, logits.encoding, where=f"tensor {LOGITS!r}")
        return array.astype("float32")

    def run(
        self, tokens: Sequence[int], length: Length, values: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Append tokens; return outputs that are no caches, as graphs store them.

        Args:
            tokens: At most those that the graphs process at a time.
            length: Sizes of the graphs.
            values: Inputs that no part before computes, by name.
        """
        computed = dict(values or {})
        past, count = len(self.tokens), len(tokens)
        for number, graphs in enumerate(self._graphs):
            graph = graph_of(graphs, length)
            if (number, graph.name) not in self._engines:
                self._engines[number, graph.name] = self._open(number, graph)
            feeds = {tensor.name: self._input(tensor, tokens, length, computed) for tensor in graph.inputs}
            results = self._engines[number, graph.name].run(feeds, native=True)
            for tensor in graph.outputs:
                cache = cache_name(tensor.name)
                if cache is None:
                    computed[tensor.name] = results[tensor.name]
                    continue
                name = f"{tensor.name.removesuffix('_out')}_in"
                _along(self._cache[name], cache.axis, past, past + count)[...] = _along(
                    results[tensor.name], cache.axis, 0, count
                )
        self.tokens += tokens
        return computed

    def _input(
        self, tensor: Tensor, tokens: Sequence[int], length: Length, values: Mapping[str, Array]
    ) -> Array:
        """Return the array of an input; ``values`` are those of the parts before."""
        past, count, size = len(self.tokens), len(tokens), length.tokens
        cache = cache_name(tensor.name)
        if cache is not None:
            return _along(self._cache[tensor.name], cache.axis, 0, length.past)
        if tensor.name == IDS:
            ids = np.zeros(tensor.shape, tensor.dtype.numpy)
            ids.reshape(-1)[:count] = tokens
            return ids
        if tensor.name == MASK:
            return _mask(tensor, past, count, size)
        places = np.minimum(np.arange(past, past + size), self.context - 1)
        if tensor.name == POSITIONS:
            return places.astype(tensor.dtype.numpy).reshape(tensor.shape)
        if tensor.name in (COSINES, SINES) and self._rope and self._rope.dim == 2 * tensor.shape[-1]:
            rows = turned(self._rope, tensor.name, places, self.context).reshape(tensor.shape)
            return rows if tensor.dtype.is_fixed else rows.astype(tensor.dtype.numpy)
        if tensor.name not in values:
            raise ModelError(
                "no earlier part computes this input, and xdlc does not know its values",
                where=f"input {tensor.name!r}",
            )
        return values[tensor.name]


def _along(array: Array, axis: int, start: int, stop: int) -> Array:
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _stored_zero(tensor: Tensor) -> int:
    return -tensor.encoding.offset if isinstance(tensor.encoding, ScaleOffset) else 0


def _mask(tensor: Tensor, past: int, count: int, size: int) -> Array:
    """Return a mask: tokens see those before and themselves, the padding nothing."""
    seen = np.zeros((size, tensor.shape[-1]), bool)
    seen[:count, :past] = True
    seen[:count, -size:] = np.tri(size, dtype=bool)[:count]
    return np.where(seen, *mask_values(tensor)).astype(tensor.dtype.numpy).reshape(tensor.shape)


def mask_values(tensor: Tensor) -> tuple[float, float]:
    """Return what a mask stores where a token sees another, and where it does not."""
    if tensor.dtype.is_fixed:
        return _stored_zero(tensor), quantized_limits(tensor)[0]
    return 0.0, MASKED


def turned(rope: Rope, name: str, places: Array, context: int) -> Array:
    """Return cosines or sines of positions, by the input's name: [positions, pairs]."""
    angles = places[:, None] * np.asarray(rope.frequencies(context))[None]
    rows = np.cos(angles) if name == COSINES else np.sin(angles)
    return (rows * rope.magnitude).astype(np.float32)


_COLDEST = 1e-30  # below it, quotients may have no float


@dataclass(frozen=True, slots=True)
class Sampling:
    """Choice of a token by its logits.

    Attributes:
        temperature: Divisor of the logits; 0 chooses the largest.
        top_k: Number of tokens to choose from; 0: all.
        top_p: Share of probability to choose from, largest first.
        seed: Seed of the random numbers.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 42

    def chooser(self) -> Callable[[Array], int]:
        """Return a function from logits to a token."""
        random = np.random.default_rng(self.seed)

        def choose(logits: Array) -> int:
            if not self.temperature:
                return int(np.argmax(logits))
            order = np.argsort(-logits, kind="stable")[: self.top_k or None]
            scores = logits[order].astype(np.float64)
            shares = np.exp((scores - scores[0]) / max(self.temperature, _COLDEST))
            shares /= shares.sum()
            before = np.cumsum(shares) - shares
            shares = np.where(before < self.top_p, shares, 0.0)
            return int(random.choice(order, p=shares / shares.sum()))

        return choose


def answer(
    runner: Runner, prompt: Sequence[int], most: int, choose: Callable[[Array], int], ends: Sequence[int]
) -> Iterator[int]:
    """Yield the tokens that follow a prompt, without the one that ends them.

    Tokens that the prompt has in common with those so far are not computed again.

    Args:
        runner: The decoder.
        prompt: All tokens of the conversation, at least one.
        most: Largest number of tokens.
        choose: Chooses a token by its logits.
        ends: Tokens that end the answer.

    Raises:
        UsageError: If the prompt does not fit into the context.
    """
    same = 0
    while same < min(len(prompt) - 1, len(runner.tokens)) and prompt[same] == runner.tokens[same]:
        same += 1
    runner.rewind(same)
    tokens = prompt[same:]
    for _ in range(most):
        for logits in runner.steps(tokens):
            last = logits[-1]
        token = choose(last)
        if token in ends:
            return
        yield token
        if len(runner.tokens) == runner.context:
            return
        tokens = [token]
