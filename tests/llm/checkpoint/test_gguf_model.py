"""Decoders of GGUF files: names, changes and configs are those of Hugging Face."""

import math

import numpy as np
import pytest

from tests.support import gguf_files as files
from tests.support.gguf_files import decoder, gguf
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.llm.checkpoint import open_checkpoint
from xdlc.llm.decoder import read_decoder

RNG = np.random.default_rng(3)


def rows(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def opened(tmp_path, metadata, tensors):
    (tmp_path / "m.gguf").write_bytes(gguf(metadata, tensors))
    return open_checkpoint(tmp_path / "m.gguf")


def permuted(array, heads):
    """Return rows as llama.cpp's converter of Llama writes them."""
    halves = array.reshape(heads, 2, len(array) // heads // 2, *array.shape[1:])
    return halves.swapaxes(1, 2).reshape(array.shape)


def test_llama(tmp_path):
    q, k = rows(32, 32), rows(16, 32)
    tensors = {
        "token_embd.weight": rows(10, 32),
        "output_norm.weight": rows(32),
        "blk.0.attn_norm.weight": rows(32),
        "blk.0.attn_q.weight": permuted(q, 4),
        "blk.0.attn_k.weight": ((16, 32), files.Q8_0, files.q8_0(permuted(k, 2))),
        "blk.0.attn_v.weight": rows(16, 32),
        "blk.0.attn_output.weight": rows(32, 32),
        "blk.0.ffn_norm.weight": rows(32),
        "blk.0.ffn_gate.weight": rows(64, 32),
        "blk.0.ffn_up.weight": rows(64, 32),
        "blk.0.ffn_down.weight": rows(32, 64),
        "blk.0.attn_rot_embd.weight": rows(4),
    }
    metadata = {
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 7,
        "tokenizer.chat_template": "{{ x }}",
        "general.sampling.temp": 0.5,
    }
    checkpoint = opened(tmp_path, decoder("llama") | metadata, tensors)
    layer = "model.layers.0."
    assert sorted(checkpoint.weights) == sorted(
        [
            "model.embed_tokens.weight",
            "model.norm.weight",
            *(f"{layer}self_attn.{name}_proj.weight" for name in "qkvo"),
            *(f"{layer}mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
            f"{layer}input_layernorm.weight",
            f"{layer}post_attention_layernorm.weight",
        ]
    )
    np.testing.assert_array_equal(checkpoint.weights[f"{layer}self_attn.q_proj.weight"].floats().numpy(), q)
    key = checkpoint.weights[f"{layer}self_attn.k_proj.weight"]
    assert key.encoding.block_shape == (1, 32)
    np.testing.assert_allclose(key.floats().numpy(), k, atol=np.abs(k).max() / 127)
    assert checkpoint.weights[f"{layer}self_attn.k_proj.weight"] is key
    assert checkpoint.config["rms_norm_eps"] == 1e-6
    assert checkpoint.config["tie_word_embeddings"] is True
    facts = read_decoder(checkpoint.config)
    assert (facts.vocab, facts.hidden, facts.heads, facts.kv_heads, facts.head_dim) == (10, 32, 4, 2, 8)
    assert checkpoint.generation["bos_token_id"] == 1
    assert checkpoint.generation["eos_token_id"] == [2, 7]
    assert checkpoint.generation["temperature"] == 0.5
    assert checkpoint.chat_template == "{{ x }}"


def test_gemma_norms_and_windows(tmp_path):
    tensors = {
        "token_embd.weight": rows(10, 32),
        "blk.0.attn_norm.weight": np.full(32, 1.25),
        "blk.0.attn_q_norm.weight": np.full(8, 0.5),
        "blk.0.post_ffw_norm.weight": np.full(32, 1.0),
        "blk.0.ffn_norm.weight": np.full(32, 3.0),
    }
    metadata = decoder("gemma3", **{"attention.key_length": 8, "attention.sliding_window": 16})
    checkpoint = opened(tmp_path, metadata, tensors)
    values = {
        name: weight.floats().numpy().max() for name, weight in checkpoint.weights.items() if "layers" in name
    }
    assert values == {
        "model.layers.0.input_layernorm.weight": 0.25,
        "model.layers.0.self_attn.q_norm.weight": -0.5,
        "model.layers.0.post_feedforward_layernorm.weight": 0.0,
        "model.layers.0.pre_feedforward_layernorm.weight": 2.0,
    }
    facts = read_decoder(checkpoint.config)
    assert (facts.type, facts.windows, facts.local_rope.theta) == ("gemma3_text", (16,), 1e4)
    assert math.isclose(facts.attention_scale, 8**-0.5)


def test_gpt2_is_transposed(tmp_path):
    qkv, bias = rows(96, 32), rows(96)
    tensors = {
        "token_embd.weight": rows(10, 32),
        "position_embd.weight": rows(64, 32),
        "blk.0.attn_qkv.weight": ((96, 32), files.Q8_0, files.q8_0(qkv)),
        "blk.0.attn_qkv.bias": bias,
        "blk.0.ffn_up.weight": rows(64, 32),
    }
    checkpoint = opened(tmp_path, decoder("gpt2", **{"attention.layer_norm_epsilon": 1e-5}), tensors)
    weight = checkpoint.weights["transformer.h.0.attn.c_attn.weight"]
    assert weight.encoding.block_shape == (32, 1)
    np.testing.assert_allclose(weight.floats().numpy(), qkv.T, atol=np.abs(qkv).max() / 127)
    np.testing.assert_array_equal(
        checkpoint.weights["transformer.h.0.attn.c_attn.bias"].floats().numpy(), bias
    )
    assert checkpoint.weights["transformer.h.0.mlp.c_fc.weight"].shape == (32, 64)
    assert checkpoint.weights["transformer.wpe.weight"].shape == (64, 32)
    assert {key: checkpoint.config[key] for key in ("n_embd", "n_head", "layer_norm_epsilon")} == {
        "n_embd": 32,
        "n_head": 4,
        "layer_norm_epsilon": 1e-5,
    }


def llama3_factors(theta, dim, factor, trained, low=1.0, high=4.0):
    for index in range(dim // 2):
        turns = trained * theta ** (-2 * index / dim) / (2 * math.pi)
        share = min(1.0, max(0.0, (turns - low) / (high - low)))
        yield 1 / ((1 - share) / factor + share)


def with_factors(tmp_path, factors):
    tensors = {"token_embd.weight": rows(10, 32), "rope_freqs.weight": np.array(factors)}
    more = {"attention.key_length": 64, "rope.freq_base": 500000.0, "context_length": 131072}
    return read_decoder(opened(tmp_path, decoder("llama", **more), tensors).config).rope


@pytest.mark.parametrize(("factor", "trained"), [(8.0, 8192), (32.0, 8192), (4.0, 2048)])
def test_scaling_of_llama3(tmp_path, factor, trained):
    rope = with_factors(tmp_path, list(llama3_factors(500000.0, 64, factor, trained)))
    assert (rope.scaling, rope.facts["factor"]) == ("llama3", factor)
    assert rope.facts["original_max_position_embeddings"] == trained


def test_other_factors_are_kept(tmp_path):
    factors = [1.0 + 0.125 * index for index in range(32)]
    rope = with_factors(tmp_path, factors)
    plain = [500000.0 ** (-index / 32) for index in range(32)]
    for context in (64, 1 << 20):
        expected = [frequency / factor for frequency, factor in zip(plain, factors, strict=True)]
        np.testing.assert_allclose(rope.frequencies(context), expected)
    assert rope.magnitude == 1.0


def test_scalings_by_key_and_by_tensor(tmp_path):
    embedding = {"token_embd.weight": rows(10, 32)}
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    rope = read_decoder(opened(tmp_path, decoder("llama", **linear), embedding).config).rope
    assert (rope.scaling, rope.facts["factor"]) == ("linear", 4.0)
    factors = {
        f"rope_factors_{name}.weight": np.full(4, size) for name, size in (("long", 2), ("short", 1.5))
    }
    more = {"rope.scaling.original_context_length": 16, "rope.scaling.attn_factor": 1.25}
    rope = read_decoder(opened(tmp_path, decoder("phi3", **more), embedding | factors).config).rope
    assert (rope.scaling, rope.magnitude) == ("longrope", 1.25)
    assert rope.frequencies(64)[0] == 0.5


def test_keys_of_granite_and_smollm3(tmp_path):
    embedding = {"token_embd.weight": rows(10, 32), "output.weight": rows(10, 32)}
    more = {"attention.scale": 0.5, "embedding_scale": 12.0, "residual_scale": 0.25, "logit_scale": 8.0}
    facts = read_decoder(opened(tmp_path, decoder("granite", **more), embedding).config)
    assert (facts.attention_scale, facts.embedding_factor, facts.residual_factor) == (0.5, 12, 0.25)
    assert (facts.logits_factor, facts.tied) == (1 / 8, False)
    facts = read_decoder(opened(tmp_path, decoder("smollm3", layers=5), embedding).config)
    assert facts.rotates == (True, True, True, False, True)


def test_float_offsets_are_noted(tmp_path):
    raw = bytes(20 * 10)
    checkpoint = opened(tmp_path, decoder("llama"), {"token_embd.weight": ((10, 32), files.Q4_1, raw)})
    assert "Q4_1" in checkpoint.notices[0]
    assert checkpoint.weights["model.embed_tokens.weight"].encoding is None


@pytest.mark.parametrize(
    ("change", "tensors", "error"),
    [
        ({"general.architecture": "mamba"}, {}, UnsupportedOp),
        ({"general.architecture": 3}, {}, UnsupportedOp),
        ({"llama.attention.head_count": [4, 2]}, {}, UnsupportedOp),
        ({}, {"blk.0.ffn_gate_exps.weight": rows(2, 4, 8)}, UnsupportedOp),
        ({}, {"other.weight": rows(2)}, UnsupportedOp),
        ({}, {"blk.0.attn_q.scale": rows(2)}, UnsupportedOp),
        ({}, {"token_embd.weight": None}, ModelError),
        ({}, {"blk.0.attn_k.weight": rows(6, 32)}, ModelError),
        ({}, {"rope_freqs.weight": rows(2, 2)}, ModelError),
        ({}, {"rope_freqs.weight": np.zeros(4)}, ModelError),
        ({"llama.embedding_length": 0}, {}, ModelError),
        ({"llama.block_count": "two"}, {}, ModelError),
        ({"llama.attention.head_count": 0}, {}, ModelError),
    ],
)
def test_refusals(tmp_path, change, tensors, error):
    whole = {"token_embd.weight": rows(10, 32), **tensors}
    with pytest.raises(error) as raised:
        opened(
            tmp_path,
            decoder("llama") | change,
            {key: each for key, each in whole.items() if each is not None},
        )
    assert raised.value.fix
    assert "m.gguf" in raised.value.where
