"""Checkpoints of language models: folders of Hugging Face and GGUF files."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fuzz.targets import Files, Target
from tests.converter.pytorch.pickles import pickled
from tests.llm.checkpoint.test_gguf_tokenizer import BPE, SPM
from tests.llm.checkpoint.test_packed import METHODS, NAME, made
from tests.llm.checkpoint.test_pickled import A, B, state
from tests.llm.checkpoint.test_pickled import folder as state_folder
from tests.llm.checkpoint.test_safetensors import ARRAYS, safetensors
from tests.support import gguf_files
from xdlc import XdlcError
from xdlc.llm.checkpoint import open_checkpoint
from xdlc.llm.decoder import read_decoder

CONFIG = {
    "model_type": "llama",
    "vocab_size": 10,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
}
TOKENIZER = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    "added_tokens": [{"id": 3, "content": "<s>"}],
}
FOLDER = {
    "config.json": json.dumps(CONFIG).encode(),
    "tokenizer.json": json.dumps(TOKENIZER).encode(),
    "model.safetensors": safetensors(ARRAYS),
}


def opened(path: Path) -> str:
    """Open a checkpoint, and read its decoder's facts and all values."""
    checkpoint = open_checkpoint(path)
    try:
        read_decoder(checkpoint.config)
        stage = "decoder"
    except XdlcError:
        stage = "checkpoint"
    for name in checkpoint.weights:
        weight = checkpoint.weights[name]
        values = weight.floats()
        assert values.shape == weight.shape
        assert values.numpy().shape == weight.shape
    return stage


def folder(path: Path, _rng: random.Random) -> str:
    """Read a folder of Hugging Face."""
    return opened(path)


def file(path: Path, _rng: random.Random) -> str:
    """Read a GGUF file."""
    return opened(path / "m.gguf")


def packed() -> Iterator[Files]:
    """Iterate over folders with integers of GPTQ and the like."""
    for method, stated in METHODS.items():
        tensors = {f"{NAME}.{part}": array for part, array in made(method)[0].items()}
        config = json.dumps({**CONFIG, "quantization_config": stated}).encode()
        yield {**FOLDER, "config.json": config, "model.safetensors": safetensors(tensors)}


def shards() -> Iterator[Files]:
    """Iterate over folders with one file of weights, with several, with integers, and with a pickle."""
    yield FOLDER
    with tempfile.TemporaryDirectory() as name:
        made_folder = state_folder(Path(name), pickled(state(A, B)), [A, B])
        pickles = {"pytorch_model.bin": (made_folder / "pytorch_model.bin").read_bytes()}
    yield {**{key: FOLDER[key] for key in ("config.json", "tokenizer.json")}, **pickles}
    yield from packed()
    parts = {f"{index}.safetensors": safetensors({name: ARRAYS[name]}) for index, name in enumerate(ARRAYS)}
    index = {"weight_map": {name: f"{number}.safetensors" for number, name in enumerate(ARRAYS)}}
    whole = {key: content for key, content in FOLDER.items() if key != "model.safetensors"}
    yield {**whole, **parts, "model.safetensors.index.json": json.dumps(index).encode()}


def configs() -> Iterator[Files]:
    """Iterate over folders whose configurations and templates are changed."""
    generation = {"eos_token_id": [2, 3], "temperature": 0.5}
    settings = {"chat_template": [{"name": "default", "template": "{{ a }}"}]}
    yield {
        **FOLDER,
        "generation_config.json": json.dumps(generation).encode(),
        "tokenizer_config.json": json.dumps(settings).encode(),
    }
    window = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    for family in ("gemma3_text", "phi3", "gpt2", "qwen2"):
        yield {**FOLDER, "config.json": json.dumps({**CONFIG, **window, "model_type": family}).encode()}
    yield from packed()


def ggufs() -> Iterator[Files]:
    """Iterate over files of several architectures, types and tokenizers."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((32, 32)).astype(np.float32)
    tensors = {
        "token_embd.weight": rows,
        "blk.0.attn_q.weight": ((32, 32), gguf_files.Q8_0, gguf_files.q8_0(rows)),
        "blk.0.attn_k.weight": ((32, 32), gguf_files.Q4_0, rng.bytes(18 * 32)),
        "blk.0.attn_v.weight": ((32, 32), gguf_files.Q4_1, rng.bytes(20 * 32)),
        "blk.0.ffn_down.weight": ((1, 256), gguf_files.Q6_K, rng.bytes(210)),
        "blk.0.ffn_up.weight": ((1, 256), gguf_files.Q4_K, rng.bytes(144)),
        "blk.0.ffn_norm.weight": rows[0],
        "rope_freqs.weight": np.linspace(1, 8, 4),
    }
    more = {"attention.head_count": 4, "attention.head_count_kv": 4}
    yield {"m.gguf": gguf_files.gguf(gguf_files.decoder("llama", **more) | BPE, tensors)}
    yield {"m.gguf": gguf_files.gguf(gguf_files.decoder("gemma2", **more) | SPM, tensors, version=2)}
    embedding = {name: tensors[name] for name in ("token_embd.weight",)}
    yield {"m.gguf": gguf_files.gguf(gguf_files.decoder("gpt2") | BPE, embedding)}


TARGETS = (
    Target("safetensors", shards, folder, fixed=("config.json", "tokenizer.json")),
    Target("config-json", configs, folder, fixed=("tokenizer.json", "model.safetensors")),
    Target("tokenizer-json", lambda: [FOLDER], folder, fixed=("config.json", "model.safetensors")),
    Target("gguf", ggufs, file),
)
