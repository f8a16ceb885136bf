"""Folders of Hugging Face: what is read and refused; nothing of it runs."""

import json

import numpy as np
import pytest

from tests.llm.checkpoint.test_safetensors import safetensors
from xdlc.errors import ModelError, StorageError, UnsupportedOp, UsageError, XdlcError
from xdlc.llm.checkpoint import open_checkpoint

CONFIG = {"model_type": "llama", "hidden_size": 4, "bos_token_id": 1, "eos_token_id": 2}
A, B = np.ones((2, 4), np.float32), np.zeros((4,), np.float16)
TOKENIZER = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "config.json", CONFIG)
    write(
        tmp_path, "model.safetensors", safetensors({"model.embed_tokens.weight": A, "model.norm.weight": B})
    )
    write(tmp_path, "tokenizer.json", TOKENIZER)
    return tmp_path


def write(folder, name, content):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def test_whole_folder(folder):
    write(folder, "generation_config.json", {"eos_token_id": [2, 7], "temperature": 0.5})
    write(folder, "tokenizer_config.json", {"chat_template": [{"name": "default", "template": "{{ a }}"}]})
    checkpoint = open_checkpoint(folder)
    assert checkpoint.config == CONFIG
    assert list(checkpoint.weights) == ["model.embed_tokens.weight", "model.norm.weight"]
    assert checkpoint.weights["model.norm.weight"].floats().dtype == np.float16
    assert json.loads(checkpoint.tokenizer) == TOKENIZER
    assert checkpoint.chat_template == "{{ a }}"
    assert checkpoint.generation["eos_token_id"] == [2, 7]
    assert checkpoint.generation["bos_token_id"] == 1
    assert checkpoint.generation["temperature"] == 0.5


def test_tokens_beyond_the_vocabulary_are_omitted(folder):
    write(folder, "config.json", {**CONFIG, "vocab_size": 3, "eos_token_id": [2, 50256], "bos_token_id": 3})
    checkpoint = open_checkpoint(folder)
    assert checkpoint.generation["eos_token_id"] == [2]
    assert checkpoint.generation["bos_token_id"] is None
    assert len(checkpoint.notices) == 2


def test_template_file_precedes(folder):
    write(folder, "tokenizer_config.json", {"chat_template": "old"})
    write(folder, "chat_template.jinja", b"new")
    assert open_checkpoint(folder).chat_template == "new"


def test_shards(folder):
    (folder / "model.safetensors").unlink()
    write(folder, "1.safetensors", safetensors({"model.a": A}))
    write(folder, "2.safetensors", safetensors({"model.b": B}))
    index = {"metadata": {}, "weight_map": {"model.b": "2.safetensors", "model.a": "1.safetensors"}}
    write(folder, "model.safetensors.index.json", index)
    weights = open_checkpoint(folder).weights
    assert {name: weight.shape for name, weight in weights.items()} == {"model.a": (2, 4), "model.b": (4,)}
    index["weight_map"]["model.c"] = "2.safetensors"
    write(folder, "model.safetensors.index.json", index)
    with pytest.raises(ModelError, match=r"model\.c"):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "missing.safetensors", "", "a\0b"])
def test_shards_stay_in_the_folder(folder, name):
    write(folder.parent, "x.safetensors", safetensors({"model.a": A}))
    write(folder, "model.safetensors.index.json", {"weight_map": {"model.a": name}})
    with pytest.raises(ModelError):
        open_checkpoint(folder)


def test_links_of_a_download_cache(folder, tmp_path_factory):
    blobs, snapshot = folder / "blobs", folder / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).rename(blobs / name)
        (snapshot / name).symlink_to(f"../blobs/{name}")
    assert len(open_checkpoint(snapshot).weights) == 2
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "x"
    write(elsewhere.parent, "x", safetensors({"model.a": A}))
    (snapshot / "model.safetensors").unlink()
    (blobs / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(elsewhere)
    with pytest.raises(ModelError):
        open_checkpoint(snapshot)


def test_names_of_the_decoder_alone(folder):
    write(folder, "config.json", {"model_type": "gpt2"})
    arrays = {"wte.weight": A, "h.0.attn.bias": A, "h.0.attn.c_attn.bias": B, "lm_head.weight": A}
    write(folder, "model.safetensors", safetensors(arrays))
    names = ["transformer.wte.weight", "transformer.h.0.attn.c_attn.bias", "lm_head.weight"]
    assert list(open_checkpoint(folder).weights) == names


@pytest.mark.parametrize(
    "prefixes", [("model.language_model.", ""), ("language_model.model.", "language_model.")]
)
def test_decoder_of_a_model_of_images(folder, prefixes):
    inner, head = prefixes
    arrays = {f"{inner}norm.weight": B, f"{head}lm_head.weight": A, "vision_tower.x.weight": A}
    write(folder, "model.safetensors", safetensors(arrays))
    checkpoint = open_checkpoint(folder)
    assert sorted(checkpoint.weights) == ["lm_head.weight", "model.norm.weight"]
    assert "1 tensors" in checkpoint.notices[0]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("config.json", b"{", ModelError),
        ("config.json", b"[1]", ModelError),
        ("config.json", {"hidden_size": 4}, ModelError),
        ("config.json", {**CONFIG, "eos_token_id": ["a"]}, ModelError),
        ("config.json", {**CONFIG, "quantization_config": {"quant_method": "fp8"}}, UnsupportedOp),
        ("config.json", {**CONFIG, "quantization_config": "gptq"}, ModelError),
        ("config.json", b'{"model_type": "' + b"a" * (1 << 22) + b'"}', ModelError),
        ("generation_config.json", {"bos_token_id": True}, ModelError),
        ("tokenizer_config.json", b"\xff", ModelError),
        ("chat_template.jinja", b"\xff", ModelError),
        ("tokenizer.json", b"{}", ModelError),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": "0"}}}, ModelError),
        ("tokenizer.json", {"model": {"type": "Mine", "vocab": {"a": 0}}}, ModelError),
        ("model.safetensors.index.json", {"weight_map": {"a": 1}}, ModelError),
    ],
)
def test_damaged(folder, name, content, error):
    write(folder, name, content)
    with pytest.raises(error) as raised:
        open_checkpoint(folder)
    assert raised.value.fix


def test_missing_parts(folder, tmp_path):
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    checkpoint = open_checkpoint(folder)
    assert checkpoint.tokenizer is None
    assert "tokenizer.json" in checkpoint.notices[0]
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError):
        open_checkpoint(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError):
        open_checkpoint(folder)


def test_other_files_are_named(folder):
    with pytest.raises(UsageError, match="safetensors") as error:
        open_checkpoint(folder / "model.safetensors")
    assert str(folder) in error.value.fix
    (folder / "text").write_text("hello")
    with pytest.raises(XdlcError):
        open_checkpoint(folder / "text")
    with pytest.raises(StorageError):
        open_checkpoint(folder / "missing")
