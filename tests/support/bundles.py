"""Small decoders in parts with several graphs, and bundles of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.decoders import config_of, random_weights
from xdlc.ir import Model, TensorData
from xdlc.ir.files import make_folder, replace_file
from xdlc.llm.bundle import Bundle, Facts, binary_path, part_path, write_bundle
from xdlc.llm.decoder import Decoder, read_decoder
from xdlc.llm.layout import Length
from xdlc.llm.network import part_model, parts_of
from xdlc.llm.weights import Weights

CONTEXT, PROMPT = 24, 4


def small_decoder(family: str = "llama", **keys: Any) -> Decoder:
    return read_decoder(config_of(family, **keys))


def parts_with_graphs(
    decoder: Decoder,
    borders: Iterable[int] = (),
    prompt: int = PROMPT,
    context: int = CONTEXT,
    shorter: Sequence[int] = (),
) -> list[Model]:
    """Return the float parts of a decoder, with two graphs for each context."""
    weights = Weights(random_weights(decoder))
    lengths = [Length(size, span) for span in (context, *shorter) for size in (prompt, 1)]
    models = []
    for part in parts_of(decoder, borders):
        whole, *others = (part_model(decoder, weights, part, length) for length in part.lengths(lengths))
        for graph in others:
            whole.add_graph(graph.main)
        models.append(whole)
    return models


def facts_of(decoder: Decoder, prompt: int = PROMPT, context: int = CONTEXT, **more: Any) -> Facts:
    return Facts(
        family=decoder.type,
        vocab=decoder.vocab,
        context=context,
        prompt_tokens=prompt,
        layers=decoder.layers,
        kv_heads=decoder.kv_heads,
        head_dim=decoder.head_dim,
        weights="fp16",
        kv_bits=16,
        rope=decoder.rope,
        **more,
    )


def small_bundle(folder: Path, family: str = "llama", borders: Iterable[int] = (), **more: Any) -> Bundle:
    decoder = small_decoder(family)
    return written(folder, facts_of(decoder, **more), parts_with_graphs(decoder, borders))


def written(
    folder: Path,
    facts: Facts,
    parts: Sequence[Model],
    binaries: Mapping[str, Sequence[TensorData]] | None = None,
    **more: Any,
) -> Bundle:
    """Return a bundle of parts and of their context binaries by SoC."""
    for number, part in enumerate(parts, 1):
        path = part_path(folder, number, len(parts))
        make_folder(folder)
        part.save(path)
        for soc, contexts in (binaries or {}).items():
            make_folder(folder / soc)
            replace_file(binary_path(folder, soc, number, len(parts)), contexts[number - 1].write_to)
    return write_bundle(folder, facts, parts, list(binaries or {}), **more)


def tokenizer_json(count: int = 96) -> bytes:
    """Return a tokenizer whose tokens are the words w0, w1 and so on."""
    model = {"type": "WordLevel", "vocab": {f"w{token}": token for token in range(count)}, "unk_token": "w0"}
    whole = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    parts = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    return json.dumps({**whole, **parts}).encode()
