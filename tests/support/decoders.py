"""Small decoders with random weights, and steps over their graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import xdlc
from xdlc.ir import ArrayData, Model
from xdlc.llm.checkpoint import Weight
from xdlc.llm.decoder import Decoder
from xdlc.llm.layout import Length
from xdlc.llm.network import MASKED, parameters, part_model, parts_of
from xdlc.llm.weights import Weights

Array = Any

CONFIG: Mapping[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
}
GPT2: Mapping[str, Any] = {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}


def config_of(family: str, **keys: Any) -> dict[str, Any]:
    """Return the config of a small decoder."""
    return {**(GPT2 if family == "gpt2" else CONFIG), "model_type": family, **keys}


def random_weights(decoder: Decoder, seed: int = 0) -> dict[str, Weight]:
    """Return random parameters of all names and shapes that a decoder reads."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Weight] = {}
    for name, shape in parameters(decoder).items():
        array = rng.standard_normal(shape).astype("float32") * np.float32(0.3 if len(shape) > 1 else 0.1)
        is_norm = len(shape) == 1 and name.endswith("weight")
        array += np.float32(is_norm and not decoder.family.unit_norms)
        weights[name] = Weight(ArrayData(array))
    return weights


class Stepper:
    """Steps of a decoder over models of its graphs, which keep keys and values.

    Args:
        models: A model for each length, of the whole decoder.
    """

    def __init__(self, decoder: Decoder, models: Mapping[Length, Model]) -> None:
        self._decoder, self._models = decoder, models
        context = next(iter(models)).context
        dim, groups = decoder.head_dim, decoder.kv_heads
        self._past = {
            f"past_{role}_{layer}": np.zeros(shape, np.float32)
            for layer in range(decoder.layers)
            for role, shape in (("key", (groups, 1, dim, context)), ("value", (groups, 1, context, dim)))
        }
        self._start = 0

    def step(self, tokens: Sequence[int]) -> Array:
        """Process tokens with the smallest graph that holds them; return their logits."""
        length = min((length for length in self._models if length.tokens >= len(tokens)), key=_tokens)
        results = xdlc.run(self._models[length], self._feeds(tokens, length))
        count, start = len(tokens), self._start
        for name, past in self._past.items():
            fresh = results[f"{name}_out"]
            if "key" in name:
                past[..., start : start + count] = fresh[..., :count]
            else:
                past[:, :, start : start + count] = fresh[:, :, :count]
        self._start += count
        return results["logits"][0, :count]

    def _feeds(self, tokens: Sequence[int], length: Length) -> dict[str, Array]:
        count, start = len(tokens), self._start
        ids = np.zeros((1, length.tokens), np.int32)
        ids[0, :count] = tokens
        mask = np.full((1, 1, length.tokens, length.context), MASKED, np.float32)
        for row in range(count):
            mask[0, 0, row, :start] = 0
            mask[0, 0, row, length.past : length.past + row + 1] = 0
        places = np.arange(start, start + length.tokens)
        feeds = {"input_ids": ids, "attention_mask": mask}
        rope = self._decoder.rope
        if rope is None:
            feeds["position_ids"] = np.minimum(places, self._decoder.positions - 1).astype(np.int32)[None]
        else:
            angles = places[:, None] * np.asarray(rope.frequencies(length.context))[None]
            for name, values in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
                feeds[f"position_ids_{name}"] = (values * rope.magnitude).astype(np.float32)[None, None]
        for name, past in self._past.items():
            feeds[f"{name}_in"] = past[..., : length.past] if "key" in name else past[:, :, : length.past]
        return feeds


def _tokens(length: Length) -> int:
    return length.tokens


def whole_models(
    decoder: Decoder, weights: Mapping[str, Weight], lengths: Iterable[Length]
) -> dict[Length, Model]:
    """Return a model of the whole decoder for each length."""
    floats = Weights(weights)
    part = parts_of(decoder, [])[0]
    return {length: part_model(decoder, floats, part, length) for length in lengths}
