"""Pipelines for onnxruntime-genai: fed in its way, they choose our tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.llm.test_building import SIZES, folder_of
from tests.llm.test_genie import context_of
from tests.support.bundles import facts_of, parts_with_graphs, small_bundle, small_decoder, written
from tests.support.htp_models import needs_htp
from xdlc import llm
from xdlc.container import load
from xdlc.ir import Model, raw_data
from xdlc.llm.bundle import Bundle
from xdlc.llm.genai import CONFIG, is_supported
from xdlc.llm.layout import cache_name
from xdlc.llm.running import _on_host, opened, runner_of

PROMPTS = [[7 * place % 96 for place in range(1, count)] for count in (6, 60)]
"""Prompts of a part of a run and of nearly two."""


class Pipeline:
    """A pipeline whose context binaries are graphs on the host."""

    def __init__(self, folder: Path, parts: Sequence[Model]) -> None:
        self.config = json.loads((folder / CONFIG).read_text())["model"]
        self.graphs = {graph.name: (part, graph) for part in parts for graph in part.graphs.values()}
        self.stages = self.config["decoder"]["pipeline"][0]
        self.sessions: dict[str, Any] = {
            name: _on_host(*self.graphs[name], quantized=True)
            if name in self.graphs
            else onnxruntime.InferenceSession(folder / stage["filename"])
            for name, stage in self.stages.items()
        }
        self.caches: dict[str, Any] = {}

    def answer(self, prompt: Sequence[int], most: int) -> list[int]:
        """Return the likeliest tokens after a prompt, which is padded on the left."""
        decoder, self.caches = self.config["decoder"], {}
        size = decoder["sliding_window"]["window_size"]
        padding = -len(prompt) % size
        tokens = [self.config["pad_token_id"]] * padding + [*prompt]
        places = [0] * padding + [*range(len(prompt))]
        answer: list[int] = []
        for start in range(0, len(tokens), size):
            scores = self.run(tokens[start : start + size], places[start : start + size], start - padding)
        while len(answer) < most:
            answer.append(int(np.argmax(scores)))
            past = len(prompt) + len(answer) - 1
            scores = self.run(answer[-1:], [past], past)
        return answer

    def run(self, tokens: Sequence[int], places: Sequence[int], past: int) -> Any:
        context, count = self.config["context_length"], len(tokens)
        names = self.config["decoder"]["inputs"]
        seen = np.arange(context) >= context - count - past
        values = {
            names["input_ids"]: np.array([tokens], np.int32),
            names["attention_mask"]: seen.astype(np.int32)[None],
            names["position_ids"]: np.array([places], np.int32),
        }
        for name, stage in self.stages.items():
            if stage.get("run_on_prompt" if count > 1 else "run_on_token_gen", True):
                inputs = {port: values[port] for port in stage["inputs"] if cache_name(port) is None}
                values |= self.results(name, inputs, context - count)
        return values[self.config["decoder"]["outputs"]["logits"]][0, -1]

    def results(self, name: str, inputs: Mapping[str, Any], past: int) -> dict[str, Any]:
        stage, session = self.stages[name], self.sessions[name]
        if name not in self.graphs:
            return dict(zip(stage["outputs"], session.run(stage["outputs"], dict(inputs)), strict=True))
        ports = {tensor.name: tensor for tensor in self.graphs[name][1].inputs}
        context = self.config["context_length"]
        for port in stage["inputs"]:
            if cache := cache_name(port):
                shape = [*ports[port].shape]
                shape[cache.axis] = context
                zero = self.config["decoder"]["sliding_window"]["pad_value"]
                self.caches.setdefault(port, np.full(shape, zero, np.uint8))
        caches = {
            port: self.caches[port].take(range(context - past, context), cache_name(port).axis)  # type: ignore[union-attr]
            for port in stage["inputs"]
            if cache_name(port)
        }
        results: dict[str, Any] = session.run({**inputs, **caches}, native=True)
        for port in caches:
            axis = cache_name(port).axis  # type: ignore[union-attr]
            whole = np.concatenate([self.caches[port], results[port.replace("_in", "_out")]], axis)
            self.caches[port] = whole.take(range(-context, 0), axis)
        return results


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("genai")
    source = folder_of(folder / "source", "mistral", sliding_window=40)
    text = folder / "text.txt"
    text.write_text(" ".join(f"w{token}" for token in np.random.default_rng(0).integers(0, 96, 600)))
    built = llm.build(source, folder / "built", targets=(), weights="w8", text=text, splits=2, **SIZES)
    parts = [load(part) for part in built.parts]
    return written(folder / "bundle", built.facts, parts, binaries={"sm8650": [raw_data(b"binary")] * 2})


def test_its_way_gives_the_tokens_of_our_loop(bundle: Bundle) -> None:
    pipeline = Pipeline(bundle.folder / "sm8650", [load(part) for part in bundle.parts])
    with opened(bundle, "host") as ask:
        for prompt in PROMPTS:
            assert pipeline.answer(prompt, 8) == list(ask(prompt, 8))


def test_models_are_valid_and_refer_to_the_context_binaries(bundle: Bundle) -> None:
    folder = bundle.folder / "sm8650"
    (stages,) = json.loads((folder / CONFIG).read_text())["model"]["decoder"]["pipeline"]
    assert [*stages] == [
        "genai_inputs",
        *[f"prompt_ar32_cl128_{part}_of_2" for part in (1, 2)],
        *[f"token_ar1_cl128_{part}_of_2" for part in (1, 2)],
        "genai_logits",
    ]
    binaries = []
    for stage in stages.values():
        proto = onnx.load(folder / stage["filename"])
        onnx.checker.check_model(proto, skip_opset_compatibility_check=True)
        assert [port.name for port in proto.graph.input] == stage["inputs"]
        for node in proto.graph.node:
            facts = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
            if node.op_type == "EPContext":
                binaries.append(facts["ep_cache_context"].decode())
    assert binaries == ["decoder_1_of_2.bin", "decoder_2_of_2.bin"] * 2


@needs_htp
@pytest.mark.slow
def test_a_prompt_leaves_the_mask_of_token_graphs_alone(bundle: Bundle, tmp_path: Path) -> None:
    parts = [load(part) for part in bundle.parts]
    binaries = {"sm8650": [*map(context_of, parts)]}
    whole = written(tmp_path, bundle.facts, parts, binaries=binaries)
    logits = {}
    for engine in ("host", "htp"):
        with runner_of(whole, engine) as runner:
            runner.feed(PROMPTS[0])
            logits[engine] = np.concatenate([runner.feed([token]) for token in range(50, 62)])
    assert np.abs(logits["host"] - logits["htp"]).max() < 0.3 * logits["host"].std()


def test_bundles_that_it_cannot_feed_have_no_pipeline(tmp_path: Path) -> None:
    assert not is_supported(small_bundle(tmp_path).facts, [])  # floats
    decoder = small_decoder("gemma3_text")
    assert not is_supported(replace(facts_of(decoder), kv_bits=8), [])
    facts, parts = replace(facts_of(small_decoder()), kv_bits=8), parts_with_graphs(small_decoder())
    assert is_supported(facts, parts)
    del parts[0].graphs["token_ar1_cl24_1_of_1"]
    assert not is_supported(facts, parts)
    assert not [*written(tmp_path, facts, parts, {"sm8650": [raw_data(b"")]}).folder.glob("*/genai*")]
