"""Quantization of a decoder part by part, along a text.

A part runs over sequences of the text in floats, on a short context: its inputs are the samples that it is
quantized with, its outputs are inputs of the next part.  No more than a part is in memory, and the hidden
states of the sequences.  Inputs of several parts, and hidden states between them, have one encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir import Graph, Model, Op, ScaleOffset
from xdlc.ir.data import Array
from xdlc.ir.dtype import UFIXED16
from xdlc.llm.decoder import Rope
from xdlc.llm.generation import Runner
from xdlc.llm.layout import MASK, Length, cache_name
from xdlc.llm.network import MASKED, Part, bits_of_ops
from xdlc.options import Notify, spell
from xdlc.quant import quantize
from xdlc.quant.op_specs import weight_of
from xdlc.quant.output_accuracy import FIGURES
from xdlc.quant.ranges import representable
from xdlc.runtime.cpu import CpuSession

Floats = Callable[[Length], Model]
SEQUENCES, CHUNKS = 8, 4
"""Sequences of the text, and chunks of a prompt in each, that are calibrated with."""
CONTEXT = 512
"""Most tokens of a sequence."""
_STEPS = (1 << 16) - 1


def short(prompt: Length) -> Length:
    """Return the length that a decoder is calibrated with, for that of prompts."""
    return Length(prompt.tokens, min(prompt.context, max(CONTEXT, 2 * prompt.tokens)))


class Calibrated:
    """Quantizes the parts of a decoder in order.

    Args:
        rope: Rotary positions; None if graphs have learned ones.
        tokens: The tokens of the text.
        length: The length that it is calibrated with.
        lengths: Lengths of the graphs, that of prompts of the longest context first.
        bits: Bits of weights by the names of linear maps, if not those of the options.
        options: Options of the quantizer.

    Raises:
        UsageError: If the text is shorter than a chunk.
    """

    def __init__(
        self,
        rope: Rope | None,
        tokens: Sequence[int],
        length: Length,
        lengths: Sequence[Length],
        kv_bits: int,
        bits: Mapping[str, int],
        options: Mapping[str, Any],
        notify: Notify,
    ) -> None:
        self._rope, self._lengths, self._kv_bits = rope, lengths, kv_bits
        self._bits, self._options, self._notify = bits, options, notify
        self._length = length
        self._sequences = _sequences(tokens, self._length)
        self._hidden: dict[tuple[int, int], Array] = {}
        # One encoding for all parts, the scores of which differ: the first part must not narrow it.
        self._encodings = {MASK: ScaleOffset(MASKED / -_STEPS, -_STEPS, 16)}

    def part(self, part: Part, floats: Floats) -> Model:
        """Return a quantized part, with a graph for each length.

        Args:
            floats: Returns the float model of the part for a length.
        """
        first = floats(self._length)
        samples = self._samples(part, first)
        for length in part.lengths(self._lengths):
            if length != self._length:
                first.add_graph(floats(length).main)
        for graph in first.graphs.values():
            self._state(graph)
        caches = {tensor.name: self._kv_bits for tensor in first.main.inputs if cache_name(tensor.name)}
        bits, options = bits_of_ops(first.main, self._bits), dict(self._options)
        if all(bits.get(op.name, options["weights_bitwidth"]) >= 8 for op in first.main.ops if has_map(op)):
            for name in ("weights_block_size", "use_lpbq"):  # blocks are for fewer bits
                options.pop(name, None)
        quantized = quantize(
            first,
            samples,
            act_bitwidth=16,
            act_bitwidth_of=caches,
            weights_bitwidth_of=bits,
            advise=False,  # perplexity judges, not single parts
            notify=lambda note: self._notify(f"part {part.number}: {note}") if matters(note) else None,
            **options,
        )
        self._note(quantized.main)
        if self._length not in self._lengths:
            del quantized.graphs[quantized.main.name]
        return quantized

    def skip(self, part: Part, floats: Floats, model: Model) -> None:
        """Go on after a part that is there, quantized."""
        self._note(model.main)
        if not part.last:
            self._samples(part, floats(self._length))

    def _note(self, graph: Graph) -> None:
        for tensor in (*graph.inputs, *graph.outputs):
            if isinstance(tensor.encoding, ScaleOffset) and cache_name(tensor.name) is None:
                self._encodings[tensor.name] = replace(tensor.encoding, bits=tensor.dtype.bits)

    def _state(self, graph: Graph) -> None:
        """Give inputs the encodings that parts before have for them."""
        for tensor in graph.inputs:
            tensor.encoding = self._encodings.get(tensor.name)

    def _samples(self, part: Part, model: Model) -> list[dict[str, Array]]:
        """Run a float part over all sequences; return what it was fed."""
        recorder = _Recorder(model.main, self._encodings)
        runner = Runner([model], self._rope, lambda _part, _graph: recorder)
        size = self._length.tokens
        for number, sequence in enumerate(self._sequences):
            runner.rewind(0)
            for at, start in enumerate(range(0, len(sequence), size)):
                hidden = self._hidden.pop((number, at), None)
                values = {} if hidden is None else {part.input: hidden}
                results = runner.run(sequence[start : start + size], self._length, values)
                if not part.last:
                    self._hidden[number, at] = results[part.output]
        return recorder.samples


def matters(note: str) -> bool:
    """Return whether a note of the quantizer is for people who build bundles."""
    return note.startswith(("warning", FIGURES))


def has_map(op: Op) -> bool:
    """Return whether an op multiplies by weights."""
    weight = weight_of(op)
    return weight is not None and weight.rank >= 2


class _Recorder:
    """Runs a float graph, and keeps what it is fed.

    Args:
        encodings: Encodings of inputs, whose values they bound.
    """

    def __init__(self, graph: Graph, encodings: Mapping[str, ScaleOffset]) -> None:
        self._session = CpuSession(graph)
        inputs = {tensor.name for tensor in graph.inputs}
        self._ranges = {
            name: representable(encoding, UFIXED16) for name, encoding in encodings.items() if name in inputs
        }
        self.samples: list[dict[str, Array]] = []

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by name."""
        sample = {name: array.copy() for name, array in feeds.items()}
        for name, bounds in self._ranges.items():
            sample[name].clip(bounds.low, bounds.high, out=sample[name])
        self.samples.append(sample)
        return self._session.run(feeds, native=native)


def _sequences(tokens: Sequence[int], length: Length) -> list[list[int]]:
    """Return sequences from all over a text, whole chunks of a prompt each."""
    chunks = min(CHUNKS, length.context // length.tokens, len(tokens) // length.tokens)
    if not chunks:
        raise UsageError(
            f"the text has {len(tokens)} tokens, fewer than the {length.tokens} of a prompt",
            where=spell("text"),
            fix="give a longer text, similar to what the model will read",
        )
    size = chunks * length.tokens
    count = min(SEQUENCES, len(tokens) // size)
    last = len(tokens) - size
    starts = [last * index // max(1, count - 1) for index in range(count)]
    return [list(tokens[start : start + size]) for start in starts]
