"""What quantizing costs a decoder: perplexity, equality of tokens, and drift along a long context.

    python bench/decoders.py CHECKPOINT TEXT [--context 512] [--prompt 32] [--samples 16] [--tokens 4000]
        [--variants w8 w4 ...] [--drift 1000]

The checkpoint is built as one part with a graph of prompts and one of single tokens, which are quantized
together with caches of 8 bits.  The last tokens of the text are held out: perplexity is measured on them,
in windows of the context, and divided by that of the float model; tokens are equal where the likeliest
one is the same after the same text.  With --drift the held-out text is one window, and figures are by
parts of 200 tokens: errors of the cache that add up would show.  Calibration samples are from the rest.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from xdlc.ir import Graph, Model
from xdlc.llm.checkpoint import open_checkpoint
from xdlc.llm.decoder import Decoder, read_decoder
from xdlc.llm.evaluation import Evaluation, evaluate
from xdlc.llm.generation import Runner
from xdlc.llm.layout import Length
from xdlc.llm.network import part_model, parts_of
from xdlc.llm.tokenizer import Tokenizer
from xdlc.llm.weights import Weights
from xdlc.runtime.cpu import CpuSession

HEAD, ATTENTION = ("head",), ("projection", "projections", ".output")
BLOCKS: Mapping[str, Any] = {"weights_bitwidth": 4, "weights_block_size": 32, "use_lpbq": True}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "w8": {},
    "w8 kv16": {"kv": 16},
    "w4 rows": {"weights_bitwidth": 4},
    "w4": BLOCKS,
    "w4 kv16": {**BLOCKS, "kv": 16},
    "w4 b16": {**BLOCKS, "weights_block_size": 16},
    "w4 adaround": {**BLOCKS, "algorithms": "adaround"},
    "w4 seqmse": {**BLOCKS, "algorithms": "seqmse"},
    "w4 smoothquant": {**BLOCKS, "algorithms": "smoothquant"},
    "w4 head8": {**BLOCKS, "wide": HEAD},
    "w4 adaround head8": {**BLOCKS, "wide": HEAD, "algorithms": "adaround"},
    "w4 adaround attention8": {**BLOCKS, "wide": (*HEAD, *ATTENTION), "algorithms": "adaround"},
}
"""Options of ``xdlc.quantize`` with 16-bit activations; ``kv``: bits of caches, ``wide``: ends of names
of ops with weights of 8 bits."""
PART = 200


@dataclass(slots=True)
class Recorder:
    """An engine of a float graph that keeps what it is fed."""

    graph: Graph
    every: int
    samples: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self._session = CpuSession(self.graph)

    _session: CpuSession = field(init=False)

    def run(self, feeds: Mapping[str, Any], *, native: bool = False) -> dict[str, Any]:
        if self.count % self.every == 0:
            self.samples.append({name: np.array(array) for name, array in feeds.items()})
        self.count += 1
        return self._session.run(feeds, native=native)


def evaluated(model: Model, decoder: Decoder, tokens: Sequence[int], width: int) -> Evaluation:
    runner = Runner([model], decoder.rope, lambda _, graph: CpuSession(graph))
    return evaluate(runner, tokens, window=width)


def samples_of(model: Model, decoder: Decoder, tokens: Sequence[int], width: int, count: int) -> list[Any]:
    """Return inputs of the prompt graph along windows of the text."""
    steps = max(1, width // model.main.inputs[0].shape[-1])
    recorder = Recorder(model.main, max(1, steps // 4))
    runner = Runner(
        [model], decoder.rope, lambda _, graph: recorder if graph is model.main else CpuSession(graph)
    )
    for start in range(0, len(tokens), width):
        if len(recorder.samples) >= count:
            break
        runner.rewind(0)
        runner.feed(tokens[start : start + width])
    return recorder.samples[:count]


def quantized(model: Model, samples: list[Any], options: Mapping[str, Any]) -> Model:
    rest = dict(options)
    bits, wide = rest.pop("kv", 8), rest.pop("wide", ())
    caches = {tensor.name: bits for tensor in model.main.inputs if tensor.name.startswith("past_")}
    rest["weights_bitwidth_of"] = {
        op.name: 8 for op in model.main.ops if op.type == "FullyConnected" and op.name.endswith(wide)
    }
    return xdlc.quantize(
        model,
        samples,
        act_bitwidth=16,
        act_bitwidth_of=caches,
        target="sm8650",
        notify=lambda _: None,
        **rest,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("text", type=Path)
    for name, default in (("context", 512), ("prompt", 32), ("samples", 16), ("tokens", 4000), ("drift", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--variants", nargs="+", default=["w8", "w4"], choices=VARIANTS)
    options = parser.parse_args()
    checkpoint = open_checkpoint(options.checkpoint)
    decoder = read_decoder(checkpoint.config)
    with Tokenizer(options.checkpoint / "tokenizer.json") as tokenizer:
        tokens = tokenizer.encode(options.text.read_text(), special=False)
    count = options.drift or options.tokens
    context = max(options.context, options.drift + options.prompt)
    width = options.drift or context - options.prompt
    tested, rest = tokens[-count:], tokens[:-count]
    weights, (part,) = Weights(checkpoint.weights), parts_of(decoder, [])
    model, token = (part_model(decoder, weights, part, Length(n, context)) for n in (options.prompt, 1))
    model.add_graph(token.main)
    exact = evaluated(model, decoder, tested, width)
    count = len(exact.likeliest)
    print(f"float: perplexity {exact.perplexity:.3f} on {count} tokens, windows of {width}")
    samples = samples_of(model, decoder, rest, width, options.samples)
    for name in options.variants:
        began = time.monotonic()
        result = quantized(model, samples, VARIANTS[name])
        seconds = time.monotonic() - began
        figures = evaluated(result, decoder, tested, width)
        ratio, same = figures.ratio(exact), 100 * figures.equality(exact)
        print(f"{name:16} ratio {ratio:.4f}, {same:5.1f} % of tokens, quantized in {seconds:.1f} s")
        for at in range(0, count if options.drift else 0, PART):
            stretch, reference = (
                Evaluation((whole.losses[0][at : at + PART],), whole.likeliest[at : at + PART])
                for whole in (figures, exact)
            )
            ratio, same = stretch.ratio(reference), 100 * stretch.equality(reference)
            print(f"    tokens {at:5} on: ratio {ratio:.4f}, {same:5.1f} %")


if __name__ == "__main__":
    main()
