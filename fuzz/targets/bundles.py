"""Bundles of language models: their facts, and their chat templates and tokenizers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from fuzz.targets import Files, Target
from tests.support.bundles import facts_of, small_decoder, tokenizer_json
from xdlc.llm.bundle import FACTS, TOKENIZER, genie_config, read_bundle
from xdlc.llm.tokenizer import Tokenizer

TEMPLATE = (
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}{{ m['role'] | upper }}: "
    "{{ m['content'].strip() }}{% endfor %}{% if add_generation_prompt %}A:{% endif %}"
)


def facts(path: Path, _rng: random.Random) -> str:
    """Read a bundle, and write its configuration."""
    bundle = read_bundle(path)
    json.dumps(genie_config(bundle.facts, [part.name for part in bundle.parts]))
    return "bundle"


def texts(path: Path, _rng: random.Random) -> str:
    """Load a tokenizer, and tokenize a conversation."""
    template = (path / "template").read_bytes().decode("utf-8", "replace")
    with Tokenizer(path / TOKENIZER, template, {"bos_token": 1}) as tokenizer:
        tokens = tokenizer.conversation([{"role": "user", "content": "w2 w3"}])
        "".join(tokenizer.pieces(tokens))
    return "texts"


def fact_seeds() -> Iterator[Files]:
    """Yield records of bundles."""
    for scaling in (None, {"rope_type": "linear", "factor": 2.0}):
        written = asdict(facts_of(small_decoder(rope_scaling=scaling), bos=1, eos=(2, 3), checks=("a",)))
        record = {"facts": written, "parts": 2, "targets": {"sm8650": {"is_shared": True}}}
        yield {FACTS: json.dumps(record).encode()}


def text_seeds() -> Iterator[Files]:
    """Yield tokenizers with a template."""
    yield {TOKENIZER: tokenizer_json(), "template": TEMPLATE.encode()}


TARGETS = [
    Target("llm-bundle", fact_seeds, facts),
    Target("llm-texts", text_seeds, texts, engine=("tokenizers",)),
]
