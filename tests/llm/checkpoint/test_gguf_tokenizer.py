"""Tokenizers of GGUF files: tokenizer.json that Hugging Face's tokenizers loads."""

import json

import pytest

from xdlc.errors import ModelError
from xdlc.llm.checkpoint.gguf_tokenizer import tokenizer_json

BYTES = ["a", "b", "c", "\u0120", "1", "2"]
BPE = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "llama-bpe",
    "tokenizer.ggml.tokens": [*BYTES, "ab", "\u0120ab", "abc", "<s>", "<user>"],
    "tokenizer.ggml.token_type": [1] * 9 + [3, 4],
    "tokenizer.ggml.merges": ["a b", "\u0120 ab", "ab c"],
    "tokenizer.ggml.bos_token_id": 9,
}
SPACE = "\u2581"
PIECES = [
    "<unk>",
    "<s>",
    "</s>",
    *(f"<0x{byte:02X}>" for byte in range(256)),
    SPACE,
    "a",
    "b",
    "ab",
    SPACE + "ab",
]
SPM = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": PIECES,
    "tokenizer.ggml.scores": [0.0] * 259 + [-5.0, -3.0, -4.0, -1.0, -2.0],
    "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 5,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.unknown_token_id": 0,
}


def built(metadata):
    content, notice = tokenizer_json(metadata, "m.gguf")
    assert not notice
    return json.loads(content)


def loaded(metadata):
    tokenizers = pytest.importorskip("tokenizers")
    content, _ = tokenizer_json(metadata, "m.gguf")
    return tokenizers.Tokenizer.from_str(content.decode())


def test_byte_level_bpe():
    whole = built(BPE)
    assert whole["model"]["vocab"]["abc"] == 8
    assert whole["model"]["merges"][0] == ["a", "b"]
    assert [(token["id"], token["special"]) for token in whole["added_tokens"]] == [(9, True), (10, False)]
    assert whole["post_processor"]["single"][0] == {"SpecialToken": {"id": "<s>", "type_id": 0}}


def test_byte_level_bpe_loads():
    tokenizer = loaded(BPE)
    encoded = tokenizer.encode("abc ab<user>12<s>c")
    assert encoded.ids == [9, 8, 7, 10, 4, 5, 9, 2]
    assert tokenizer.decode(encoded.ids) == "abc ab<user>12c"
    without = loaded(BPE | {"tokenizer.ggml.add_bos_token": False})
    assert without.encode("abc").ids == [8]


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "qwen2", "gpt-4o", "tekken", "llama-bpe", "default"])
def test_patterns_load(pre):
    tokenizer = loaded(BPE | {"tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": False})
    assert tokenizer.encode("ab ab12").ids == [6, 7, 4, 5]


def test_sentencepiece_merges_follow_scores():
    whole = built(SPM)
    assert whole["model"]["merges"] == [["a", "b"], [SPACE, "ab"]]
    assert whole["model"]["byte_fallback"] is True
    assert whole["model"]["unk_token"] == "<unk>"


def test_merges_of_gemma_follow_the_order_of_tokens():
    pieces = ["<unk>", "a", "b", "  ", SPACE, "ab"]
    tokens = {"tokenizer.ggml.tokens": pieces, "tokenizer.ggml.token_type": [2, 1, 1, 4, 1, 1]}
    scores = {"tokenizer.ggml.scores": [0.0, 0.0, 0.0, -1000.0, -9.0, -1.0], "tokenizer.ggml.bos_token_id": 1}
    whole = built(SPM | tokens | scores | {"general.architecture": "gemma2"})
    assert whole["model"]["merges"] == [[SPACE, SPACE], ["a", "b"]]
    assert [token["id"] for token in whole["added_tokens"]] == [0]


def test_sentencepiece_loads():
    tokenizer = loaded(SPM)
    encoded = tokenizer.encode("ab é ab")
    assert encoded.ids == [1, 263, 259, 3 + 0xC3, 3 + 0xA9, 263]
    assert tokenizer.decode(encoded.ids) == "ab é ab"
    without = loaded(SPM | {"tokenizer.ggml.add_space_prefix": False, "tokenizer.ggml.add_bos_token": False})
    assert without.encode("ab").ids == [262]


def test_whole_tokenizer_in_a_key():
    content = json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}}})
    assert tokenizer_json({"tokenizer.huggingface.json": content}, "m.gguf") == (content.encode(), "")
    with pytest.raises(ModelError):
        tokenizer_json({"tokenizer.huggingface.json": "{"}, "m.gguf")


@pytest.mark.parametrize("change", [{"tokenizer.ggml.pre": "mine"}, {"tokenizer.ggml.model": "t5"}])
def test_unknown_kinds_are_noted(change):
    content, notice = tokenizer_json(BPE | change, "m.gguf")
    assert content is None
    assert "tokenizer.json" in notice


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer.ggml.tokens": []},
        {"tokenizer.ggml.tokens": "a"},
        {"tokenizer.ggml.tokens": ["a", 1]},
        {"tokenizer.ggml.token_type": [1]},
        {"tokenizer.ggml.scores": [0.5]},
        {"tokenizer.ggml.merges": ["a x"]},
        {"tokenizer.ggml.merges": ["ab"]},
        {"tokenizer.ggml.bos_token_id": 99},
        {"tokenizer.ggml.bos_token_id": "a"},
        {"tokenizer.ggml.tokens": ["a" * (1 << 23)] * 11},
    ],
)
def test_damaged(change):
    with pytest.raises(ModelError):
        tokenizer_json(BPE | change, "m.gguf")
